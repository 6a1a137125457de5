//! Who has dialled in, what each holds, and when it was heard last.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use bellwether_core::id::RunId;
use bellwether_core::shard::StillHeld;
use bellwether_core::time::Time;
use bellwether_core::turn::{Assignment, Lane, Offer, Report, Reported};
use bellwether_protocol::v1 as wire;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::introduction::{Capacity, capacity_of, check_names, offer_of};
use super::known::{Held, Remote};
use super::polling::Orders;
use super::printed::{Admitted, Printed};
use super::session::Session;
use super::surroundings::{Silent, Surroundings};
use crate::clock;
use crate::shard::ShardHandle;
use crate::work::Dispatch;
use crate::work::dispatch::Order;
use crate::work::seat::Room;

/// How leases are kept.
#[derive(Clone, Copy, Debug)]
pub struct LeaseSettings {
    /// How often a worker is to be heard.
    pub heartbeat: Duration,
    /// How long it may be silent.
    pub lease: Duration,
}

/// A worker as others see it.
#[derive(Clone, Debug)]
pub struct WorkerState {
    /// Its name.
    pub name: String,
    /// Whether it is there.
    pub connected: bool,
    /// Whether it takes nothing more.
    pub draining: bool,
    /// What it takes.
    pub offer: Offer,
    /// How much it runs at once; `None` if it asks each time, or has yet to say.
    pub capacity: Option<Capacity>,
    /// Its version.
    pub version: String,
    /// When it last dialled in.
    pub since: Option<Time>,
    /// How long ago it was heard.
    pub silent: Duration,
    /// How much it was sent and has not reported yet.
    pub running: usize,
    /// What of that may be named.
    pub runs: Vec<RunId>,
}

/// Why a worker was not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotLetIn {
    /// What it says makes no sense.
    Invalid(String),
    /// Another process has its name.
    NameTaken(String),
}

/// All workers that dial in.
pub struct Remotes {
    pub(super) dispatch: Arc<Dispatch>,
    pub(super) shards: Vec<ShardHandle>,
    pub(super) settings: LeaseSettings,
    pub(super) store: String,
    /// Cancelled when the server stops.
    pub(super) stop: CancellationToken,
    pub(super) workers: Mutex<BTreeMap<String, Remote>>,
    /// The other nodes, if there may be any.
    pub(super) surroundings: OnceLock<Weak<dyn Surroundings>>,
}

/// The attempts of which reports say that they have ended.
pub(super) fn ended_of(reports: &[Report]) -> Vec<(RunId, u64)> {
    let ends =
        |report: &&Report| matches!(report.what, Reported::Finished(_) | Reported::HandedBack);
    reports.iter().filter(ends).map(|report| (report.run, report.token)).collect()
}

impl Remotes {
    /// Nobody has dialled in yet.
    #[must_use]
    pub fn new(
        dispatch: Arc<Dispatch>,
        shards: Vec<ShardHandle>,
        settings: LeaseSettings,
        store: String,
    ) -> Arc<Remotes> {
        let stop = CancellationToken::new();
        let workers = Mutex::default();
        let surroundings = OnceLock::new();
        let remotes = Remotes { dispatch, shards, settings, store, stop, workers, surroundings };
        let remotes = Arc::new(remotes);
        tokio::spawn(remotes.clone().watch());
        remotes
    }

    /// Takes up where the last leader of a shard left off: these runs are with workers, which get a
    /// fresh lease.
    pub fn take_up_held(&self, still_held: Vec<StillHeld>) {
        let mut workers = self.workers.lock();
        for held in still_held {
            let remote = workers.entry(held.worker).or_insert_with(Remote::unseen);
            let StillHeld { run, token, stop, lane, .. } = held;
            if !remote.holds(run, token) {
                self.dispatch.already_under_way(&lane, 1);
                remote.held.insert(run, Held::new(token, lane, stop));
            }
        }
    }

    /// Ends all sessions; what workers hold stays with them.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Lets a worker in.
    ///
    /// # Errors
    /// When its name is taken, or what it says makes no sense.
    pub(super) fn hello(
        self: &Arc<Self>,
        hello: wire::Hello,
        namespace: Option<&str>,
    ) -> Result<Session, NotLetIn> {
        check_names(&hello).map_err(NotLetIn::Invalid)?;
        let offer = offer_of(&hello, namespace);
        let capacity = capacity_of(hello.capacity.as_ref()).map_err(NotLetIn::Invalid)?;
        let mut workers = self.workers.lock();
        let remote = workers.entry(hello.name.clone()).or_insert_with(Remote::unseen);
        let same = remote.instance.as_ref() == Some(&hello.instance);
        let in_use = remote.open.is_some() && (!same || remote.polls.is_some());
        if in_use || !remote.answers_to(namespace) {
            return Err(NotLetIn::NameTaken(hello.name));
        }
        if let Some(open) = remote.open.take() {
            open.cancel();
        }
        let void = remote.reconcile(&hello.held, same, self);
        let taken = remote.held.len();
        let ended = CancellationToken::new();
        *remote = Remote {
            instance: Some(hello.instance.clone()),
            session: remote.session + 1,
            open: Some(ended.clone()),
            heard: Instant::now(),
            draining: false,
            offer: offer.clone(),
            capacity: Some(capacity),
            version: hello.version.clone(),
            since: Some(clock::now()),
            held: std::mem::take(&mut remote.held),
            polls: None,
        };
        let room = capacity.room(remote.held.values().map(|held| &held.lane));
        let orders = self.dispatch.join(hello.name.as_str().into(), offer, room);
        let stops = remote.held.iter().filter(|(_, held)| held.stop);
        let stops = stops.map(|(run, held)| (*run, held.token)).collect();
        tracing::info!(worker = hello.name, held = taken, "a worker has dialled in");
        Ok(Session {
            remotes: self.clone(),
            name: hello.name,
            namespace: namespace.map(ToOwned::to_owned),
            number: remote.session,
            ended,
            orders,
            sending: Vec::new(),
            behind: None,
            stops,
            void,
        })
    }

    /// A worker has been heard. False if this session is not its newest.
    pub(super) fn heard(&self, worker: &str, session: u64) -> bool {
        let mut workers = self.workers.lock();
        match workers.get_mut(worker).filter(|remote| remote.session == session) {
            Some(remote) => {
                remote.heard = Instant::now();
                true
            }
            None => false,
        }
    }

    /// The orders of a worker that polls, which may be a new one.
    pub(super) fn polled(&self, worker: &str, offer: &Offer) -> Result<Orders, NotLetIn> {
        let mut workers = self.workers.lock();
        let remote = match workers.get_mut(worker) {
            Some(remote) => remote,
            None => {
                let instance = "polls".to_owned();
                let hello = wire::Hello { name: worker.to_owned(), instance, ..Default::default() };
                check_names(&hello).map_err(NotLetIn::Invalid)?;
                workers.entry(worker.to_owned()).or_insert_with(Remote::unseen)
            }
        };
        if !remote.answers_to(offer.namespace.as_deref()) {
            return Err(NotLetIn::NameTaken(worker.to_owned()));
        }
        if let Some(orders) = remote.polls.clone() {
            remote.offer = offer.clone();
            return Ok(orders);
        }
        if remote.open.is_some() {
            return Err(NotLetIn::NameTaken(worker.to_owned()));
        }
        remote.offer = offer.clone();
        let orders = self.dispatch.join(worker.into(), offer.clone(), Room::Asked(0));
        let orders: Orders = Arc::new(tokio::sync::Mutex::new(orders));
        remote.instance = Some("polls".to_owned());
        remote.session += 1;
        remote.open = Some(CancellationToken::new());
        remote.heard = Instant::now();
        remote.since = Some(clock::now());
        remote.version = "http".to_owned();
        remote.polls = Some(orders.clone());
        Ok(orders)
    }

    /// The orders of a worker that polls.
    pub(super) fn orders_of(&self, worker: &str) -> Option<Orders> {
        self.workers.lock().get(worker)?.polls.clone()
    }

    /// A worker that polls has been heard, or one that is known from the store and may be one.
    /// False if there is none of this name.
    pub(super) fn heard_by_name(&self, worker: &str) -> bool {
        let mut workers = self.workers.lock();
        let polls = |remote: &&mut Remote| remote.polls.is_some() || remote.instance.is_none();
        let remote = workers.get_mut(worker).filter(polls);
        remote.map(|remote| remote.heard = Instant::now()).is_some()
    }

    /// Gives up what a worker that polls was given some time ago and does not name: it never got
    /// it, or has given it up. All under the lock: whoever sees that it is not here must not say so
    /// first.
    pub(super) fn lose_unnamed(&self, worker: &str, at: &[(RunId, u64)]) {
        let named: BTreeSet<(RunId, u64)> = at.iter().copied().collect();
        let mut workers = self.workers.lock();
        let Some(remote) = workers.get_mut(worker) else { return };
        let settled = |held: &Held| held.since.elapsed() > self.settings.heartbeat;
        let unnamed: Vec<(RunId, u64)> = remote
            .held
            .iter()
            .filter(|(run, held)| settled(held) && !named.contains(&(**run, held.token)))
            .map(|(run, held)| (*run, held.token))
            .collect();
        for (run, token) in unnamed {
            if let Some(held) = remote.held.remove(&run) {
                self.dispatch.give_back(worker, &held.lane, 1);
            }
            if let Some(shard) = self.shards.get(usize::from(run.job.shard())) {
                shard.lost(run, token, "its worker says that it does not have it".to_owned());
            }
        }
    }

    /// Whether somebody whose token is good for a namespace (or for all) may speak for a worker.
    /// Nobody is hurt if there is no such worker.
    #[must_use]
    pub fn may_speak_for(&self, worker: &str, namespace: Option<&str>) -> bool {
        self.workers.lock().get(worker).is_none_or(|remote| remote.answers_to(namespace))
    }

    /// Leaves out what a worker of one namespace says about runs that it does not have: they may be
    /// another namespace's. One that nobody knows any more has none. Of workers that are good for
    /// all namespaces, the shards judge what they say by its token.
    pub(super) fn its_own(
        &self,
        worker: &str,
        namespace: Option<&str>,
        mut reports: Vec<Report>,
    ) -> Vec<Report> {
        if namespace.is_some() {
            let workers = self.workers.lock();
            let remote = workers.get(worker);
            let has = |remote: &Remote, report: &Report| remote.holds(report.run, report.token);
            reports.retain(|report| remote.is_some_and(|remote| has(remote, report)));
        }
        reports
    }

    /// Whether a worker is to take nothing more.
    #[must_use]
    pub fn is_draining(&self, worker: &str) -> bool {
        self.workers.lock().get(worker).is_some_and(|remote| remote.draining)
    }

    /// What a worker holds and is to stop.
    #[must_use]
    pub fn to_stop(&self, worker: &str) -> Vec<RunId> {
        let workers = self.workers.lock();
        let held = workers.get(worker).into_iter().flat_map(|remote| &remote.held);
        held.filter(|(_, held)| held.stop).map(|(run, _)| *run).collect()
    }

    /// Of these, what a worker does not hold, and what it is to stop.
    pub(super) fn lost_and_stopped(
        &self,
        worker: &str,
        at: &[(RunId, u64)],
    ) -> (Vec<RunId>, Vec<RunId>) {
        let workers = self.workers.lock();
        let held = workers.get(worker).map(|remote| &remote.held);
        let (mut lost, mut stop) = (Vec::new(), Vec::new());
        for (run, token) in at {
            match held.and_then(|held| held.get(run)).filter(|held| held.token == *token) {
                None => lost.push(*run),
                Some(held) if held.stop => stop.push(*run),
                Some(_) => {}
            }
        }
        (lost, stop)
    }

    /// Whether a piece of output of what a worker holds is taken; `None` if it does not hold it.
    pub(super) fn admit(
        &self,
        worker: &str,
        run: RunId,
        token: u64,
        (sequence, bytes): (u32, usize),
    ) -> Option<Admitted> {
        let mut workers = self.workers.lock();
        let held = workers.get_mut(worker)?.held.get_mut(&run)?;
        (held.token == token).then(|| held.printed.admit(sequence, bytes))
    }

    /// How leases are kept.
    #[must_use]
    pub fn settings(&self) -> LeaseSettings {
        self.settings
    }

    /// Takes back that these were handed out.
    pub(super) fn forget(&self, worker: &str, assignments: &[Assignment]) {
        if let Some(remote) = self.workers.lock().get_mut(worker) {
            for assignment in assignments {
                remote.held.remove(&assignment.run);
            }
        }
    }

    /// Gives back what was never handed out.
    pub(super) fn hand_back(&self, assignments: &[Assignment]) {
        self.dispatch.taken_up(assignments.iter().map(|a| (a.run, a.token)));
        for assignment in assignments {
            self.dispatch.put_back(&assignment.worker, &assignment.lane(), 1);
            let (run, token) = (assignment.run, assignment.token);
            if let Some(shard) = self.shards.get(usize::from(run.job.shard())) {
                shard.report(vec![Report { run, token, what: Reported::HandedBack }]);
            }
        }
    }

    /// A worker is about to be sent these.
    pub(super) fn sent(&self, worker: &str, runs: impl Iterator<Item = (RunId, u64, Lane)>) {
        let runs: Vec<(RunId, u64, Lane)> = runs.collect();
        let mut workers = self.workers.lock();
        self.dispatch.taken_up(runs.iter().map(|(run, token, _)| (*run, *token)));
        self.dispatch.arrived(worker, runs.iter().map(|(_, _, lane)| lane));
        if let Some(remote) = workers.get_mut(worker) {
            for (run, token, lane) in runs {
                // It has printed nothing yet.
                let printed = Printed::from_the_start();
                let held = Held { printed, ..Held::new(token, lane, false) };
                remote.held.insert(run, held);
            }
        }
    }

    /// Frees the room of attempts of a worker that have ended.
    pub(super) fn take_up(&self, worker: &str, ended: &[(RunId, u64)]) {
        let mut freed: BTreeMap<Lane, usize> = BTreeMap::new();
        if let Some(remote) = self.workers.lock().get_mut(worker) {
            for (run, token) in ended {
                if remote.holds(*run, *token)
                    && let Some(held) = remote.held.remove(run)
                {
                    *freed.entry(held.lane).or_default() += 1;
                }
            }
        }
        for (lane, count) in freed {
            self.dispatch.give_back(worker, &lane, count);
        }
    }

    /// A session is over. What the worker holds stays with it until its lease ends.
    pub(super) fn gone(&self, worker: &str, session: u64) {
        let mut workers = self.workers.lock();
        let Some(remote) = workers.get_mut(worker).filter(|remote| remote.session == session)
        else {
            return;
        };
        remote.open = None;
        self.dispatch.leave(worker);
        let idle = remote.held.is_empty();
        tracing::info!(worker, holds = remote.held.len(), "a worker has gone");
        if idle {
            workers.remove(worker);
        }
    }

    /// Stops an attempt of a worker. Also one that is told is remembered: its stream may be about to
    /// break with the order in it, and then the worker is told again when it is back.
    /// False if other nodes must be told as well: it is not connected here, or may ask anywhere.
    pub fn stop_attempt(&self, worker: &str, run: RunId, token: u64) -> bool {
        let told = self.dispatch.stop(worker, run, token);
        self.note_stop(worker, run, token, |_| told);
        told && self.orders_of(worker).is_none()
    }

    /// Notes an order to stop that has come to a session, which has yet to tell the worker, or to
    /// one that is over.
    pub(super) fn stop_by(&self, session: u64, worker: &str, run: RunId, token: u64) {
        self.note_stop(worker, run, token, |newest| newest == session);
    }

    /// Notes that a worker that polls is to stop an attempt.
    pub(super) fn stop_later(&self, worker: &str, run: RunId, token: u64) {
        self.note_stop(worker, run, token, |_| true);
    }

    /// Notes that an attempt is to be stopped, and sees to it that its worker is told, unless its
    /// newest session knows.
    fn note_stop(&self, worker: &str, run: RunId, token: u64, knows: impl Fn(u64) -> bool) {
        let mut workers = self.workers.lock();
        let Some(remote) = workers.get_mut(worker) else { return };
        let listens = remote.open.is_some() && remote.polls.is_none();
        let is_new = listens && !knows(remote.session);
        let held = remote.held.get_mut(&run).filter(|held| held.token == token);
        if let Some(held) = held {
            held.stop = true;
            // It may have come back just before this was noted.
            if is_new {
                self.dispatch.stop(worker, run, token);
            }
        }
    }

    /// Makes a worker take nothing more. False if there is none of this name.
    pub fn drain(&self, worker: &str) -> bool {
        let mut workers = self.workers.lock();
        let Some(remote) = workers.get_mut(worker).filter(|remote| remote.open.is_some()) else {
            return false;
        };
        remote.draining = true;
        self.dispatch.drain(worker);
        true
    }

    /// All workers, by name, as somebody sees them whose token is good for a namespace, or for all:
    /// not those of other namespaces, and of what the others hold not which runs are not theirs.
    #[must_use]
    pub fn list(&self, namespace: Option<&str>) -> Vec<WorkerState> {
        let workers = self.workers.lock();
        let theirs = |held: &Held| namespace.is_none_or(|own| held.lane.namespace == own);
        let state = |(name, remote): (&String, &Remote)| WorkerState {
            name: name.clone(),
            connected: remote.open.is_some(),
            draining: remote.draining,
            offer: remote.offer.clone(),
            capacity: remote.capacity,
            version: remote.version.clone(),
            since: remote.since,
            silent: remote.heard.elapsed(),
            running: remote.held.len(),
            runs: remote
                .held
                .iter()
                .filter(|(_, held)| theirs(held))
                .map(|(run, _)| *run)
                .collect(),
        };
        workers.iter().filter(|(_, remote)| remote.is_seen_by(namespace)).map(state).collect()
    }

    /// Gives up workers that have been silent for too long.
    async fn watch(self: Arc<Self>) {
        let every = (self.settings.lease / 8).max(Duration::from_millis(50));
        let mut interval = tokio::time::interval(every);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return,
                _ = interval.tick() => {}
            }
            for silent in self.expired() {
                let Silent { worker, runs, .. } = &silent;
                tracing::warn!(worker, runs = runs.len(), "a worker has not been heard");
                self.give_up(silent);
            }
        }
    }

    /// Nobody can say any more what became of what a worker had; unless it has gone to another node,
    /// which only the leaders of its runs know.
    fn give_up(&self, silent: Silent) {
        if let Some(around) = self.around() {
            tokio::spawn(around.fell_silent(silent));
            return;
        }
        for (run, token) in silent.runs {
            if let Some(shard) = self.shards.get(usize::from(run.job.shard())) {
                shard.lost(run, token, silent.detail.clone());
            }
        }
    }

    /// Takes out the workers whose leases have ended, with what they held.
    fn expired(&self) -> Vec<Silent> {
        let mut workers = self.workers.lock();
        let lease = self.settings.lease;
        let late: Vec<String> = workers
            .iter()
            .filter(|(_, remote)| remote.heard.elapsed() > lease)
            .map(|(name, _)| name.clone())
            .collect();
        let expired = late.into_iter().filter_map(|worker| {
            let runs = self.evict(&worker, workers.remove(&worker)?);
            let lease = lease.as_secs_f64();
            let detail = format!("the worker '{worker}' was not heard for {lease} s");
            Some(Silent { worker, runs, detail })
        });
        expired.collect()
    }

    /// Ends what this node has to do with a worker. What was on its way to it is given back; returns
    /// what it has.
    pub(super) fn evict(&self, name: &str, remote: Remote) -> Vec<(RunId, u64)> {
        if let Some(open) = remote.open {
            open.cancel();
        }
        self.dispatch.leave(name);
        if let Some(mut orders) = remote.polls.as_ref().and_then(|o| o.try_lock().ok()) {
            orders.close();
            while let Ok(order) = orders.try_recv() {
                if let Order::Run(assignments, _) = order {
                    self.hand_back(&assignments);
                }
            }
        }
        let held = remote.held.into_iter().map(|(run, held)| {
            self.dispatch.give_back(name, &held.lane, 1);
            (run, held.token)
        });
        held.collect()
    }
}
