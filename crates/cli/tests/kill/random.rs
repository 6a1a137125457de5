//! Random choices that a seed decides, and random moments.
#![allow(dead_code)]

use std::time::Duration;

use tokio::time::{Instant, interval_at};

/// A small generator of random numbers, so that a seed decides everything that can be decided.
pub struct Random(u64);

impl Random {
    /// Starts from the seed in a variable, or from one of its own; and says how to get the same
    /// choices again.
    pub fn seeded(variable: &str) -> Random {
        let seed = setting(variable, u64::from(std::process::id()) * 7_919 + 1);
        println!("replay with {variable}={seed}");
        Random(seed | 1)
    }

    /// Starts from a seed.
    pub fn new(seed: u64) -> Random {
        // Small seeds would begin with small numbers otherwise.
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    /// A moment within so many milliseconds from now. That it has no reason is the point of it: a
    /// plug is pulled whatever the server is doing.
    pub fn moment_within(&mut self, ms: u64) -> impl Future<Output = ()> + use<> {
        self.moment_after(0, ms)
    }

    /// The same after so many milliseconds.
    pub fn moment_after(&mut self, least: u64, ms: u64) -> impl Future<Output = ()> + use<> {
        let at = Instant::now() + Duration::from_millis(least + self.below(ms));
        async move {
            interval_at(at, Duration::from_secs(1)).tick().await;
        }
    }
}

/// A number from the environment.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}
