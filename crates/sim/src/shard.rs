//! A shard on a node: waits to lead, takes over, and then decides, commits and acts, turn by turn.
//!
//! What is decided is `bellwether_core::shard`, the code that a server runs. What is different here
//! is only what drives it: a task instead of a thread, Raft asked directly instead of through an
//! engine, and a registry of simulated workers.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bellwether_core::id::{BatchId, RunId};
use bellwether_core::record::{self, PartRow, Run};
use bellwether_core::settings::Settings;
use bellwether_core::shard::{Leading, recover};
use bellwether_core::time::Time;
use bellwether_core::turn::{self, Decided, Effect, Halt, Input, Reported};
use bellwether_core::waist::{Batch, Family, Op, Shard, StoreError, Term};
use bellwether_core::{key, read};
use bellwether_raft::codec::{encode_acquire, encode_batch};
use bellwether_raft::runtime::Runtime;
use bellwether_raft::types::Command;
use bellwether_store::{Applied, MemoryTables, Tables};
use openraft::async_runtime::WatchReceiver;
use openraft::{AsyncRuntime, ReadPolicy};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::batches::Batches;
use crate::chance::Chance;
use crate::links::Place;
use crate::message::{Answer, AnswerOf, Beat, Part, ToShard, ToWorker};
use crate::mutant::Mutant;
use crate::registry::{LEASE, Registry};
use crate::wire::Group;
use crate::world::World;
use crate::{orders, steer};

/// The longest a leader rests: leases are looked at as often.
const REST_MAX: Duration = Duration::from_millis(500);
/// How long it may take until a quorum has acknowledged a new leader.
const ACKNOWLEDGED_WITHIN: Duration = Duration::from_secs(2);
/// How long to wait before trying again.
const AGAIN: Duration = Duration::from_millis(50);
/// Messages dealt with in one turn.
const MESSAGES_MAX: usize = 64;

/// A shard on a node.
pub struct Actor {
    world: Arc<World>,
    node: Place,
    shard: Shard,
    group: Group,
    tables: Arc<MemoryTables>,
    inbox: UnboundedReceiver<ToShard>,
    chance: Chance,
}

/// Why a leader stops: another one leads, or may.
struct Deposed;

impl From<StoreError> for Deposed {
    fn from(_: StoreError) -> Deposed {
        Deposed
    }
}

/// A shard that is led here.
struct Led {
    leading: Leading,
    registry: Registry,
    /// Whoever sees to the batches that are at home in it.
    batches: Batches,
    term: Term,
    /// Raft's own: if it is another, somebody else may have led in between.
    raft_term: u64,
    /// Whether the turn before was this leader's, and looked at.
    looked: bool,
}

/// A turn that has been decided.
struct Turned {
    now: Time,
    decided: Decided,
    answers: Vec<(Answer, Result<turn::Reply, turn::Rejection>)>,
    reports: Vec<(Place, Vec<turn::Report>)>,
    /// Attempts that were given up.
    lost: Vec<(RunId, u64)>,
}

impl Actor {
    /// A shard that is not led here yet.
    pub fn new(
        world: &Arc<World>,
        node: Place,
        shard: Shard,
        group: Group,
        tables: Arc<MemoryTables>,
        inbox: UnboundedReceiver<ToShard>,
    ) -> Actor {
        let chance = world.fork();
        Actor { world: world.clone(), node, shard, group, tables, inbox, chance }
    }

    /// Leads whenever it can, for ever.
    pub async fn run(mut self) {
        loop {
            self.wait_to_lead().await;
            if let Ok(led) = self.take_over().await {
                let (node, shard, term) = (self.node, self.shard, led.term);
                self.world.trace.tell(format_args!("node {node} leads shard {shard}, term {term}"));
                let Err(Deposed) = self.lead(led).await;
                self.world
                    .trace
                    .tell(format_args!("node {node} leaves shard {shard}, term {term}"));
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Raft's own term, if this node leads.
    fn leads(&self) -> Option<u64> {
        let metrics = self.group.metrics();
        let metrics = metrics.borrow_watched();
        (metrics.current_leader == Some(self.node)).then_some(metrics.current_term)
    }

    async fn wait_to_lead(&mut self) {
        let mut changes = self.group.metrics();
        while self.leads().is_none() {
            tokio::select! {
                biased;
                changed = changes.changed() => if changed.is_err() { std::future::pending().await },
                // Nobody leads here: whoever asked tries again.
                message = self.inbox.recv() => drop(message),
            }
        }
    }

    /// Takes the shard over, once a quorum has acknowledged that this node leads.
    async fn take_over(&mut self) -> Result<Led, Deposed> {
        let raft_term = self.leads().ok_or(Deposed)?;
        let taking = self.propose(encode_acquire(self.shard));
        let taken = tokio::time::timeout(ACKNOWLEDGED_WITHIN, taking).await;
        let (applied, index) = taken.map_err(|_| Deposed)??;
        let Applied::Acquired(term) = applied else { return Err(Deposed) };
        self.world.record.lock().took_over(self.shard, term, index, (raft_term, self.node));
        let settings = Settings::default();
        let mut memory = turn::load(&*self.tables.view(), self.shard, term, settings)?;
        let (mut after, mut held) = (None, Vec::new());
        let nobody_is_gone = |_: RunId, _: &Run| None;
        loop {
            let (view, now) = (self.tables.view(), self.world.now(self.node));
            let recovered = recover(&*view, &mut memory, now, after, &nobody_is_gone)?;
            held.extend(recovered.held);
            self.commit(term, recovered.ops).await?;
            match recovered.after {
                Some(run) => after = Some(run),
                None => break,
            }
        }
        let now = self.world.now(self.node);
        if self.world.mutant == Some(Mutant::WrongCursor) {
            memory.row.due_from_ms = now.0;
        }
        let short = self.world.mutant == Some(Mutant::ShortLease);
        let lease = if short { LEASE / 4 } else { LEASE };
        let registry = Registry::new(term, lease, held);
        let mut batches = Batches::new(&self.world, self.node, self.tables.clone());
        for id in read::batches_to_go_on_with(&*self.tables.view(), self.shard)? {
            batches.see_to(id);
        }
        let leading = Leading::new(memory, now);
        Ok(Led { leading, registry, batches, term, raft_term, looked: false })
    }

    async fn propose(&self, command: Command) -> Result<(Applied, u64), Deposed> {
        let proposed = self.group.client_write(command).await;
        proposed.map(|done| (done.data, done.log_id.index)).map_err(|_| Deposed)
    }

    /// Commits what was decided, if anything was.
    async fn commit(&self, term: Term, ops: Vec<Op>) -> Result<(), Deposed> {
        if ops.is_empty() {
            return Ok(());
        }
        let (shard, count) = (self.shard, ops.len() as u64);
        let proposed = self.propose(encode_batch(Batch { shard, term, ops })).await;
        if proposed.is_err() {
            self.world.saw("a leader could not commit");
        }
        match proposed? {
            (Applied::Fenced { .. }, _) => {
                self.world.saw("a commit was fenced off");
                Err(Deposed)
            }
            (_, index) => {
                self.world.trace.note("commit", [u64::from(shard), index, count]);
                self.world.record.lock().committed(shard, term, index);
                Ok(())
            }
        }
    }

    /// Turn after turn, until somebody else leads.
    async fn lead(&mut self, mut led: Led) -> Result<std::convert::Infallible, Deposed> {
        loop {
            let messages = self.gather(&led).await?;
            let mut turned = self.decide(&mut led, messages)?;
            let launches =
                turned.decided.effects.iter().any(|effect| matches!(effect, Effect::Assign(_)));
            if self.world.mutant == Some(Mutant::ActBeforeCommit) {
                let effects = std::mem::take(&mut turned.decided.effects);
                self.act(&mut led, effects);
            }
            if self.world.mutant == Some(Mutant::AnswerBeforeCommit) {
                self.answer(&led, std::mem::take(&mut turned.answers), Vec::new());
            }
            let ops = std::mem::take(&mut turned.decided.ops);
            let changed = !ops.is_empty();
            if changed {
                self.stall("a leader was held up before a commit", launches).await;
            }
            self.commit(led.term, ops).await?;
            self.world.record.lock().given_up(&turned.lost);
            if changed {
                self.stall("a leader was held up after a commit", launches).await;
            }
            // What was decided is durable. Only now may it be seen outside.
            self.answer(&led, turned.answers, turned.reports);
            self.act(&mut led, turned.decided.effects);
            if !changed {
                continue; // And nobody knows whether it still leads.
            }
            let (now, looked) = (turned.now, std::mem::replace(&mut led.looked, true));
            let mut record = self.world.record.lock();
            let whose = (self.shard, led.term);
            orders::look(&mut record, &*self.tables.view(), whose, looked.then_some(now));
        }
    }

    /// It may be held up anywhere, for long enough to be replaced meanwhile; and it is, sooner if it
    /// launches something. Its successor may be followed by the same node again.
    async fn stall(&mut self, what: &'static str, launches: bool) {
        let often = if launches { 3 } else { 24 };
        if !self.world.stalls.load(Ordering::Relaxed) || !self.chance.one_in(often) {
            return;
        }
        self.world.saw(what);
        let (world, node, shard) = (self.world.clone(), self.node, self.shard);
        world.trace.tell(format_args!("-- node {node} is held up with shard {shard}"));
        if launches || self.chance.one_in(2) {
            self.world.saw("a leader was replaced while it was held up");
            steer::transfer(&world, shard, None, &mut self.chance);
            if self.chance.one_in(2) {
                let (back, mut chance) = (self.chance.between(600, 2_000), self.chance.fork());
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(back)).await;
                    steer::transfer(&world, shard, Some(node), &mut chance);
                });
            }
        }
        tokio::time::sleep(Duration::from_millis(self.chance.between(200, 9_000))).await;
    }

    /// Waits until there is something to do, and takes what has come.
    async fn gather(&mut self, led: &Led) -> Result<Vec<ToShard>, Deposed> {
        while self.world.rests.load(Ordering::Relaxed) {
            tokio::time::sleep(REST_MAX).await;
        }
        let rest = Duration::from_millis(led.leading.rest_ms(self.world.now(self.node)));
        let mut messages = Vec::new();
        tokio::select! {
            biased;
            message = self.inbox.recv() => messages.extend(message),
            () = tokio::time::sleep(rest.min(REST_MAX)) => {}
        }
        while messages.len() < MESSAGES_MAX
            && let Ok(message) = self.inbox.try_recv()
        {
            messages.push(message);
        }
        if self.leads() == Some(led.raft_term) { Ok(messages) } else { Err(Deposed) }
    }

    fn decide(&self, led: &mut Led, messages: Vec<ToShard>) -> Result<Turned, Deposed> {
        let (view, now) = (self.tables.view(), self.world.now(self.node));
        let Led { leading, registry, term, .. } = led;
        registry.begin_turn();
        let (mut answers, mut all_reports) = (Vec::new(), Vec::new());
        let mut step = leading.begin(&*view, now, registry, false)?;
        let mut lost = Vec::new();
        for message in messages {
            match message {
                ToShard::Ask(input, answer) => match step.decide(input) {
                    Ok(reply) => answers.push((answer, Ok(reply))),
                    Err(Halt::Rejected(rejection)) => answers.push((answer, Err(rejection))),
                    Err(Halt::Store(error)) => return Err(error.into()),
                },
                ToShard::Reports(worker, reports) => {
                    for report in &reports {
                        step.take_note(Input::Report(report.clone()))?;
                    }
                    all_reports.push((worker, reports));
                }
                ToShard::Beat(beat) => lost.extend(self.hear(*term, registry, &beat)),
                ToShard::Part(batch, answer) => self.say_part(batch, answer),
            }
        }
        // After what has come: while this one was held up, workers may have been heard all the time.
        lost.extend(registry.run_out());
        for (run, token) in lost.iter().copied() {
            self.world.trace.tell(format_args!("{run} under {token:x} is lost"));
            self.world.saw("an attempt was given up");
            let detail = "its worker was not heard".to_owned();
            step.take_note(Input::Lost { run, token, detail })?;
        }
        let decided = step.finish(registry, false)?;
        Ok(Turned { now, decided, answers, reports: all_reports, lost })
    }

    fn answer(
        &self,
        led: &Led,
        answers: Vec<(Answer, Result<turn::Reply, turn::Rejection>)>,
        reports: Vec<(Place, Vec<turn::Report>)>,
    ) {
        for (answer, result) in answers {
            answer(self.node, result);
        }
        for (worker, reports) in reports {
            let stored = reports.iter().map(|report| (report.run, report.token)).collect();
            let message = ToWorker::Stored(stored);
            self.world.send_to_worker("stored", (self.node, worker), message);
            for report in reports {
                if matches!(report.what, Reported::Finished(_) | Reported::HandedBack) {
                    led.registry.ended(report.run, report.token);
                }
            }
        }
    }

    /// Performs what was decided.
    fn act(&self, led: &mut Led, effects: Vec<Effect>) {
        for effect in led.leading.committed(effects) {
            match effect {
                Effect::Assign(assignment) => {
                    let (worker, instance) = led.registry.promised(&assignment);
                    let (run, token) = (assignment.run, assignment.token);
                    self.world.trace.tell(format_args!("{run} under {token:x} goes to {worker}"));
                    let message = ToWorker::Run { assignment, instance, term: led.term };
                    self.world.send_to_worker("run", (self.node, worker), message);
                }
                Effect::Stop { run, token, worker } => {
                    let to = (self.node, led.registry.place_of(&worker));
                    self.world.send_to_worker("stop", to, ToWorker::Stop(run, token));
                }
                Effect::Batch(id) if id.shard() == self.shard => led.batches.see_to(id),
                _ => {}
            }
        }
    }

    /// A worker was heard: what of its runs is lost. It is told that it was heard once a quorum has
    /// confirmed that this node leads.
    fn hear(&self, term: Term, registry: &Registry, beat: &Beat) -> Vec<(RunId, u64)> {
        let reaction = registry.heard(beat);
        let (world, to) = (&self.world, (self.node, beat.worker));
        for (run, token) in reaction.stop {
            world.send_to_worker("stop", to, ToWorker::Stop(run, token));
        }
        for assignment in reaction.again {
            let (run, token) = (assignment.run, assignment.token);
            world.trace.tell(format_args!("{run} under {token:x} is sent again"));
            let assignment = Box::new(assignment);
            let message = ToWorker::Run { assignment, instance: beat.instance, term };
            world.send_to_worker("run again", to, message);
        }
        let message = ToWorker::Heard { shard: self.shard, term, sent: beat.sent };
        if world.mutant == Some(Mutant::HearAnyway) {
            world.send_to_worker("heard", to, message);
            return reaction.lost;
        }
        let (world, group) = (world.clone(), self.group.clone());
        Runtime::spawn(async move {
            if group.ensure_linearizable(ReadPolicy::ReadIndex).await.is_ok() {
                world.send_to_worker("heard", to, message);
            }
        });
        reaction.lost
    }

    /// Says how a batch stands in this shard, once a quorum has confirmed that this node leads.
    fn say_part(&self, batch: BatchId, answer: AnswerOf<Part>) {
        let (group, tables) = (self.group.clone(), self.tables.clone());
        let (shard, node) = (self.shard, self.node);
        Runtime::spawn(async move {
            if group.ensure_linearizable(ReadPolicy::ReadIndex).await.is_err() {
                return;
            }
            let view = tables.view();
            let row = read::batch(&*view, &[], batch).ok().flatten().map(|stored| stored.row);
            let part = match view.get(Family::Batch, &key::batch_part(shard, batch)) {
                Ok(Some(value)) => record::decode("part", value),
                _ => Ok(PartRow::default()),
            };
            if let Ok(part) = part {
                answer(node, (part, row));
            }
        });
    }
}
