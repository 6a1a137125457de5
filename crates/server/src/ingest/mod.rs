//! Jobs that come through a broker instead of the API.
//!
//! ```text
//!   broker ──messages──► Intake ──create_all──► shards ──commit──► engine
//!     ▲                    │ after the commit
//!     └──── acknowledge ───┘
//! ```
//!
//! A message is acknowledged only after its jobs are durable. If the server dies in between, the
//! message comes again, and the key of each job (or the message's id in its place) makes creating
//! it again the same as having created it. A message that can never be accepted is logged and
//! given to the broker's dead letters; one that cannot be stored now goes back to the broker.
//!
//! What is deliberately absent: streams, consumers' streams and queues are not made here; they are
//! the operator's. Only the durable consumer of a stream is made if it is not there.

mod amqp;
mod intake;
mod nats;
mod source;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bellwether_api::Problem;
use bellwether_worker::Trust;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::node::Node;
use intake::Intake;
use source::Kind;
pub use source::Source;

/// Messages taken at once.
const AT_ONCE: usize = 256;
/// When a message that could not be stored is to come again.
const LATER: Duration = Duration::from_secs(1);
/// The first and the longest pause before a broken connection is made again.
const PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// Starts reading from all sources of the settings, until `stop`.
///
/// # Errors
/// When the file of certificate authorities cannot be used.
pub fn start(node: &Arc<Node>, stop: &CancellationToken) -> anyhow::Result<TaskTracker> {
    let tasks = TaskTracker::new();
    if !node.config.ingest.is_empty() {
        let trust = Arc::new(Trust::new(node.config.http_ca_file.as_deref())?);
        for source in node.config.ingest.clone() {
            tasks.spawn(keep_reading(node.clone(), source, trust.clone(), stop.clone()));
        }
    }
    tasks.close();
    Ok(tasks)
}

/// Reads from a source, and connects again whenever the connection breaks.
async fn keep_reading(node: Arc<Node>, source: Source, trust: Arc<Trust>, stop: CancellationToken) {
    let name = source.name();
    let intake = Intake::new(node, name.clone(), source.namespace.clone());
    let mut pause = PAUSE.0;
    loop {
        let begun = Instant::now();
        let read = match &source.kind {
            Kind::Nats { stream, consumer, subject } => {
                let subject = subject.as_deref();
                let reading = nats::Reading { url: &source.url, stream, consumer, subject };
                nats::read(&reading, &trust, &intake, &stop).await
            }
            Kind::Amqp { queue } => amqp::read(&source.url, queue, &trust, &intake, &stop).await,
        };
        if stop.is_cancelled() {
            return;
        }
        if begun.elapsed() > PAUSE.1 {
            pause = PAUSE.0;
        }
        let error = read.err().unwrap_or_default();
        tracing::warn!(source = name, error, retry_in = ?pause, "jobs cannot be read");
        if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
            return;
        }
        pause = (pause * 2).min(PAUSE.1);
    }
}

/// Says why a message was given up.
fn log_refused(place: &str, id: Option<&str>, problem: &Problem) {
    tracing::warn!(
        from = place,
        id,
        code = problem.code,
        field = problem.field,
        detail = problem.detail,
        "a message is not a job and was given to the dead letters"
    );
}
