//! Workers that are connections of this process: many of them, over the code that real ones use,
//! each of which writes down what it is given.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bellwether_agent::protocol::{
    Assignment, Ending, Finished, Held, Report, Welcome, capacity, report,
};
use bellwether_agent::{Handle, Identity, Options, Runner, Session, StopWhy, now_ms};
use bellwether_api::JobSpec;
use bellwether_client::Client;
use parking_lot::{Condvar, Mutex};
use tokio::runtime::Runtime;

use crate::support::{PATIENCE, Server};

/// A worker was given a run.
#[derive(Clone, Debug)]
pub struct Claim {
    pub worker: usize,
    pub run: String,
    pub at: Instant,
}

/// What all workers of a pool have seen.
#[derive(Default)]
struct Book {
    connected: usize,
    claims: Vec<Claim>,
}

#[derive(Default)]
struct Shared {
    book: Mutex<Book>,
    changed: Condvar,
}

/// Workers of one queue.
pub struct Pool {
    shared: Arc<Shared>,
    runtime: Runtime,
    client: Client,
    pub queue: &'static str,
}

/// What a pool does with what it is given.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Habit {
    /// Ends it at once, well.
    Finishes,
    /// Keeps it for ever.
    Keeps,
}

struct Simulated {
    number: usize,
    habit: Habit,
    shared: Arc<Shared>,
    handle: Handle,
}

impl Runner for Simulated {
    fn welcomed(&self, _: &Welcome) {
        self.shared.book.lock().connected += 1;
        self.shared.changed.notify_all();
    }

    fn start(&self, assignment: Assignment) {
        let Assignment { run, token, .. } = assignment;
        let claim = Claim { worker: self.number, run: run.clone(), at: Instant::now() };
        self.shared.book.lock().claims.push(claim);
        self.shared.changed.notify_all();
        if self.habit == Habit::Finishes {
            let finished = Finished {
                started_ms: Some(now_ms()),
                finished_ms: now_ms(),
                ending: Ending::Succeeded.into(),
                ..Finished::default()
            };
            let what = Some(report::What::Finished(finished));
            self.handle.report(Report { run, token, what });
        }
    }

    fn stop(&self, _: &Held, _: StopWhy) {}
}

impl Pool {
    /// Connects so many workers, and waits until all are.
    pub fn connect(
        server: &Server,
        queue: &'static str,
        count: usize,
        slots: u32,
        habit: Habit,
    ) -> Pool {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let shared = Arc::new(Shared::default());
        for number in 0..count {
            let identity = Identity {
                name: format!("{queue}-{number}"),
                version: "simulated".to_owned(),
                queues: vec![queue.to_owned()],
                labels: Default::default(),
                capacity: capacity::Mode::Slots(slots),
                commands: false,
                http: false,
                job_types: vec!["simulated".to_owned()],
            };
            let options = Options::new(vec![server.address.parse().unwrap()], identity);
            let (session, handle) = Session::new(options).unwrap();
            let runner = Simulated { number, habit, shared: shared.clone(), handle };
            runtime.spawn(session.run(Arc::new(runner)));
        }
        let client = Client::new(&server.address).unwrap();
        let pool = Pool { shared, runtime, client, queue };
        pool.wait_until("all are connected", |book| book.connected == count);
        pool
    }

    /// Adds so many jobs that are due now; the ids of their runs.
    pub fn add(&self, count: usize) -> Vec<String> {
        let spec = serde_json::json!({
            "schedule": {"delay": "0s"}, "queue": self.queue, "job_type": "simulated",
        });
        let spec: JobSpec = serde_json::from_value(spec).unwrap();
        let answer = self.runtime.block_on(self.client.create_jobs(&vec![spec; count])).unwrap();
        let jobs = answer.results.iter().map(|job| job.id.as_deref().unwrap());
        jobs.map(|id| format!("{}-1", id.replacen("job_", "run_", 1))).collect()
    }

    /// What its workers were given, once that is as much as expected.
    pub fn claims(&self, count: usize) -> Vec<Claim> {
        self.wait_until("claims", |book| book.claims.len() >= count);
        self.shared.book.lock().claims.clone()
    }

    fn wait_until(&self, what: &str, holds: impl Fn(&Book) -> bool) {
        let until = Instant::now() + PATIENCE;
        let mut book = self.shared.book.lock();
        while !holds(&book) {
            let late = self.shared.changed.wait_until(&mut book, until).timed_out();
            let (connected, claims) = (book.connected, book.claims.len());
            assert!(!late, "{what}: {connected} connected, {claims} claims");
        }
    }

    /// What the server counts.
    pub fn metric(&self, name: &str) -> u64 {
        let text = self.runtime.block_on(self.client.metrics()).unwrap();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {name} in {text}")).parse().unwrap()
    }

    /// How long each of so many runs waited for its worker, one after the other.
    pub fn waits(&self, count: usize) -> Vec<Duration> {
        let before = self.shared.book.lock().claims.len();
        let wait = |number: usize| {
            let begun = Instant::now();
            self.add(1);
            self.claims(before + number + 1)[before + number].at - begun
        };
        (0..count).map(wait).collect()
    }
}
