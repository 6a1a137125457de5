//! The worker inside the server process.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bellwether_core::id::RunId;
use bellwether_core::turn::{Assignment, Ending, Finished, Lane, Offer, Report, Reported, Work};
use bellwether_core::waist::Shard;
use bellwether_protocol::v1::Output;
use bellwether_worker::guard::{Guard, boot_ms};
use bellwether_worker::{Control, Executor, LiveOutput, StopReason, wire};
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use super::dispatch::{Dispatch, Order};
use super::handlers;
use super::permit::Permit;
use super::running::{Running, RunningAttempt};
use super::seat::Room;
use super::wire::{assignment_of, chunks_of, finished_of};
use crate::clock;
use crate::cluster::{Lease, Leased};
use crate::shard::ShardHandle;

/// An attempt that takes longer than this is reported as started; a shorter one is reported once,
/// at its end, which saves a write.
const STARTED_AFTER: Duration = Duration::from_millis(50);
/// How often new output is stored while an attempt runs.
const OUTPUT_EVERY: Duration = Duration::from_secs(1);

/// Ends the name of every worker that is part of a server. Those that dial in have no `@`.
const BUILT_IN: &str = "@server";

/// Whether a worker is, or was, part of a server's process.
#[must_use]
pub fn is_built_in(worker: &str) -> bool {
    worker.ends_with(BUILT_IN)
}

/// The name of the worker inside the server on this host.
#[must_use]
pub fn built_in_name(host: &str) -> String {
    format!("{host}{BUILT_IN}")
}

/// How the worker works.
#[derive(Clone, Debug)]
pub struct LocalOptions {
    /// Its name.
    pub name: Arc<str>,
    /// The queues it takes from; empty for all.
    pub queues: BTreeSet<String>,
    /// How many commands it runs at once.
    pub command_slots: usize,
    /// How many requests it makes at once.
    pub http_slots: usize,
    /// Bytes of output kept per attempt.
    pub output_limit: usize,
    /// The store's id.
    pub instance: String,
    /// The program that is started to guard commands; without one they are not guarded.
    pub guard: Option<PathBuf>,
}

/// Until when a run of a shard may go on here that was asked for at an instant; nothing if nobody else can
/// have it.
pub type Leases = dyn Fn(Shard, u64) -> Option<Leased> + Send + Sync;

/// The worker inside the server process.
pub struct LocalWorker {
    options: LocalOptions,
    executor: Executor,
    dispatch: Arc<Dispatch>,
    shards: Vec<ShardHandle>,
    leases: Box<Leases>,
    guard: Option<Arc<Guard>>,
    running: Arc<Running>,
    tasks: TaskTracker,
    started: AtomicBool,
    retired: AtomicBool,
}

impl LocalWorker {
    /// A worker that has yet to be started.
    #[must_use]
    pub fn new(
        options: LocalOptions,
        executor: Executor,
        dispatch: Arc<Dispatch>,
        shards: Vec<ShardHandle>,
        leases: Box<Leases>,
    ) -> Arc<LocalWorker> {
        let guard = options.guard.clone().map(|guard| Guard::new(guard, options.instance.clone()));
        Arc::new(LocalWorker {
            options,
            leases,
            guard,
            executor,
            dispatch,
            shards,
            running: Arc::default(),
            tasks: TaskTracker::new(),
            started: AtomicBool::new(false),
            retired: AtomicBool::new(false),
        })
    }

    /// Starts it: from here on it takes runs, unless its node leaves.
    pub fn start(self: &Arc<Self>) {
        if self.retired.load(Ordering::Relaxed) {
            return;
        }
        self.started.store(true, Ordering::Relaxed);
        let options = &self.options;
        let handlers = handlers::slots();
        let offer = Offer {
            namespace: None,
            queues: options.queues.clone(),
            labels: BTreeMap::new(),
            commands: true,
            http: true,
            job_types: handlers.keys().cloned().collect(),
        };
        let (command, http) = (options.command_slots, options.http_slots);
        let room = Room::ByKind { command, http, handlers };
        let orders = self.dispatch.join(options.name.clone(), offer, room);
        tokio::spawn(self.clone().take_orders(orders));
    }

    /// Whether it takes runs, or has.
    #[must_use]
    pub fn has_started(&self) -> bool {
        self.started.load(Ordering::Relaxed)
    }

    /// What is under way.
    #[must_use]
    pub fn running(&self) -> Arc<Running> {
        self.running.clone()
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.options.name
    }

    /// Its options.
    #[must_use]
    pub fn options(&self) -> &LocalOptions {
        &self.options
    }

    /// Whether it takes no more runs.
    #[must_use]
    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Relaxed)
    }

    /// It gets nothing more: its node leaves the cluster, or another has its name. What is under way goes on.
    pub fn retire(&self) {
        if !self.retired.swap(true, Ordering::Relaxed) {
            tracing::info!(
                running = self.running.count(),
                "the built-in worker takes no more runs"
            );
            self.dispatch.drain(&self.options.name);
        }
    }

    /// Waits for what is under way, up to `grace`, then stops it and waits for that.
    pub async fn drain(&self, grace: Duration) {
        self.tasks.close();
        if tokio::time::timeout(grace, self.tasks.wait()).await.is_err() {
            tracing::warn!(running = self.running.count(), "stopping what is still running");
            self.running.stop_all(StopReason::Shutdown);
            self.tasks.wait().await;
        }
    }

    async fn take_orders(self: Arc<Self>, mut orders: mpsc::UnboundedReceiver<Order>) {
        while let Some(order) = orders.recv().await {
            match order {
                Order::Run(assignments, asked_ms) => self.run(assignments, asked_ms),
                Order::Stop(run, token) => self.running.stop(run, token, StopReason::Canceled),
                Order::Drain => {}
                Order::Flush(answer) => {
                    let _ = answer.send(());
                }
            }
        }
    }

    /// Runs what was handed over. Handlers that do nothing are done on the spot and reported
    /// together; everything else gets a task of its own.
    fn run(self: &Arc<Self>, assignments: Vec<Assignment>, asked_ms: u64) {
        let taken: Vec<(RunId, u64)> = assignments.iter().map(|a| (a.run, a.token)).collect();
        let mut done: BTreeMap<Shard, Vec<Report>> = BTreeMap::new();
        let mut freed: BTreeMap<Lane, usize> = BTreeMap::new();
        for assignment in assignments {
            let lane = assignment.lane();
            match &lane.work {
                Work::Handler(name) if name == handlers::NOOP => {
                    *freed.entry(lane).or_default() += 1;
                    done.entry(assignment.run.job.shard()).or_default().push(nothing(&assignment));
                }
                _ => {
                    // Known before it is started, so that a stop right behind it finds it.
                    let permit = Arc::new(self.permit(&assignment, &lane, asked_ms));
                    let last_look = permit.clone();
                    let running = RunningAttempt {
                        namespace: lane.namespace.clone(),
                        attempt: assignment.attempt,
                        token: assignment.token,
                        control: Control::with_permit(move || !last_look.has_lapsed()),
                        output: LiveOutput::new(self.options.output_limit),
                        permit,
                    };
                    self.running.add(assignment.run, running.clone());
                    let under_way = UnderWay {
                        worker: self.clone(),
                        run: assignment.run,
                        token: assignment.token,
                        lane,
                    };
                    self.tasks.spawn(async move { under_way.attempt(assignment, running).await });
                }
            }
        }
        for (lane, count) in freed {
            self.dispatch.give_back(&self.options.name, &lane, count);
        }
        for (shard, reports) in done {
            self.report(shard, reports);
        }
        // Only now: until then they are neither under way nor reported.
        self.dispatch.taken_up(taken.into_iter());
    }

    /// Until when an attempt may go on. A command is under guard from here on, before it is started.
    /// What lay about for longer than its lease because this process stood still is not begun, whatever
    /// has been heard since.
    fn permit(&self, assignment: &Assignment, lane: &Lane, asked_ms: u64) -> Permit {
        let Assignment { run, attempt, token, .. } = assignment;
        let leased = (self.leases)(run.job.shard(), asked_ms);
        let first = leased.map(|leased| leased.first);
        let guard = self.guard.as_ref().filter(|_| lane.work == Work::Command);
        let deadline = first.map(Lease::deadline_of_guard);
        let guarded = guard.map(|guard| guard.hold(&run.to_string(), *attempt, *token, deadline));
        let permit = Permit::new(asked_ms, first, guarded);
        permit.renew(leased.map(|leased| leased.now));
        permit
    }

    /// Stops what may be started elsewhere soon, since its leader was not in touch for as long as a
    /// lease lasts, and has the guard know how long everything else may go on.
    pub fn look_at_leases(&self) {
        for (run, attempt) in self.running.all() {
            let leased = (self.leases)(run.job.shard(), attempt.permit.asked_ms);
            let lease = attempt.permit.renew(leased.map(|leased| leased.now));
            let now_ms = boot_ms();
            let deadline = lease.map(Lease::deadline);
            if let Some(over) = deadline.filter(|deadline| deadline.stop_at_ms <= now_ms) {
                let grace = Duration::from_millis(over.kill_at_ms.saturating_sub(now_ms));
                attempt.control.stop_within(StopReason::LeaseLost, grace);
            }
        }
    }

    fn report(&self, shard: Shard, reports: Vec<Report>) {
        if let Some(handle) = self.shards.get(usize::from(shard)) {
            handle.report(reports);
        }
    }
}

/// An attempt that holds a slot. Whatever happens to its task, the slot is given back and the
/// shard is told.
struct UnderWay {
    worker: Arc<LocalWorker>,
    run: RunId,
    token: u64,
    lane: Lane,
}

impl UnderWay {
    fn say(&self, what: Reported) {
        let report = Report { run: self.run, token: self.token, what };
        self.worker.report(self.run.job.shard(), vec![report]);
    }

    /// Performs the attempt and reports it.
    async fn attempt(self, assignment: Assignment, running: RunningAttempt) {
        let worker = &self.worker;
        let told = assignment_of(&assignment);
        let Some(attempt) = wire::attempt_of(told, &worker.options.instance) else {
            return self.say(Reported::HandedBack);
        };
        let output = running.output;
        let begun = clock::now();
        let execution = worker.executor.execute(attempt, running.control, output.clone());
        tokio::pin!(execution);
        let mut persisted = Persisted::default();
        let mut started = false;
        let finished = loop {
            let pause = if started { OUTPUT_EVERY } else { STARTED_AFTER };
            match tokio::time::timeout(pause, &mut execution).await {
                Ok(finished) => break finished,
                Err(_) if !started => {
                    started = true;
                    self.say(Reported::Started { at: begun });
                }
                Err(_) => {
                    if let Some(what) = persisted.more(&output) {
                        self.say(what);
                    }
                }
            }
        };
        let lapsed = running.permit.has_lapsed();
        let finished = if lapsed { finished.perhaps_by_guard() } else { finished };
        let said = wire::finished_of(finished, persisted.bytes, persisted.sequence);
        self.say(match said.and_then(finished_of) {
            Some(finished) => Reported::Finished(Box::new(finished)),
            None => Reported::HandedBack,
        });
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.say(Reported::Finished(Box::new(Finished {
                reason: "bug".to_owned(),
                detail: "the worker failed while it ran; how far it got is unknown".to_owned(),
                ..Finished::at(clock::now(), Ending::Interrupted)
            })));
        }
        self.worker.dispatch.give_back(&self.worker.options.name, &self.lane, 1);
        self.worker.running.remove(self.run, self.token);
    }
}

/// How much of an attempt's output has been reported.
#[derive(Default)]
struct Persisted {
    bytes: u64,
    sequence: u32,
}

impl Persisted {
    /// What has been printed since, as far as it belongs to the head that is kept.
    fn more(&mut self, output: &LiveOutput) -> Option<Reported> {
        let new = output.head_since(self.bytes);
        let last = new.last()?;
        self.bytes = last.end();
        let sequence = self.sequence;
        self.sequence += u32::try_from(new.len()).unwrap_or(u32::MAX);
        let chunks = new.iter().map(|chunk| wire::chunk_of(chunk, 0)).collect();
        let (sequence, chunks) = chunks_of(Output { sequence, chunks });
        Some(Reported::Output { sequence, chunks })
    }
}

/// The report of an attempt that does nothing.
fn nothing(assignment: &Assignment) -> Report {
    let finished = Finished::at(clock::now(), Ending::Succeeded);
    let what = Reported::Finished(Box::new(finished));
    Report { run: assignment.run, token: assignment.token, what }
}
