//! What happens to nodes: they go down, stand still, are cut off, are wrong about the time, lose
//! their disk.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Nemesis;
use crate::disk::Disk;
use crate::links::Place;
use crate::mutant::Mutant;
use crate::steer;

/// How long it is waited for a copy to be taken in that is to be interrupted.
const COPY_WITHIN: Duration = Duration::from_secs(12);

impl Nemesis {
    /// A node goes down: its machine, or its process only. Later it comes back.
    pub(super) async fn down(&self, id: Place, machine: bool) {
        if self.break_down(id, machine) {
            tokio::time::sleep(self.ms(100, 8_000)).await;
            self.boot(id).await;
        }
    }

    /// A node goes down, if it is up.
    pub(super) fn break_down(&self, id: Place, machine: bool) -> bool {
        let Some(node) = self.world.down(id) else { return false };
        self.paused.lock().remove(&id);
        let what = if machine { "machine" } else { "process" };
        self.tell(format_args!("the {what} of node {id} goes down"));
        // What its tables could not write any more, they have lost with the machine.
        if machine || self.disk(id).is_some_and(|disk| disk.tables.has_failed()) {
            self.world.saw("a machine went down");
            node.crash(&mut self.chance.lock());
        } else {
            self.world.saw("a process was killed");
            node.kill();
            node.disk.tables.fail_in_copy(None);
        }
        true
    }

    fn disk(&self, id: Place) -> Option<Arc<Disk>> {
        self.disks.lock().get(&id).cloned()
    }

    /// A node stands still for a while.
    pub(super) async fn pause(&self, id: Place) {
        let Some(node) = self.world.node(id) else { return };
        if !self.paused.lock().insert(id) {
            return;
        }
        self.world.saw("a node stood still");
        self.tell(format_args!("node {id} stands still"));
        node.scope.pause();
        let long = self.below(5) == 0;
        if long {
            self.world.saw("a node stood still for half a minute or longer");
        }
        tokio::time::sleep(if long { self.ms(30_000, 70_000) } else { self.ms(500, 12_000) }).await;
        if self.paused.lock().remove(&id) {
            self.tell(format_args!("node {id} goes on"));
        }
        node.scope.resume();
    }

    /// Some links are cut for a while.
    pub(super) async fn part(&self, id: Place) {
        let all = self.world.places();
        let links = &self.world.links;
        let how = self.below(4);
        self.tell(format_args!("node {id} is cut off, kind {how}"));
        self.world.saw(match how {
            0 => "a node was cut off",
            1 | 2 => "a node was cut off in one direction",
            _ => "the nodes were parted in two",
        });
        let with_it = |other: Place| other == id || (how == 3 && self.below(2) == 0);
        let (here, there): (Vec<Place>, Vec<Place>) =
            all.into_iter().partition(|other| with_it(*other));
        let pairs = here.iter().flat_map(|one| there.iter().map(move |two| (*one, *two)));
        let mut ways = Vec::new();
        for (one, other) in pairs {
            ways.extend((how != 2).then_some((one, other)));
            ways.extend((how != 1).then_some((other, one)));
        }
        links.cut(&ways);
        self.parted.fetch_add(1, Ordering::Relaxed);
        let long = self.below(2) == 0;
        tokio::time::sleep(if long { self.ms(10_000, 25_000) } else { self.ms(500, 8_000) }).await;
        self.parted.fetch_sub(1, Ordering::Relaxed);
        self.tell(format_args!("node {id} is cut off no longer"));
        links.uncut(&ways);
    }

    /// The network is bad for a while.
    pub(super) async fn disturb(&self) {
        let (lost, twice, late) = (self.below(200), self.below(100), self.below(300));
        self.tell(format_args!("of 1000 messages {lost} are lost, {twice} doubled, {late} late"));
        self.world.saw("links were bad");
        self.world.links.disturb(lost, twice, late);
        tokio::time::sleep(self.ms(1_000, 10_000)).await;
        self.world.links.disturb(0, 0, 0);
    }

    /// A clock is set wrong.
    pub(super) fn set_clock(&self, node: Place) {
        let skew_ms = match self.below(9) {
            0 | 1 => 0,
            2 | 3 => self.below(400) as i64 - 200,
            4 | 5 => self.below(4_000) as i64 - 2_000,
            6 | 7 => self.below(40_000) as i64 - 20_000,
            _ => {
                self.world.saw("a clock was set by minutes");
                self.below(600_000) as i64 - 300_000
            }
        };
        self.tell(format_args!("the clock of node {node} is wrong by {skew_ms} ms"));
        self.world.record.lock().went_back = true;
        let before_ms = self.world.skew(node, skew_ms);
        match skew_ms.cmp(&before_ms) {
            std::cmp::Ordering::Less => self.world.saw("a clock was set back"),
            std::cmp::Ordering::Equal => {}
            std::cmp::Ordering::Greater => self.world.saw("a clock was set forward"),
        }
    }

    /// A node loses its disk and never comes back. A new one takes its place, under a number of its
    /// own: one that has forgotten what it promised must not pass for the one that promised it.
    pub(super) async fn lose_disk(&self, id: Place) {
        if self.world.node(id).is_none() || self.lost.swap(true, Ordering::Relaxed) {
            return; // Another one must not be lost before its place is taken.
        }
        self.break_down(id, true);
        self.tell(format_args!("node {id} has lost its disk"));
        self.world.saw("a disk was lost");
        self.disks.lock().remove(&id);
        self.world.is_gone(id);
        tokio::time::sleep(self.ms(300, 6_000)).await;
        let same = self.world.mutant == Some(Mutant::Amnesia);
        let new = if same { id } else { self.newcomers.fetch_add(1, Ordering::Relaxed) };
        self.disks.lock().insert(new, Arc::new(Disk::new(&self.world.dir, new)));
        self.world.exists(new);
        self.boot(new).await;
        // Twice: somebody may have asked it to join before, and that may still be under way.
        for wait in [steer::MEMBERS_WITHIN, Duration::ZERO].into_iter().filter(|_| !same) {
            for shard in 0..self.world.shards {
                steer::replace(&self.world, shard, id, new).await;
            }
            tokio::time::sleep(wait).await;
        }
        self.world.saw("a new node took the place of one that was lost");
        self.lost.store(false, Ordering::Relaxed);
    }

    /// A node is away for long enough to need a copy of a shard, and its machine goes down in the
    /// midst of taking it in.
    pub(super) async fn tear_copy(&self, id: Place) {
        let Some(disk) = self.disk(id) else { return };
        if !self.break_down(id, false) {
            return;
        }
        tokio::time::sleep(self.ms(4_000, 12_000)).await;
        self.boot(id).await;
        disk.tables.fail_in_copy(Some(self.below(14) as usize));
        let until = tokio::time::Instant::now() + COPY_WITHIN;
        while tokio::time::Instant::now() < until && !disk.tables.has_failed() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        if disk.tables.has_failed() && self.break_down(id, true) {
            self.world.saw("a machine went down while it took in a copy");
            self.tell(format_args!("node {id} has taken in a part of a copy"));
            tokio::time::sleep(self.ms(100, 3_000)).await;
            self.boot(id).await;
        }
        disk.tables.fail_in_copy(None);
    }
}
