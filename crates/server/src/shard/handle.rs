//! A shard as others see it, wherever its leader is.
//!
//! While this node leads the shard, what it is asked goes into the inbox of its thread. Otherwise it
//! goes into its outbox (see `outbox`), which brings it to whoever leads. When the leader changes,
//! what has not been decided changes its way as well, in order, and nobody has to ask again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bellwether_core::bounds::Answer as Left;
use bellwether_core::id::RunId;
use bellwether_core::turn::{
    Assignment, Halt, Input, Lane, Rejection, Reply, Report, Tally, Turnstile,
};
use bellwether_core::waist::{Shard, StoreError};
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, mpsc, oneshot, watch};

use super::inbox::Inbox;

/// Requests that may wait in a shard before new ones are turned away.
const REQUESTS_MAX: u64 = 20_000;
/// How long a request may take altogether: longer than it waits for a leader, and that may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

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
    /// Nobody leads the shard, or nobody could be reached who does. Nothing was decided.
    #[error("shard {0} has no leader that can be reached; try again in a moment")]
    NoLeader(Shard),
    /// The leader changed, or could not be reached any more, while it was being decided.
    #[error(
        "the leader of shard {0} changed while this was being done; it is not known whether it was \
         done: look before you try again"
    )]
    Unknown(Shard),
    /// The store has failed.
    #[error(transparent)]
    Store(StoreError),
}

impl Failure {
    /// The same where part of what was asked for has been done before: that nothing was decided would
    /// not be true.
    #[must_use]
    pub fn after_part(self, shard: Shard) -> Failure {
        match self {
            Failure::NoLeader(_) | Failure::Overloaded | Failure::Stopped => {
                Failure::Unknown(shard)
            }
            failure => failure,
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        match error {
            StoreError::Unreachable { shard } => Failure::NoLeader(shard),
            error => Failure::Store(error),
        }
    }
}

impl From<Halt> for Failure {
    fn from(halt: Halt) -> Failure {
        match halt {
            Halt::Rejected(rejection) => Failure::Rejected(rejection),
            Halt::Store(error) => error.into(),
        }
    }
}

/// Where the answer to a request goes.
pub type Answer = oneshot::Sender<Result<Reply, Failure>>;

/// What a shard is asked or told, whoever leads it.
pub enum Item {
    /// Decide, and answer once it is durable.
    Request(Box<Input>, Answer),
    /// What workers say, and who wants to know once it is durable.
    Reports(Vec<Report>, Option<oneshot::Sender<()>>),
    /// Nobody can say any more what became of an attempt.
    Lost(RunId, u64, String),
}

impl Item {
    /// Whether it is about what workers do, and so must keep its place.
    pub(super) fn is_said(&self) -> bool {
        matches!(self, Item::Reports(..) | Item::Lost(..))
    }
}

/// Slots of a worker elsewhere that were set aside for runs of a lane.
#[derive(Clone, PartialEq, Debug)]
pub struct Grant {
    /// The lane.
    pub lane: Lane,
    /// The worker.
    pub worker: Arc<str>,
    /// How many.
    pub slots: usize,
    /// Whether other workers have room for the same.
    pub others: bool,
}

/// What came of grants: durable claims.
#[derive(Clone, PartialEq, Debug)]
pub struct Claimed {
    /// What was claimed.
    pub assignments: Vec<Assignment>,
    /// What still waits.
    pub heads: Vec<(Lane, Turnstile, usize)>,
    /// The term under which the shard acts.
    pub term: u64,
}

/// What a shard's thread is told.
pub(super) enum Message {
    /// Claim for workers elsewhere, and answer once that is durable.
    Claim(Vec<Grant>, oneshot::Sender<Claimed>),
    /// What anybody may ask of any leader.
    Item(Item),
    /// The same, brought by another node: it brings what is not decided here to the next leader.
    Brought(Box<Input>, Answer),
    /// What the shard is left of the bounds of a queue.
    Left(Left),
    /// Somebody else keeps the bounds of queues, or wants to hear all again.
    SayBounds,
    /// Look again: a worker has free slots.
    Wake,
    /// Somebody does or does not listen to notices.
    Listen(bool),
    /// Answer once everything decided so far has been committed and performed.
    Barrier(oneshot::Sender<()>),
    /// Stop after what is in the inbox.
    Stop,
    /// Stop at once: another node leads.
    Resign,
}

/// Figures of a shard, kept up to date by its thread while this node leads it.
#[derive(Debug, Default)]
pub struct ShardStatus {
    /// The term under which it acts; 0 if it does not act here.
    pub term: AtomicU64,
    /// Open runs.
    pub open_runs: AtomicU64,
    /// Entries of the due index in memory.
    pub wheel_entries: AtomicU64,
    /// Requests that wait.
    pub requests: AtomicU64,
    /// Whether a wake-up is on its way, so that there are not thousands.
    pub(super) waking: AtomicBool,
    /// Whether somebody listens to notices.
    pub(super) listened_to: AtomicBool,
    /// Whether others have replicas: then another may lead at any time, and what workers said is
    /// kept until it is durable.
    pub(super) shared: AtomicBool,
    /// What was decided since the server was started.
    pub counted: Mutex<Counted>,
    /// Runs that wait for a worker, by queue.
    pub ready: Mutex<Vec<(String, u64)>>,
    /// Runs that are with workers, by queue.
    pub running: Mutex<Vec<(String, u64)>>,
}

/// What a shard has decided on this node, in all the terms that it was led here. It never becomes
/// less: whoever reads counters would take that for a restart.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted {
    /// In the terms before.
    before: Tally,
    /// In the one in which it acts.
    now: Tally,
}

impl Counted {
    /// All of it.
    #[must_use]
    pub fn so_far(&self) -> Tally {
        let mut sum = self.before;
        sum += self.now;
        sum
    }

    /// In this term it is so much by now.
    pub(super) fn set(&mut self, now: Tally) {
        self.now = now;
    }

    /// The term is over.
    fn end(&mut self) {
        *self = Counted { before: self.so_far(), now: Tally::default() };
    }
}

/// Something that a shard was asked for.
pub struct Asked(Shard, oneshot::Receiver<Result<Reply, Failure>>);

impl Asked {
    /// Waits until it is durable, but not for ever: a leader that is cut off from the others cannot
    /// commit, and does not know whether they have what it sent them.
    ///
    /// # Errors
    /// When it was rejected or could not be decided.
    pub async fn answer(self) -> Result<Reply, Failure> {
        match tokio::time::timeout(ANSWER_WITHIN, self.1).await {
            Ok(answer) => answer.unwrap_or(Err(Failure::Stopped)),
            Err(_) => Err(Failure::Unknown(self.0)),
        }
    }
}

struct Way {
    /// The inbox of its thread, while it acts here.
    inbox: RwLock<Option<Arc<Inbox>>>,
    /// Brings it to whoever leads.
    outbox: mpsc::UnboundedSender<Item>,
    /// What the thread had not decided when it ended. It was said before all that is in the outbox.
    given_back: Mutex<VecDeque<Item>>,
    /// Tells that there is some.
    gave_back: Notify,
    /// How much of what workers say is in the outbox or on its way from there.
    unsaid: AtomicUsize,
    /// Whether it acts here.
    acting: watch::Sender<bool>,
    /// Whether this node is about to let another lead it.
    giving: watch::Sender<bool>,
    /// Wakes whoever claims for the workers of this node while it acts elsewhere.
    afar: Notify,
}

/// While this is there, the shard does not act on this node, even if it leads.
pub struct Giving(Arc<Way>);

impl Drop for Giving {
    fn drop(&mut self) {
        self.0.giving.send_replace(false);
    }
}

/// A shard.
#[derive(Clone)]
pub struct ShardHandle {
    /// Its number.
    pub shard: Shard,
    /// Its figures.
    pub status: Arc<ShardStatus>,
    way: Arc<Way>,
}

impl ShardHandle {
    /// A shard that does not act here yet, and what is to be brought to whoever leads it.
    #[must_use]
    pub fn new(shard: Shard) -> (ShardHandle, mpsc::UnboundedReceiver<Item>) {
        let (outbox, items) = mpsc::unbounded_channel();
        let way = Way {
            inbox: RwLock::new(None),
            outbox,
            given_back: Mutex::default(),
            gave_back: Notify::new(),
            unsaid: AtomicUsize::new(0),
            acting: watch::Sender::new(false),
            giving: watch::Sender::new(false),
            afar: Notify::new(),
        };
        let handle = ShardHandle { shard, status: Arc::default(), way: Arc::new(way) };
        (handle, items)
    }

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
        self.pass(Item::Request(Box::new(input), sender));
        Ok(Asked(self.shard, answer))
    }

    /// Passes on what workers say. Nothing is lost while this process runs.
    pub fn report(&self, reports: Vec<Report>) {
        self.pass(Item::Reports(reports, None));
    }

    /// Passes on what workers say. The answer comes once it is durable.
    pub fn report_durably(&self, reports: Vec<Report>) -> oneshot::Receiver<()> {
        let (sender, answer) = oneshot::channel();
        self.pass(Item::Reports(reports, Some(sender)));
        answer
    }

    /// Passes on that nobody can say any more what became of an attempt.
    pub fn lost(&self, run: RunId, token: u64, detail: String) {
        self.pass(Item::Lost(run, token, detail));
    }

    /// Passes something on to whoever leads. If this process ends before that is done, the next
    /// leader resolves the runs by their delivery policy.
    ///
    /// What a worker says never overtakes what was said before, also if the shard begins to act here
    /// meanwhile: that a run was given back, said before that it has ended, would start it again.
    pub(super) fn pass(&self, item: Item) {
        let inbox = self.way.inbox.read();
        let behind = item.is_said() && self.way.unsaid.load(Ordering::Acquire) > 0;
        match &*inbox {
            Some(inbox) if !behind => inbox.put(Message::Item(item)),
            // Still under the lock: once the shard acts here, everything from before is in the outbox.
            _ => self.send_afar(item),
        }
    }

    fn send_afar(&self, item: Item) {
        self.way.unsaid.fetch_add(usize::from(item.is_said()), Ordering::AcqRel);
        let _ = self.way.outbox.send(item);
    }

    /// So much of what workers say has left the outbox for good.
    pub(super) fn has_said(&self, count: usize) {
        self.way.unsaid.fetch_sub(count, Ordering::AcqRel);
    }

    /// Takes a request that another node has brought. False if the shard does not act here.
    pub fn take_request(&self, input: Box<Input>, answer: Answer) -> bool {
        self.status.requests.fetch_add(1, Ordering::Relaxed);
        let taken = self.tell(Message::Brought(input, answer));
        if !taken {
            self.status.requests.fetch_sub(1, Ordering::Relaxed);
        }
        taken
    }

    /// Passes something on to the thread of the shard, if it acts here; else gives it back.
    ///
    /// # Errors
    /// When it does not act here.
    pub fn pass_here(&self, item: Item) -> Result<(), Item> {
        // The lock is held while it is sent: once the inbox has been closed, nothing gets into it.
        let inbox = self.way.inbox.read();
        match &*inbox {
            // What was given back goes first.
            Some(inbox) if self.way.given_back.lock().is_empty() => {
                inbox.put(Message::Item(item));
            }
            _ => return Err(item),
        }
        Ok(())
    }

    /// Takes what the thread had not decided when it ended.
    pub(super) fn take_given_back(&self) -> VecDeque<Item> {
        std::mem::take(&mut *self.way.given_back.lock())
    }

    /// Waits until a thread has given something back.
    pub(super) async fn gave_back(&self) {
        self.way.gave_back.notified().await;
    }

    fn tell(&self, message: Message) -> bool {
        self.way.inbox.read().as_ref().map(|inbox| inbox.put(message)).is_some()
    }

    /// Makes the shard look again for runs that can be claimed, wherever it acts.
    pub fn wake(&self) {
        if !self.status.waking.swap(true, Ordering::AcqRel) && !self.tell(Message::Wake) {
            self.status.waking.store(false, Ordering::Release);
            self.way.afar.notify_one();
        }
    }

    /// Wakes whoever claims for the workers of this node.
    pub fn wake_afar(&self) {
        self.way.afar.notify_one();
    }

    /// Waits until there may be something to claim while the shard acts elsewhere.
    pub async fn woken_afar(&self) {
        self.way.afar.notified().await;
    }

    /// Claims runs for workers of another node. `None` if the shard does not act here, or does not
    /// any more: then nobody knows whether they were claimed.
    pub async fn claim(&self, grants: Vec<Grant>) -> Option<Claimed> {
        let (sender, claimed) = oneshot::channel();
        self.tell(Message::Claim(grants, sender)).then_some(())?;
        claimed.await.ok()
    }

    /// Tells it what it is left of the bounds of a queue. Gives that back if it does not act here.
    pub fn left_of_bounds(&self, answer: Left) -> Option<Left> {
        let inbox = self.way.inbox.read();
        let Some(inbox) = &*inbox else { return Some(answer) };
        inbox.put(Message::Left(answer));
        None
    }

    /// Has it say again how it stands with all queues that have bounds, if it acts here.
    pub fn say_bounds_again(&self) {
        self.tell(Message::SayBounds);
    }

    /// Says whether somebody listens to notices.
    pub fn listen(&self, on: bool) {
        self.status.listened_to.store(on, Ordering::Release);
        self.tell(Message::Listen(on));
    }

    /// Waits until everything the shard has been asked so far, and everything it was deciding, has
    /// been committed and performed, if it acts here.
    pub async fn barrier(&self) {
        let (sender, answer) = oneshot::channel();
        if self.tell(Message::Barrier(sender)) {
            let _ = answer.await;
        }
    }

    /// Makes the shard stop after what it has been asked so far, if it acts here.
    pub fn stop(&self) {
        self.tell(Message::Stop);
    }

    /// Makes the shard stop at once, if it acts here: another node leads.
    pub(super) fn resign(&self) {
        self.tell(Message::Resign);
    }

    /// Makes the shard stop here after what it is deciding, so that another node can lead it with
    /// nothing under way. What it has been asked goes to whoever leads next.
    pub async fn give(&self) -> Giving {
        self.way.giving.send_replace(true);
        let giving = Giving(self.way.clone());
        self.resign();
        // The sender is there as long as this is.
        let _ = self.way.acting.subscribe().wait_for(|acting| !acting).await;
        giving
    }

    /// Says whether this node is about to let another lead the shard.
    pub(super) fn giving(&self) -> watch::Receiver<bool> {
        self.way.giving.subscribe()
    }

    /// Whether it acts here.
    #[must_use]
    pub fn acts_here(&self) -> bool {
        *self.way.acting.borrow()
    }

    /// From here on it acts here.
    pub(super) fn open(&self, inbox: Arc<Inbox>) {
        *self.way.inbox.write() = Some(inbox);
        self.way.acting.send_replace(true);
    }

    /// From here on it does not. What has not been decided goes to whoever leads, and so does what
    /// workers said that may not have been stored.
    pub(super) fn close(&self, said: Vec<Item>, taken: VecDeque<Message>, inbox: &Inbox) {
        let mut open = self.way.inbox.write();
        *open = None;
        let mut given_back = self.way.given_back.lock();
        // What was left here before has been counted.
        let counted = given_back.len();
        given_back.extend(said);
        for message in taken.into_iter().chain(inbox.take_all()) {
            match message {
                Message::Item(item) => given_back.push_back(item),
                Message::Brought(_, answer) => {
                    self.status.requests.fetch_sub(1, Ordering::Relaxed);
                    let _ = answer.send(Err(Failure::NoLeader(self.shard)));
                }
                _ => {}
            }
        }
        let said = given_back.iter().skip(counted).filter(|item| item.is_said()).count();
        self.way.unsaid.fetch_add(said, Ordering::AcqRel);
        drop((given_back, open));
        self.way.gave_back.notify_one();
        self.status.waking.store(false, Ordering::Release);
        self.status.term.store(0, Ordering::Relaxed);
        self.status.open_runs.store(0, Ordering::Relaxed);
        self.status.wheel_entries.store(0, Ordering::Relaxed);
        self.status.counted.lock().end();
        self.status.ready.lock().clear();
        self.status.running.lock().clear();
        self.way.acting.send_replace(false);
    }
}
