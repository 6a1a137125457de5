//! The load, and what the server has promised about it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bellwether_api::{JobSpec, JobStatus, PauseRequest};
use jiff::Timestamp;
use tokio::task::JoinHandle;

use crate::insist::insist;
use crate::random::Random;
use crate::server::Server;

/// What a job was promised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// At most once.
    AtMostOnce,
    /// At least once.
    AtLeastOnce,
    /// At most once, one after the other.
    Ordered,
}

/// A job that the server has acknowledged.
#[derive(Clone, Debug)]
pub struct Promise {
    /// Its id.
    pub id: String,
    /// What it was promised.
    pub kind: Kind,
}

/// All that the server has promised.
pub struct Promises {
    record: PathBuf,
    /// Jobs that were acknowledged.
    pub jobs: Vec<Promise>,
    /// Recurring jobs that were acknowledged.
    pub recurring: Vec<String>,
    /// When they were acknowledged, or later.
    pub since: Option<Timestamp>,
    /// When they were paused, or earlier.
    pub until: Option<Timestamp>,
}

/// What was acknowledged so far in a round.
pub type Kept = Arc<Mutex<Vec<Promise>>>;

impl Promises {
    /// Nothing yet. Attempts write to `record`.
    pub fn new(record: &Path) -> Promises {
        let record = record.to_owned();
        Promises { record, jobs: Vec::new(), recurring: Vec::new(), since: None, until: None }
    }

    /// A job that writes to the record after a while.
    pub fn spec(&self, kind: Kind, delay_ms: u64) -> JobSpec {
        let mut spec = serde_json::json!({
            "schedule": { "delay": format!("{delay_ms}ms") },
            "command": line(&self.record),
        });
        match kind {
            Kind::AtMostOnce => {}
            Kind::AtLeastOnce => spec["retries"] = 3.into(),
            Kind::Ordered => {
                spec["ordering_key"] = "the-one".into();
                spec["on_failure"] = "continue".into();
            }
        }
        serde_json::from_value(spec).unwrap()
    }

    /// Two jobs that tick every second and are to be launched at most once a tick.
    pub async fn add_recurring(&mut self, server: &Server) {
        for overlap in ["skip", "allow"] {
            let spec = serde_json::json!({
                "key": format!("every-second-{overlap}"),
                "schedule": { "every": "1s" },
                "command": line(&self.record),
                "overlap": overlap,
                "retention": { "runs": 100_000 },
            });
            let spec: JobSpec = serde_json::from_value(spec).unwrap();
            let created = insist(async || server.client.create_job(spec.clone()).await).await;
            self.recurring.push(created.job.info.id);
        }
        self.since = Some(Timestamp::now());
    }

    /// Creates jobs as fast as the server takes them, until it is gone.
    pub fn load(&self, server: &Server, random: &mut Random, round: u64) -> (Kept, JoinHandle<()>) {
        let kept = Kept::default();
        let mut jobs = Vec::new();
        for _ in 0..60 {
            let kind = match random.below(8) {
                0..=3 => Kind::AtMostOnce,
                4..=6 => Kind::AtLeastOnce,
                _ => Kind::Ordered,
            };
            jobs.push((kind, self.spec(kind, random.below(700))));
        }
        let (client, acknowledged) = (server.client.clone(), kept.clone());
        let load = tokio::spawn(async move {
            for (kind, spec) in jobs {
                match client.create_job(spec).await {
                    Ok(created) => {
                        let id = created.job.info.id;
                        acknowledged.lock().unwrap().push(Promise { id, kind });
                    }
                    Err(error) if error.problem().is_none() => return, // It was killed.
                    Err(error) => panic!("round {round}: {error}"),
                }
            }
        });
        (kept, load)
    }

    /// Notes what was acknowledged in a round.
    pub fn keep(&mut self, kept: Kept) {
        self.jobs.extend(kept.lock().unwrap().iter().cloned());
    }

    /// Pauses the recurring jobs, so that their ledgers stand still.
    pub async fn stop_recurring(&mut self, server: &Server) {
        self.until = Some(Timestamp::now());
        for job in &self.recurring {
            let why = PauseRequest::default();
            insist(async || server.client.pause_job(job, &why).await).await;
        }
    }

    /// Waits until every acknowledged job has ended.
    pub async fn wait_until_all_ended(&self, server: &Server) {
        let begun = Instant::now();
        let mut look = tokio::time::interval(Duration::from_millis(20));
        for promise in &self.jobs {
            loop {
                let job = server.client.job(&promise.id).await;
                let job =
                    job.unwrap_or_else(|error| panic!("{} was acknowledged: {error}", promise.id));
                if !matches!(job.info.status, JobStatus::Scheduled | JobStatus::Running) {
                    break;
                }
                let stuck = begun.elapsed() > Duration::from_secs(120);
                assert!(!stuck, "{} does not end: {:?}", promise.id, job.info);
                look.tick().await;
            }
        }
        for job in &self.recurring {
            loop {
                let found = server.client.job(job).await.unwrap();
                let Some(open) = found.info.open_runs.first() else { break };
                if begun.elapsed() > Duration::from_secs(120) {
                    let run = server.client.run(open).await;
                    panic!("{job} does not end: {:?}, {run:?}", found.info);
                }
                look.tick().await;
            }
        }
    }
}

/// Appends what is running to the record. A single small write to a file opened for appending is
/// not torn.
fn line(record: &Path) -> String {
    format!(
        "echo \"$BELLWETHER_RUN_ID $BELLWETHER_ATTEMPT $BELLWETHER_FENCING_TOKEN\" >> {}",
        record.display()
    )
}
