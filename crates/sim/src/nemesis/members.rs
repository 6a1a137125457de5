//! What happens to shards: their leaders are replaced and held up, nodes join and leave them.

use std::sync::atomic::Ordering;

use bellwether_core::waist::Shard;

use super::Nemesis;
use crate::links::Place;
use crate::steer;

/// Fewer voters than this are never left.
const VOTERS_MIN: usize = 3;

impl Nemesis {
    /// Leaders take their time for a while.
    pub(super) async fn hold_up(&self) {
        self.tell(format_args!("leaders take their time"));
        self.world.stalls.store(true, Ordering::Relaxed);
        if self.below(2) == 0 {
            // They have the time to launch something, and are replaced when they do.
            tokio::time::sleep(self.ms(6_000, 14_000)).await;
            self.world.stalls.store(false, Ordering::Relaxed);
            return;
        }
        // Meanwhile leadership goes away and comes back, so that some of them have been replaced and
        // would still be listened to.
        for _ in 0..4 {
            let shard = self.some_shard();
            let leader = steer::leader(&self.world, shard).map(|node| node.id);
            self.transfer(shard, None);
            tokio::time::sleep(self.ms(400, 1_200)).await;
            self.transfer(shard, leader);
            tokio::time::sleep(self.ms(200, 1_500)).await;
        }
        self.world.stalls.store(false, Ordering::Relaxed);
    }

    /// Somebody else is to lead a shard: this one, or any.
    pub(super) fn transfer(&self, shard: Shard, to: Option<Place>) {
        steer::transfer(&self.world, shard, to, &mut self.chance.lock());
    }

    /// A node joins the replicas of a shard, or leaves them.
    pub(super) fn change_members(&self) {
        let shard = self.some_shard();
        let Some(id) = self.chance.lock().of(&self.world.places()).copied() else { return };
        let voters = steer::voters(&self.world, shard);
        if voters.is_empty() || (voters.contains(&id) && voters.len() <= VOTERS_MIN) {
            return;
        }
        if self.parted.load(Ordering::Relaxed) > 0 {
            self.world.saw("members changed during a partition");
        }
        if voters.contains(&id) {
            steer::leave(&self.world, shard, id, voters, &mut self.chance.lock());
        } else {
            steer::join(&self.world, shard, id);
        }
    }

    /// All nodes join a shard, one after the other, and then it shrinks again.
    pub(super) async fn resize(&self) {
        let shard = self.some_shard();
        for id in self.world.places() {
            if !steer::voters(&self.world, shard).contains(&id) {
                steer::join(&self.world, shard, id);
                tokio::time::sleep(self.ms(1_000, 4_000)).await;
            }
        }
        let most = steer::voters(&self.world, shard).len();
        for _ in 0..5 {
            let voters = steer::voters(&self.world, shard);
            if voters.len() > VOTERS_MIN {
                let mut chance = self.chance.lock();
                let any: Vec<Place> = voters.iter().copied().collect();
                let id = chance.of(&any).copied().unwrap_or_default();
                steer::leave(&self.world, shard, id, voters, &mut chance);
            }
            tokio::time::sleep(self.ms(500, 3_000)).await;
        }
        if most == 5 && steer::voters(&self.world, shard).len() == VOTERS_MIN {
            self.world.saw("a shard grew to five and shrank to three");
        }
    }
}
