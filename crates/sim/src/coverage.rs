//! What happened how often: a run in which nothing went wrong proves nothing.

use std::collections::BTreeMap;

/// Everything that is counted. Over some seeds each of these has to have happened.
pub const KINDS: [&str; 49] = [
    "a machine went down",
    "a process was killed",
    "a node stood still",
    "a node stood still for half a minute or longer",
    "a node was cut off",
    "a node was cut off in one direction",
    "the nodes were parted in two",
    "links were bad",
    "a clock was set forward",
    "a clock was set back",
    "a clock was set by minutes",
    "leadership was passed on",
    "a leader was held up before a commit",
    "a leader was held up after a commit",
    "a leader was replaced while it was held up",
    "a node joined a shard",
    "a node left a shard",
    "members changed during a partition",
    "a shard grew to five and shrank to three",
    "a disk was lost",
    "a new node took the place of one that was lost",
    "a copy of a shard was taken in",
    "a machine went down while it took in a copy",
    "a copy was received while another one was",
    "a log was purged",
    "a shard was taken over",
    "a commit was fenced off",
    "a leader could not commit",
    "a worker stood still",
    "a worker died with its work",
    "a worker's process died",
    "a worker was cut off",
    "a job was created",
    "a job was changed",
    "a change of an old revision was refused",
    "a job was paused",
    "a job was resumed",
    "a job was put into maintenance",
    "a job was triggered",
    "a job was deleted",
    "a run was canceled",
    "a run was retried by hand",
    "a group was paused",
    "a group was resumed",
    "a batch was accepted",
    "a batch was canceled",
    "a batch has ended and triggered a job",
    "an attempt was a retry",
    "an attempt was given up",
];

/// How often each of them happened.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Coverage(BTreeMap<&'static str, u64>);

impl Coverage {
    /// It happened.
    pub fn saw(&mut self, what: &'static str) {
        debug_assert!(KINDS.contains(&what), "{what} is not counted");
        *self.0.entry(what).or_default() += 1;
    }

    /// How often it happened.
    #[must_use]
    pub fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    /// All of them, and how often they happened.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, u64)> {
        KINDS.into_iter().map(|what| (what, self.of(what)))
    }

    /// Adds what happened in another run.
    pub fn add(&mut self, other: &Coverage) {
        for (what, count) in &other.0 {
            *self.0.entry(what).or_default() += count;
        }
    }

    /// What never happened.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        KINDS.into_iter().filter(|what| self.of(what) == 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_happened_is_missing() {
        let (mut all, mut one) = (Coverage::default(), Coverage::default());
        assert_eq!(all.missing().len(), KINDS.len());
        one.saw("a log was purged");
        all.add(&one);
        all.add(&one);
        assert_eq!(all.of("a log was purged"), 2);
        assert_eq!(all.missing().len(), KINDS.len() - 1);
        assert!(!all.missing().contains(&"a log was purged"));
    }
}
