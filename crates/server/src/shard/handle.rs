//! A shard as others see it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bellwether_core::id::RunId;
use bellwether_core::turn::{Halt, Input, Rejection, Reply, Report, Tally};
use bellwether_core::waist::{Shard, StoreError};
use crossbeam_channel::Sender;
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Requests that may wait in a shard before new ones are turned away.
const REQUESTS_MAX: u64 = 20_000;

/// Why a request to a shard came to nothing.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Failure {
    /// The caller's fault.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The shard has more to do than it can.
    #[error("the server is overloaded; try again in a moment")]
    Overloaded,
    /// The shard has stopped, or the server is stopping.
    #[error("the shard is not running; try again in a moment")]
    Stopped,
    /// The store has failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<Halt> for Failure {
    fn from(halt: Halt) -> Failure {
        match halt {
            Halt::Rejected(rejection) => Failure::Rejected(rejection),
            Halt::Store(error) => Failure::Store(error),
        }
    }
}

/// Where the answer to a request goes.
pub(super) type Answer = oneshot::Sender<Result<Reply, Failure>>;

/// What a shard's thread is told.
pub(super) enum Message {
    /// Decide, and answer once it is durable.
    Request(Box<Input>, Answer),
    /// What workers say, and who wants to know once it is durable.
    Reports(Vec<Report>, Option<oneshot::Sender<()>>),
    /// Nobody can say any more what became of an attempt.
    Lost(RunId, u64, String),
    /// Look again: a worker has free slots.
    Wake,
    /// Somebody does or does not listen to notices.
    Listen(bool),
    /// Answer once everything decided so far has been committed and performed.
    Barrier(oneshot::Sender<()>),
    /// Stop after what is in the inbox.
    Stop,
}

/// Figures of a shard, kept up to date by its thread.
#[derive(Debug, Default)]
pub struct ShardStatus {
    /// The term under which it acts.
    pub term: AtomicU64,
    /// Open runs.
    pub open_runs: AtomicU64,
    /// Entries of the due index in memory.
    pub wheel_entries: AtomicU64,
    /// Requests that wait.
    pub requests: AtomicU64,
    /// Whether a wake-up is on its way, so that there are not thousands.
    pub(super) waking: AtomicBool,
    /// What was decided so far.
    pub tally: Mutex<Tally>,
    /// Runs that wait for a worker, by queue.
    pub ready: Mutex<Vec<(String, u64)>>,
}

/// Something that a shard was asked for.
pub struct Asked(oneshot::Receiver<Result<Reply, Failure>>);

impl Asked {
    /// Waits until it is durable.
    ///
    /// # Errors
    /// When it was rejected or could not be decided.
    pub async fn answer(self) -> Result<Reply, Failure> {
        self.0.await.unwrap_or(Err(Failure::Stopped))
    }
}

/// A running shard.
#[derive(Clone)]
pub struct ShardHandle {
    /// Its number.
    pub shard: Shard,
    /// Its figures.
    pub status: Arc<ShardStatus>,
    pub(super) inbox: Sender<Message>,
}

impl ShardHandle {
    /// Asks for a decision, and waits until it is durable.
    ///
    /// # Errors
    /// When it was rejected or could not be made.
    pub async fn ask(&self, input: Input) -> Result<Reply, Failure> {
        self.ask_later(input)?.answer().await
    }

    /// Asks for a decision, and lets the caller wait later. What is asked first is decided first.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub fn ask_later(&self, input: Input) -> Result<Asked, Failure> {
        if self.status.requests.load(Ordering::Relaxed) >= REQUESTS_MAX {
            return Err(Failure::Overloaded);
        }
        let (sender, answer) = oneshot::channel();
        self.status.requests.fetch_add(1, Ordering::Relaxed);
        if self.inbox.send(Message::Request(Box::new(input), sender)).is_err() {
            return Err(Failure::Stopped);
        }
        Ok(Asked(answer))
    }

    /// Passes on what workers say. Nothing is lost while the shard runs.
    pub fn report(&self, reports: Vec<Report>) {
        // If the shard has stopped, its next leader resolves the runs by their delivery policy.
        let _ = self.inbox.send(Message::Reports(reports, None));
    }

    /// Passes on what workers say. The answer comes once it is durable, and never if the shard has
    /// stopped before.
    pub fn report_durably(&self, reports: Vec<Report>) -> oneshot::Receiver<()> {
        let (sender, answer) = oneshot::channel();
        let _ = self.inbox.send(Message::Reports(reports, Some(sender)));
        answer
    }

    /// Passes on that nobody can say any more what became of an attempt.
    pub fn lost(&self, run: RunId, token: u64, detail: String) {
        let _ = self.inbox.send(Message::Lost(run, token, detail));
    }

    /// Makes the shard look again for runs that can be claimed.
    pub fn wake(&self) {
        if !self.status.waking.swap(true, Ordering::AcqRel) {
            let _ = self.inbox.send(Message::Wake);
        }
    }

    /// Says whether somebody listens to notices.
    pub fn listen(&self, on: bool) {
        let _ = self.inbox.send(Message::Listen(on));
    }

    /// Waits until everything the shard has been asked so far, and everything it was deciding, has
    /// been committed and performed.
    pub async fn barrier(&self) {
        let (sender, answer) = oneshot::channel();
        if self.inbox.send(Message::Barrier(sender)).is_ok() {
            let _ = answer.await;
        }
    }

    /// Makes the shard stop after what it has been asked so far.
    pub fn stop(&self) {
        let _ = self.inbox.send(Message::Stop);
    }
}
