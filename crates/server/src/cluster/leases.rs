//! With which leaders this node is in touch, and how long what its own worker runs for them may go on.
//!
//! What the built-in worker runs has a lease by shard, which is renewed whenever its leader answers:
//!
//! ```text
//!  asked, and answered     until      +0.75 s     +1 s       +1.25 s          +4 s, from when it was heard
//!   ├─── work goes on ───────┼───────────┼──────────┼───────────┼──────────────┤
//!   └ heard at most a second └ asked to  └ and by   └ killed    └ and by the   └ the leader may give it
//!     before, by the leader    end         the guard              guard          to another
//! ```
//!
//! It counts from when the leader was asked, since an answer may have been long on its way, or waited for a node
//! that stood still. A run that was claimed has its lease from when it was asked for, whatever has been heard since.
//!
//! The guard is another process, which does so if the node stands still or is gone. The clock is the one
//! that nobody sets and that goes on while the machine sleeps.

use std::sync::Arc;
use std::time::Duration;

use bellwether_core::waist::Shard;
use bellwether_raft::Standing;
use bellwether_worker::guard::{Deadline, boot_ms};
use tokio_util::sync::CancellationToken;

use super::Cluster;

/// A leader that has answered so lately knows which workers are here.
const IN_TOUCH: Duration = Duration::from_secs(3);
/// A majority must have confirmed a leader so shortly before it answered.
const CONFIRMED: Duration = Duration::from_secs(1);
/// How much longer than its lease a worker may be unseen before what it has is given to another: nodes tell
/// of their workers with a delay, and it takes a moment to end what they run.
pub(super) const GRACE: Duration = Duration::from_secs(4);
/// How long after the end of its lease work is killed that was asked to end.
const KILL_AFTER_MS: u64 = 1_000;
/// When the guard does the same, by the lease that it was told of last.
const GUARD_STOPS_AFTER_MS: u64 = 750;
const GUARD_KILLS_AFTER_MS: u64 = 1_250;
/// How often leases are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The end of a lease, and what follows.
#[derive(Clone, Copy, Debug)]
pub struct Lease {
    /// When it ends.
    pub until_ms: u64,
}

/// The lease of a run.
#[derive(Clone, Copy, Debug)]
pub struct Leased {
    /// That which it was claimed with.
    pub first: Lease,
    /// That which it has by now.
    pub now: Lease,
}

impl Lease {
    /// When work is asked to end, and when it is killed.
    #[must_use]
    pub fn deadline(self) -> Deadline {
        let stop_at_ms = self.until_ms;
        Deadline { stop_at_ms, kill_at_ms: stop_at_ms.saturating_add(KILL_AFTER_MS) }
    }

    /// When the guard does that.
    #[must_use]
    pub fn deadline_of_guard(self) -> Deadline {
        let after = |ms: u64| self.until_ms.saturating_add(ms);
        let (stop_at_ms, kill_at_ms) = (after(GUARD_STOPS_AFTER_MS), after(GUARD_KILLS_AFTER_MS));
        Deadline { stop_at_ms, kill_at_ms }
    }
}

impl Cluster {
    /// How long there have been other nodes.
    pub(super) fn company_for(&self) -> Duration {
        self.company.lock().map_or(Duration::ZERO, since)
    }

    /// Whether this node is in touch with the leader of a shard.
    pub(super) fn is_in_touch_with(&self, shard: Shard) -> bool {
        self.touched.lock().get(&shard).is_some_and(|touched| since(*touched) < IN_TOUCH)
    }

    /// Until when this node's own worker may go on with a run of a shard that it asked for at an instant;
    /// nothing if there is nobody to whom it could be given. A node that has had company only since it was
    /// last in touch has not been cut off before.
    #[must_use]
    pub fn lease_on(&self, shard: Shard, asked_ms: u64, length: Duration) -> Option<Leased> {
        let company = (*self.company.lock())?;
        let touched = self.touched.lock().get(&shard).copied().unwrap_or(0);
        let length_ms = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        let from = |ms: u64| Lease { until_ms: ms.max(company).saturating_add(length_ms) };
        Some(Leased { first: from(asked_ms), now: from(touched.max(asked_ms)) })
    }

    /// How long ago a majority last said that this node leads a shard, if it did so after this machine
    /// last slept.
    pub(super) fn confirmed(&self, standing: &Standing) -> Option<Duration> {
        standing.confirmed.and_then(|ago| self.awake.counts(ago))
    }

    /// Has the node's own worker end what it runs for leaders that it cannot reach, until told to stop.
    pub async fn keep_leases(self: Arc<Self>, stop: CancellationToken) {
        let Some(worker) = self.hands().worker.clone() else { return };
        let mut interval = tokio::time::interval(LOOK_EVERY);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = interval.tick() => worker.look_at_leases(),
            }
        }
    }

    /// When the leader of a shard was asked that last answered, if a majority said by then that it leads: one that
    /// has been replaced without knowing must not keep workers at work.
    fn heard_leader(&self, shard: Shard) -> Option<u64> {
        let leader = self.leader(shard)?;
        let (asked_ms, confirmed) = if leader == self.identity.node {
            (boot_ms(), self.confirmed(&self.engine.standing(shard)?)?)
        } else {
            let known = self.book.get(leader)?;
            let (_, said) = known.heard.as_ref()?;
            let replica = said.replicas.iter().find(|replica| replica.shard == shard)?;
            (known.asked_ms?, Duration::from_millis(replica.confirmed_ms?))
        };
        (confirmed < CONFIRMED).then_some(asked_ms)
    }

    /// Notes with which leaders this node is in touch, and since when it has not heard them: all nodes
    /// were asked, and one that hangs may have held up the others' answers.
    pub(super) fn note_touch(&self) {
        let mut touched = self.touched.lock();
        for handle in &self.shards {
            if let Some(heard_ms) = self.heard_leader(handle.shard) {
                let last = touched.entry(handle.shard).or_insert(heard_ms);
                *last = heard_ms.max(*last);
            }
        }
    }
}

fn since(then_ms: u64) -> Duration {
    Duration::from_millis(boot_ms().saturating_sub(then_ms))
}
