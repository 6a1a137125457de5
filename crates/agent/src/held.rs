//! What a worker holds: everything it was given and whose end is not stored yet.

use std::collections::BTreeMap;

use bellwether_protocol::v1::{Held, capacity};

/// What a worker holds.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    /// By run and token: whether its end was reported, and only waits to be stored.
    attempts: BTreeMap<(String, u64), bool>,
    /// How many have not ended.
    active: usize,
}

/// What to do with an assignment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Start it.
    Start,
    /// It is held already.
    Known,
    /// There is no room, or an earlier attempt of the run is not over yet.
    Refuse,
}

impl Holdings {
    /// Takes what is left of an earlier process.
    pub(crate) fn adopt(&mut self, held: Vec<Held>) {
        for held in held {
            self.insert(held, false);
        }
    }

    /// Decides about an assignment, and holds it in any case: if it is refused, until that is
    /// stored.
    pub(crate) fn take(&mut self, held: Held, capacity: &capacity::Mode) -> Verdict {
        if self.holds(&held) {
            return Verdict::Known;
        }
        let slots = match capacity {
            capacity::Mode::Slots(slots) => usize::try_from(*slots).unwrap_or(usize::MAX),
            // What an attempt needs is reckoned by the server.
            capacity::Mode::Resources(_) | capacity::Mode::Unlimited(_) => usize::MAX,
        };
        // An earlier attempt of the run must be over before its successor begins.
        let every_token = (held.run.clone(), 0)..=(held.run.clone(), u64::MAX);
        let overlaps = self.attempts.range(every_token).any(|(_, ended)| !ended);
        let refuse = overlaps || self.active >= slots;
        self.insert(held, refuse);
        if refuse { Verdict::Refuse } else { Verdict::Start }
    }

    /// Holds an attempt that is not going to be started, until that is stored.
    pub(crate) fn refuse(&mut self, held: Held) {
        self.insert(held, true);
    }

    fn insert(&mut self, held: Held, ended: bool) {
        if self.attempts.insert((held.run, held.token), ended).is_none() && !ended {
            self.active += 1;
        }
    }

    /// Notes that the end of an attempt was reported.
    pub(crate) fn ended(&mut self, held: &Held) {
        if let Some(ended) = self.attempts.get_mut(&key(held))
            && !std::mem::replace(ended, true)
        {
            self.active -= 1;
        }
    }

    /// Forgets an attempt.
    pub(crate) fn forget(&mut self, held: &Held) {
        self.ended(held);
        self.attempts.remove(&key(held));
    }

    /// Whether an attempt is held.
    pub(crate) fn holds(&self, held: &Held) -> bool {
        self.attempts.contains_key(&key(held))
    }

    /// All of it.
    pub(crate) fn all(&self) -> Vec<Held> {
        self.attempts.keys().map(held).collect()
    }

    /// What has not ended.
    pub(crate) fn active(&self) -> Vec<Held> {
        self.attempts.iter().filter(|(_, ended)| !**ended).map(|(key, _)| held(key)).collect()
    }

    /// Whether there is nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.attempts.is_empty()
    }
}

fn key(held: &Held) -> (String, u64) {
    (held.run.clone(), held.token)
}

fn held((run, token): &(String, u64)) -> Held {
    Held { run: run.clone(), token: *token }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: capacity::Mode = capacity::Mode::Slots(2);

    fn of(run: &str, token: u64) -> Held {
        Held { run: run.to_owned(), token }
    }

    #[test]
    fn r48_no_more_is_taken_than_there_are_slots() {
        let mut held = Holdings::default();
        assert_eq!(held.take(of("a", 1), &TWO), Verdict::Start);
        assert_eq!(held.take(of("a", 1), &TWO), Verdict::Known);
        assert_eq!(held.take(of("b", 1), &TWO), Verdict::Start);
        assert_eq!(held.take(of("c", 1), &TWO), Verdict::Refuse);
        // A slot is free when the end is reported; the attempt is held until that is stored.
        held.ended(&of("a", 1));
        assert_eq!(held.take(of("d", 1), &TWO), Verdict::Start);
        assert_eq!(held.all(), [of("a", 1), of("b", 1), of("c", 1), of("d", 1)]);
        assert_eq!(held.active(), [of("b", 1), of("d", 1)]);
        held.forget(&of("a", 1));
        held.forget(&of("b", 1));
        assert_eq!(held.all(), [of("c", 1), of("d", 1)]);
        assert_eq!(held.active, 1);
    }

    #[test]
    fn an_attempt_does_not_begin_before_the_one_before_it_is_over() {
        let mut held = Holdings::default();
        held.adopt(vec![of("a", 1)]);
        assert_eq!(held.take(of("a", 2), &TWO), Verdict::Refuse);
        held.ended(&of("a", 1));
        assert_eq!(held.take(of("a", 3), &TWO), Verdict::Start);
        for token in 1..=3 {
            held.forget(&of("a", token));
        }
        assert!(held.is_empty());
        assert_eq!(held.active, 0);
    }
}
