//! What happened, in order: a hash of all of it, and lines for people.
//!
//! The hash is what makes "the same seed does the same" checkable: whatever differs between two runs
//! shows up here sooner or later, because what is delivered, decided and started is noted.

use std::fmt;

use parking_lot::Mutex;
use tokio::time::Instant;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The story of a run.
pub struct Trace {
    begun: Instant,
    print: bool,
    state: Mutex<(u64, u64)>,
}

impl Trace {
    /// An empty one; its lines are printed if somebody wants them.
    #[must_use]
    pub fn new(print: bool) -> Trace {
        Trace { begun: Instant::now(), print, state: Mutex::new((0, 0)) }
    }

    /// Virtual time since the beginning.
    #[must_use]
    pub fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Something happened that people want to read.
    pub fn tell(&self, what: fmt::Arguments<'_>) {
        let line = format!("{:>7} {what}", self.elapsed_ms());
        self.add(line.as_bytes());
        if self.print {
            println!("{line}");
        }
    }

    /// Something happened that only counts.
    pub fn note(&self, what: &str, numbers: [u64; 3]) {
        let mut bytes = what.as_bytes().to_vec();
        for number in numbers.into_iter().chain([self.elapsed_ms()]) {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        self.add(&bytes);
    }

    fn add(&self, bytes: &[u8]) {
        let mut state = self.state.lock();
        *state = (xxh3_64_with_seed(bytes, state.0), state.1 + 1);
    }

    /// A hash of all that happened, and how much that was.
    #[must_use]
    pub fn hash(&self) -> (u64, u64) {
        *self.state.lock()
    }
}
