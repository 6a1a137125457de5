//! What goes wrong, one thing after another and several at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bellwether_core::waist::Shard;
use openraft::ChangeMembers;
use parking_lot::Mutex;

use crate::chance::Chance;
use crate::disk::Disk;
use crate::links::Place;
use crate::node::{Node, metrics, peer};
use crate::worker::Worker;
use crate::world::World;

/// How long a change of members may take before it is left to itself.
const MEMBERS_WITHIN: Duration = Duration::from_secs(10);
/// Fewer voters than this are never left.
const VOTERS_MIN: usize = 3;

/// Whoever makes things go wrong, and right again.
pub struct Nemesis {
    world: Arc<World>,
    disks: BTreeMap<Place, Arc<Disk>>,
    workers: Vec<Arc<Worker>>,
    chance: Mutex<Chance>,
    /// Nodes that stand still.
    paused: Mutex<BTreeSet<Place>>,
}

impl Nemesis {
    /// One who knows where everything is.
    pub fn new(
        world: &Arc<World>,
        disks: BTreeMap<Place, Arc<Disk>>,
        workers: Vec<Arc<Worker>>,
    ) -> Arc<Nemesis> {
        let chance = Mutex::new(world.fork());
        Arc::new(Nemesis { world: world.clone(), disks, workers, chance, paused: Mutex::default() })
    }

    fn below(&self, below: u64) -> u64 {
        self.chance.lock().below(below)
    }

    fn ms(&self, from: u64, to: u64) -> Duration {
        Duration::from_millis(self.chance.lock().between(from, to))
    }

    fn tell(&self, what: std::fmt::Arguments<'_>) {
        self.world.trace.tell(format_args!("-- {what}"));
    }

    /// Any node; more often than not one that leads.
    fn some_node(&self) -> Place {
        let leader = self.leader(self.some_shard()).filter(|_| self.below(2) == 0);
        leader.map_or_else(|| 1 + self.below(self.disks.len() as u64), |node| node.id)
    }

    fn some_shard(&self) -> Shard {
        self.below(u64::from(self.world.shards)) as Shard
    }

    /// Makes one thing after another go wrong, for ever.
    pub async fn run(self: Arc<Self>) {
        loop {
            tokio::time::sleep(self.ms(300, 4_000)).await;
            let node = self.some_node();
            match self.below(20) {
                0..3 => self.clone().spawn(async move |own| own.down(node, true).await),
                3..5 => self.clone().spawn(async move |own| own.down(node, false).await),
                5..7 => self.clone().spawn(async move |own| own.pause(node).await),
                7..10 => self.clone().spawn(async move |own| own.part(node).await),
                10 => self.clone().spawn(async move |own| own.disturb().await),
                11 | 12 => self.set_clock(node),
                13 | 14 => self.transfer(self.some_shard(), None),
                15 => self.change_members(),
                16 => self.clone().spawn(async move |own| own.stall().await),
                _ => self.clone().spawn(async move |own| own.hurt_worker().await),
            }
        }
    }

    fn spawn<F>(self: Arc<Self>, what: impl FnOnce(Arc<Nemesis>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        tokio::spawn(what(self));
    }

    /// A node goes down: its machine, or its process only. Later it comes back.
    async fn down(&self, id: Place, machine: bool) {
        let Some(node) = self.world.down(id) else { return };
        self.paused.lock().remove(&id);
        let what = if machine { "machine" } else { "process" };
        self.tell(format_args!("the {what} of node {id} goes down"));
        if machine {
            node.crash(&mut self.chance.lock());
        } else {
            node.kill();
        }
        drop(node);
        tokio::time::sleep(self.ms(100, 8_000)).await;
        self.boot(id).await;
    }

    async fn boot(&self, id: Place) {
        let Some(disk) = self.disks.get(&id).cloned() else { return };
        self.tell(format_args!("node {id} starts"));
        if let Err(error) = Node::boot(&self.world, id, disk).await {
            self.world.record.lock().wrong(error);
        }
    }

    /// A node stands still for a while.
    async fn pause(&self, id: Place) {
        let Some(node) = self.world.node(id) else { return };
        if !self.paused.lock().insert(id) {
            return;
        }
        self.tell(format_args!("node {id} stands still"));
        node.scope.pause();
        tokio::time::sleep(self.ms(500, 12_000)).await;
        if self.paused.lock().remove(&id) {
            self.tell(format_args!("node {id} goes on"));
        }
        node.scope.resume();
    }

    /// Some links are cut for a while.
    async fn part(&self, id: Place) {
        let all: Vec<Place> = self.disks.keys().copied().collect();
        let how = self.below(3);
        self.tell(format_args!("node {id} is cut off, kind {how}"));
        for other in all.iter().copied().filter(|other| *other != id) {
            match how {
                0 => {
                    self.world.links.cut(id, other);
                    self.world.links.cut(other, id);
                }
                1 => self.world.links.cut(id, other),
                _ => self.world.links.cut(other, id),
            }
        }
        let long = self.below(3) == 0;
        tokio::time::sleep(if long { self.ms(12_000, 25_000) } else { self.ms(500, 8_000) }).await;
        self.tell(format_args!("links are mended"));
        self.world.links.mend();
    }

    /// The network is bad for a while.
    async fn disturb(&self) {
        let (lost, twice, late) = (self.below(200), self.below(100), self.below(300));
        self.tell(format_args!("of 1000 messages {lost} are lost, {twice} doubled, {late} late"));
        self.world.links.disturb(lost, twice, late);
        tokio::time::sleep(self.ms(1_000, 10_000)).await;
        self.world.links.disturb(0, 0, 0);
    }

    /// Leaders take their time for a while.
    async fn stall(&self) {
        self.tell(format_args!("leaders take their time"));
        self.world.stalls.store(true, Ordering::Relaxed);
        // Meanwhile leadership goes away and comes back, so that some of them have been replaced and
        // would still be listened to.
        for _ in 0..4 {
            let shard = self.some_shard();
            let leader = self.leader(shard).map(|node| node.id);
            self.transfer(shard, None);
            tokio::time::sleep(self.ms(400, 1_200)).await;
            self.transfer(shard, leader);
            tokio::time::sleep(self.ms(200, 1_500)).await;
        }
        self.world.stalls.store(false, Ordering::Relaxed);
    }

    /// A clock is set wrong.
    fn set_clock(&self, node: Place) {
        let skew_ms = match self.below(4) {
            0 => 0,
            1 => self.below(400) as i64 - 200,
            2 => self.below(4_000) as i64 - 2_000,
            _ => self.below(40_000) as i64 - 20_000,
        };
        self.tell(format_args!("the clock of node {node} is wrong by {skew_ms} ms"));
        self.world.record.lock().went_back = true;
        self.world.skew(node, skew_ms);
    }

    /// The node that leads a shard: of those that think so, the one that was elected last.
    fn leader(&self, shard: Shard) -> Option<Arc<Node>> {
        let nodes = self.world.nodes().into_iter();
        let leaders = nodes.filter(|node| node.leader(shard) == Some(node.id));
        leaders.max_by_key(|node| node.group(shard).map(|group| metrics(&group).current_term))
    }

    /// Somebody else is to lead a shard: this one, or any.
    fn transfer(&self, shard: Shard, to: Option<Place>) {
        if let Some(leader) = self.leader(shard)
            && let Some(group) = leader.group(shard)
        {
            let others: Vec<u64> = group.voter_ids().filter(|id| *id != leader.id).collect();
            let any = self.chance.lock().of(&others).copied();
            let Some(to) = to.or(any) else { return };
            self.tell(format_args!("node {} is to pass shard {shard} on to {to}", leader.id));
            leader.scope.spawn(async move {
                let _ = group.trigger().transfer_leader(to).await;
            });
        }
    }

    /// A node joins the replicas of a shard, or leaves them.
    fn change_members(&self) {
        let (shard, id) = (self.some_shard(), 1 + self.below(self.disks.len() as u64));
        let Some(leader) = self.leader(shard) else { return };
        let Some(group) = leader.group(shard) else { return };
        let voters: BTreeSet<u64> = group.voter_ids().collect();
        let one = BTreeSet::from([id]);
        if voters.contains(&id) {
            if voters.len() <= VOTERS_MIN {
                return;
            }
            self.tell(format_args!("node {id} leaves shard {shard}"));
            leader.scope.spawn(tokio::time::timeout(MEMBERS_WITHIN, async move {
                let _ = group.change_membership(ChangeMembers::RemoveVoters(one), false).await;
            }));
        } else {
            self.tell(format_args!("node {id} joins shard {shard}"));
            leader.scope.spawn(tokio::time::timeout(MEMBERS_WITHIN, async move {
                if group.add_learner(id, peer(), true).await.is_ok() {
                    let _ = group.change_membership(ChangeMembers::AddVoterIds(one), false).await;
                }
            }));
        }
    }

    /// A worker stands still, dies with its work or without, or loses its connections.
    async fn hurt_worker(&self) {
        let Some(worker) = self.chance.lock().of(&self.workers).cloned() else { return };
        let place = worker.place;
        let after = self.ms(200, 9_000);
        match self.below(4) {
            0 => {
                self.tell(format_args!("worker {place} stands still"));
                worker.pause();
                tokio::time::sleep(self.ms(500, 15_000)).await;
                self.tell(format_args!("worker {place} goes on"));
                worker.resume();
            }
            1 => {
                self.tell(format_args!("worker {place} dies with its work"));
                worker.die(true);
                tokio::time::sleep(after).await;
                worker.come_back();
            }
            2 => {
                self.tell(format_args!("the process of worker {place} dies"));
                worker.die(false);
                tokio::time::sleep(after).await;
                worker.come_back();
            }
            _ => {
                self.tell(format_args!("worker {place} is cut off"));
                let one_way = self.below(2) == 0;
                for node in self.disks.keys() {
                    self.world.links.cut(place, *node);
                    if !one_way {
                        self.world.links.cut(*node, place);
                    }
                }
                tokio::time::sleep(after).await;
                self.world.links.mend();
            }
        }
    }

    /// Makes everything go right again.
    pub async fn heal(&self) {
        self.tell(format_args!("everything is mended"));
        self.world.links.mend();
        self.world.links.disturb(0, 0, 0);
        self.world.stalls.store(false, Ordering::Relaxed);
        self.paused.lock().clear();
        for id in self.disks.keys() {
            self.world.skew(*id, 0);
            match self.world.node(*id) {
                Some(node) => node.scope.resume(),
                None => self.boot(*id).await,
            }
        }
        for worker in &self.workers {
            worker.resume();
            worker.come_back();
        }
    }

    /// Who takes part in a shard, as its leader says.
    #[must_use]
    pub fn replicas(&self, shard: Shard) -> Option<(Arc<Node>, Vec<Place>)> {
        let leader = self.leader(shard)?;
        let group = leader.group(shard)?;
        let metrics = metrics(&group);
        let members = metrics.membership_config.membership().nodes().map(|node| *node.0).collect();
        Some((leader, members))
    }
}
