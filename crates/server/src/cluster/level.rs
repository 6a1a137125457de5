//! How old what this node's replicas show may be.
//!
//! ```text
//!   leader ── "a majority confirmed me 200 ms ago; the log is agreed upon up to 870" ──► Level ◄── applied: 870
//!                                                                                          │
//!                                                      level as of 200 ms before it was asked
//! ```
//! A replica that is cut off cannot know what it lacks: that it has applied all it has heard of says
//! nothing. But a leader that a majority has confirmed knows all that anybody was told of until then, and
//! says so, twice a second, to whoever asks how it stands. Once a replica has applied as much, it is
//! level as of the confirmation. How long ago that was is the most that it can be behind by. An answer
//! may have been long on its way, so it counts as of when it was asked for; what others say unasked does
//! not count, since nobody knows when they said it.
//!
//! Not here: reads about one thing, which ask the leader (see `reading`), and what is read elsewhere,
//! whose age comes with it (see `far`).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bellwether_core::waist::Shard;
use parking_lot::Mutex;

use super::Cluster;
use super::wire::attend::Said;

/// What may be further behind is not shown in lists: it is read elsewhere, or not at all.
pub const BEHIND_MAX: Duration = Duration::from_secs(30);

/// What a leader says: whatever anybody was told of until an instant is in its log up to an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Word {
    /// Until when.
    pub until: Instant,
    /// Up to which entry.
    pub agreed: u64,
}

impl Word {
    /// What a leader says that was asked, or looked at, at an instant, and was confirmed so long before.
    #[must_use]
    pub fn of(asked: Instant, confirmed: Option<Duration>, agreed: Option<u64>) -> Option<Word> {
        Some(Word { until: asked.checked_sub(confirmed?)?, agreed: agreed? })
    }
}

/// When a replica was last known to be level.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Level {
    at: Option<Instant>,
    /// What has been heard and is yet to be applied. The oldest is kept: under load there is
    /// always something newer that is not applied yet.
    waits: Option<Word>,
}

impl Level {
    /// A leader has been heard, and the replica has applied the log up to an entry.
    pub fn hear(&mut self, word: Word, applied: u64) {
        self.look(applied);
        if applied >= word.agreed {
            self.at = self.at.max(Some(word.until));
        } else {
            self.waits.get_or_insert(word);
        }
    }

    /// The replica has applied the log up to an entry.
    pub fn look(&mut self, applied: u64) {
        if let Some(word) = self.waits.take_if(|word| applied >= word.agreed) {
            self.at = self.at.max(Some(word.until));
        }
    }

    /// What was heard before an instant does not count any more.
    fn forget_before(&mut self, woken: Instant) {
        self.at = self.at.filter(|at| *at >= woken);
        self.waits = self.waits.filter(|word| word.until >= woken);
    }

    /// As of when it shows all that anybody was told of; `None` if that was never known.
    #[must_use]
    pub fn at(&self) -> Option<Instant> {
        self.at
    }
}

/// Whether what was level at an instant can still be shown in lists.
#[must_use]
pub fn can_be_listed(at: Option<Instant>, now: Instant) -> bool {
    at.is_some_and(|at| now.saturating_duration_since(at) <= BEHIND_MAX)
}

/// The levels of all replicas of this node.
#[derive(Default)]
pub struct Levels(Mutex<BTreeMap<Shard, Level>>);

impl Levels {
    /// When a replica was last known to be level.
    #[must_use]
    pub fn at(&self, shard: Shard) -> Option<Instant> {
        self.0.lock().get(&shard).and_then(Level::at)
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> BTreeMap<Shard, Instant> {
        let levels = self.0.lock();
        levels.iter().filter_map(|(shard, level)| Some((*shard, level.at()?))).collect()
    }

    /// This machine has slept: what was known before is older than it looks.
    fn forget_before(&self, woken: Instant) {
        self.0.lock().values_mut().for_each(|level| level.forget_before(woken));
    }

    /// A replica has been begun anew: what the one before it showed says nothing about it.
    pub fn forget(&self, shard: Shard) {
        self.0.lock().remove(&shard);
    }

    fn note(&self, shard: Shard, word: Option<Word>, applied: u64) {
        let mut levels = self.0.lock();
        let level = levels.entry(shard).or_default();
        match word {
            Some(word) => level.hear(word, applied),
            None => level.look(applied),
        }
    }
}

impl Cluster {
    /// How level replicas are. Nothing is known from before this machine last slept, be that noticed only now.
    pub(super) fn known_levels(&self) -> &Levels {
        if let Some(woken) = self.awake.since() {
            self.levels.forget_before(woken);
        }
        &self.levels
    }

    /// Notes what another node says of the shards that it leads. It was asked at an instant.
    pub(super) fn note_words(&self, asked: Instant, said: &Said) {
        let led = said.replicas.iter().filter(|replica| replica.leader == Some(said.row.node));
        for replica in led {
            let confirmed = replica.confirmed_ms.map(Duration::from_millis);
            let word = Word::of(asked, confirmed, replica.agreed);
            if let (Some(word), Some(applied)) = (word, self.engine.applied(replica.shard)) {
                self.levels.note(replica.shard, Some(word), applied);
            }
        }
    }

    /// Looks at the own replicas: at those that this node leads, and whether others have applied meanwhile
    /// what was heard of.
    pub(super) fn look_at_levels(&self) {
        for shard in self.engine.replicas() {
            let asked = Instant::now();
            let Some(own) = self.engine.standing(shard) else { continue };
            self.levels.note(shard, Word::of(asked, self.confirmed(&own), own.agreed), own.applied);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// An instant so many seconds after one that all have in common.
    fn at(base: Instant, seconds: u32) -> Instant {
        base + seconds * SECOND
    }

    #[test]
    fn a_replica_is_level_as_of_when_the_leader_was_confirmed() {
        let base = Instant::now();
        let mut level = Level::default();
        assert!(!can_be_listed(level.at(), base), "nothing is known");
        let word = Word::of(at(base, 10), Some(2 * SECOND), Some(7)).unwrap();
        level.hear(word, 7);
        assert_eq!(level.at(), Some(at(base, 8)));
        level.hear(Word { until: at(base, 5), agreed: 3 }, 7);
        assert_eq!(level.at(), Some(at(base, 8)), "what was said before is no news");
    }

    #[test]
    fn what_has_not_been_applied_does_not_count_until_it_has() {
        let base = Instant::now();
        let mut level = Level::default();
        level.hear(Word { until: at(base, 1), agreed: 5 }, 5);
        level.hear(Word { until: at(base, 2), agreed: 9 }, 8);
        assert_eq!(level.at(), Some(at(base, 1)));
        // Under load the newest is never applied when it is heard.
        level.hear(Word { until: at(base, 3), agreed: 14 }, 12);
        assert_eq!(level.at(), Some(at(base, 2)));
        level.look(13);
        assert_eq!(level.at(), Some(at(base, 2)), "the last one is not applied");
        level.hear(Word { until: at(base, 4), agreed: 15 }, 13);
        level.look(14);
        assert_eq!(level.at(), Some(at(base, 3)));
    }

    #[test]
    fn r69_what_was_heard_before_a_sleep_does_not_count_and_what_comes_after_does() {
        let base = Instant::now();
        let mut level = Level::default();
        level.hear(Word { until: at(base, 1), agreed: 5 }, 5);
        level.hear(Word { until: at(base, 2), agreed: 9 }, 8);
        level.forget_before(at(base, 10));
        level.look(9);
        assert_eq!(level.at(), None);
        // Under load nothing is applied when it is heard, and it is looked after the sleep again and again.
        level.hear(Word { until: at(base, 11), agreed: 14 }, 12);
        level.forget_before(at(base, 10));
        level.hear(Word { until: at(base, 12), agreed: 17 }, 14);
        level.forget_before(at(base, 10));
        assert_eq!(level.at(), Some(at(base, 11)));
    }

    #[test]
    fn a_leader_that_nobody_confirms_or_that_does_not_know_what_is_agreed_says_nothing() {
        let base = Instant::now();
        assert_eq!(Word::of(base, None, Some(1)), None);
        assert_eq!(Word::of(base, Some(SECOND), None), None);
        // One that is cut off says the same thing over and over, of an ever longer time ago.
        let mut level = Level::default();
        for second in 0..100 {
            let word = Word::of(at(base, 10 + second), Some((2 + second) * SECOND), Some(4));
            level.hear(word.unwrap(), 4);
            assert_eq!(level.at(), Some(at(base, 8)));
        }
    }

    #[test]
    fn what_is_too_far_behind_is_not_listed() {
        let base = Instant::now();
        assert!(can_be_listed(Some(base), base + BEHIND_MAX));
        assert!(!can_be_listed(Some(base), base + BEHIND_MAX + SECOND));
        assert!(can_be_listed(Some(at(base, 1)), base), "another thread was faster");
    }
}
