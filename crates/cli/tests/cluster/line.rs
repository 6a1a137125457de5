//! Jobs of an ordering key that are asked for while something is done to the cluster.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bellwether_api::{JobStatus, RunStatus};
use bellwether_client::Client;
use jiff::Timestamp;
use serde_json::json;

use crate::order::in_order;
use crate::random::Random;
use crate::record::Record;
use crate::server::{PATIENCE, Server, until};

/// What the keys of the jobs begin with.
const PREFIX: &str = "line-";
/// What a command takes, in seconds.
const TAKES: f64 = 0.1;
/// How soon jobs are due.
const DUE: Duration = Duration::from_millis(300);

/// The jobs of an ordering key, and what they really did.
pub struct Line {
    record: Record,
    due: Timestamp,
    /// The ids of those that were acknowledged.
    acknowledged: Vec<String>,
}

impl Line {
    /// Nothing yet. What jobs do is written down in a directory.
    pub async fn new(dir: &Path) -> Line {
        let record = Record::begin(dir, "127.0.0.1").await;
        Line { record, due: Timestamp::now(), acknowledged: Vec::new() }
    }

    /// Asks for jobs until it is over, each after the one before was acknowledged, and due after it.
    pub async fn go_on(
        mut self,
        clients: Vec<Client>,
        over: Arc<AtomicBool>,
        mut random: Random,
    ) -> Line {
        while !over.load(Ordering::Relaxed) {
            random.moment_within(300).await;
            self.due = (self.due + Duration::from_millis(1)).max(Timestamp::now() + DUE);
            let spec = json!({
                "key": format!("{PREFIX}{}", self.acknowledged.len()),
                "schedule": {"at": format!("{:.3}", self.due)},
                "command": self.record.command(TAKES),
                "delivery": "at_most_once",
                "ordering_key": "line",
                "on_failure": "continue",
            });
            let begun = Instant::now();
            let id = loop {
                let client = &clients[random.below(clients.len() as u64) as usize];
                match client.create_job(serde_json::from_value(spec.clone()).unwrap()).await {
                    Ok(created) => break created.job.info.id,
                    Err(error) => {
                        let told = error.status();
                        assert!(told.is_none() || told == Some(503), "{error}");
                        assert!(begun.elapsed() < PATIENCE, "nobody takes {spec}: {error}");
                    }
                }
                random.moment_within(50).await;
            };
            self.acknowledged.push(id);
        }
        self
    }

    /// Waits until all have ended, and checks that they ran in order, one at a time and at most once.
    /// How many ran.
    pub async fn check(&self, server: &Server) -> usize {
        let mut completed = 0;
        for id in &self.acknowledged {
            let mut job = None;
            until(&format!("{id} ends"), async || {
                let info = server.client.job(id).await.unwrap().info;
                let ended = !matches!(info.status, JobStatus::Scheduled | JobStatus::Running);
                job = Some(info);
                ended
            })
            .await;
            let job = job.unwrap();
            let effects = self.record.read();
            let run = job.last_run.as_ref();
            let began = |id: &str| effects.iter().filter(|e| e.begins() && e.run == id).count();
            let times = run.map_or(0, |run| began(&run.id));
            match job.status {
                JobStatus::Completed => assert_eq!(times, 1, "R64/R65: {job:?}"),
                JobStatus::Failed if run.is_some_and(|run| run.status == RunStatus::Lost) => {
                    assert!(times <= 1, "R64/R65: {job:?}");
                }
                _ => panic!("neither run nor lost: {job:?}"),
            }
            completed += times;
        }
        in_order(PREFIX, &self.record.read());
        println!("{completed} of {} ran in order", self.acknowledged.len());
        completed
    }
}
