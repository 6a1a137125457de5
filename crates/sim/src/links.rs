//! Who can reach whom, how fast and how surely.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;

use crate::chance::Chance;

/// Whoever sends and is sent to: a node by its number, a worker from [`WORKERS`] on, a client from
/// [`CLIENTS`] on.
pub type Place = u64;

/// Where workers begin.
pub const WORKERS: Place = 100;
/// Where clients begin.
pub const CLIENTS: Place = 200;

/// The state of the network.
pub struct Links(Mutex<State>);

struct State {
    chance: Chance,
    /// Directions that are cut, from and to, and how often.
    cut: BTreeMap<(Place, Place), u32>,
    /// Messages of a thousand that are lost.
    lost: u64,
    /// Messages of a thousand that come twice.
    twice: u64,
    /// Messages of a thousand that are late, by up to a second.
    late: u64,
}

/// What becomes of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fate {
    /// It arrives after so long; `None` if never.
    pub after: Option<Duration>,
    /// And once more after so long.
    pub again: Option<Duration>,
}

impl Links {
    /// All is well.
    #[must_use]
    pub fn new(chance: Chance) -> Links {
        Links(Mutex::new(State { chance, cut: BTreeMap::new(), lost: 0, twice: 0, late: 0 }))
    }

    /// What becomes of a message that is sent now.
    pub fn fate(&self, from: Place, to: Place) -> Fate {
        let mut state = self.0.lock();
        if from != to
            && (state.cut.contains_key(&(from, to)) || {
                let lost = state.lost;
                state.chance.per_mille(lost)
            })
        {
            return Fate { after: None, again: None };
        }
        let after = Some(state.delay(from, to));
        let twice = state.twice;
        let again = state.chance.per_mille(twice).then(|| state.delay(from, to) * 3);
        Fate { after, again }
    }

    /// Cuts some directions.
    pub fn cut(&self, ways: &[(Place, Place)]) {
        let mut state = self.0.lock();
        for way in ways {
            *state.cut.entry(*way).or_default() += 1;
        }
    }

    /// Takes back a cut. Whatever else has cut the same goes on.
    pub fn uncut(&self, ways: &[(Place, Place)]) {
        let mut state = self.0.lock();
        for way in ways {
            if let Some(times) = state.cut.get_mut(way) {
                *times -= 1;
                if *times == 0 {
                    state.cut.remove(way);
                }
            }
        }
    }

    /// How much is lost, doubled and late, of a thousand.
    pub fn disturb(&self, lost: u64, twice: u64, late: u64) {
        let mut state = self.0.lock();
        (state.lost, state.twice, state.late) = (lost, twice, late);
    }

    /// Nothing is cut any more.
    pub fn mend(&self) {
        self.0.lock().cut.clear();
    }
}

impl State {
    fn delay(&mut self, from: Place, to: Place) -> Duration {
        if from == to {
            return Duration::ZERO;
        }
        let late = self.late;
        let ms = if self.chance.per_mille(late) {
            self.chance.between(50, 1_000)
        } else {
            self.chance.between(1, 8)
        };
        Duration::from_millis(ms)
    }
}
