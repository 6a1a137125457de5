//! Choices: a small generator of random numbers, and random jobs.

use bellwether_core::record::{MisfirePolicy, OnFailure, OverlapPolicy};
use bellwether_core::time::Time;

use crate::world::job::{Job, job};

/// A retention that runs out within a life.
pub const SHORT: &str = "1h";

/// SplitMix64: the same seed makes the same choices everywhere.
pub struct Pick(u64);

impl Pick {
    pub fn new(seed: u64) -> Pick {
        Pick(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `below`.
    pub fn below(&mut self, below: u64) -> u64 {
        self.next() % below.max(1)
    }

    /// True once in `of` times.
    pub fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    pub fn of<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        if all.is_empty() { None } else { Some(&all[self.below(all.len() as u64) as usize]) }
    }

    /// A job of any kind.
    pub fn job(&mut self, now: Time) -> Job {
        let mut new = self.scheduled(job(), now);
        if self.one_in(4) {
            new = new.key(["k1", "k2", "k3"][self.below(3) as usize]);
        }
        if self.one_in(3) {
            new = new.group(["g1", "g2"][self.below(2) as usize]).owner("ana");
        }
        if self.one_in(4) {
            new = new.ordering(["o1", "o2"][self.below(2) as usize]);
        }
        if self.one_in(8) {
            new = new.disabled();
        }
        self.with_policies(new)
    }

    /// A member of a batch: it has no time of its own, and no key.
    pub fn member(&mut self) -> Job {
        let new = if self.one_in(3) { job().group("g1") } else { job() };
        self.with_policies(new.without_schedule())
    }

    /// Policies of all kinds.
    pub fn with_policies(&mut self, mut new: Job) -> Job {
        if self.one_in(3) {
            new = new.retries(1 + self.below(3) as u32);
        }
        new = match self.below(4) {
            0 => new.at_most_once(),
            1 => new.at_least_once(),
            _ => new,
        };
        if self.one_in(2) {
            let policy = [MisfirePolicy::Once, MisfirePolicy::Skip, MisfirePolicy::All];
            let window = [None, Some("10s"), Some("2h"), Some("90d")][self.below(4) as usize];
            new = new.misfire(policy[self.below(3) as usize], window, self.below(6) as u32);
        }
        if self.one_in(2) {
            let policy = [
                OverlapPolicy::Skip,
                OverlapPolicy::Queue,
                OverlapPolicy::Replace,
                OverlapPolicy::Allow,
            ];
            new = new.overlap(policy[self.below(4) as usize], self.below(4) as u32);
        }
        if self.one_in(3) {
            new = new.on_failure(OnFailure::Continue);
        }
        if self.one_in(5) {
            new = new.expires(["5s", "1m", "1h"][self.below(3) as usize]);
        }
        if self.one_in(6) {
            let age = if self.one_in(2) { SHORT } else { "300d" };
            new = new.retention(1 + self.below(4) as u32, age);
        }
        if self.one_in(5) && new.0.ordering_key.is_empty() {
            new = new.on_all_workers();
        }
        if self.one_in(4) {
            new = new.queue("heavy").priority(self.below(5) as i32 - 2);
        }
        new
    }

    /// A schedule of any form.
    pub fn scheduled(&mut self, new: Job, now: Time) -> Job {
        let mut new = match self.below(8) {
            0 => new.at(Time(now.0 + self.below(120_000) as i64 - 30_000)),
            1 | 2 => new.delay(&format!("{}ms", self.below(90_000))),
            3 => new.cron("*/10 * * * * *"),
            4 => new.cron("* * * * *"),
            5 => new.every(&format!("{}ms", 5_000 + self.below(20_000))),
            6 => new.every_after_finish(&format!("{}s", 5 + self.below(20))),
            _ => new.every("7s").cron("*/2 * * * *"),
        };
        if self.one_in(6) {
            new = new.max_runs(1 + self.below(3) as u32);
        }
        if self.one_in(6) {
            new = new.jitter(["500ms", "4s", "40s"][self.below(3) as usize]);
        }
        new
    }
}
