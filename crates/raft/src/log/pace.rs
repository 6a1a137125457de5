//! How fast a replica that is far behind is sent what it lacks.
//!
//! A node that was away could be sent everything at once, by all groups, as fast as disks and
//! processors go; whatever else is to be done would come late meanwhile. So what is far behind waits
//! for its turn in one line for all groups of a node. The line moves at a modest pace, and always twice
//! as fast as new entries come, or whoever is behind would stay so.
//!
//! Copies of shards have a line of their own, which moves by the same rules a few times as fast.
//!
//! Not paced: a replica that nearly keeps up, and one without which nothing is committed. The others
//! wait for it.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How many times as fast as new entries come.
const TIMES: f64 = 2.0;
/// Over how long it is measured how fast they come.
const WINDOW: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Line {
    /// Bytes a second at least.
    least: f64,
    /// When whoever comes next may go: entries, and copies.
    free: [Instant; 2],
    /// Bytes of new entries since then.
    window: (Instant, u64),
    /// Bytes of new entries a second, as last measured.
    newest: f64,
}

/// The line in which everything waits that is far behind.
#[derive(Debug)]
pub(crate) struct Pace(Mutex<Line>);

impl Pace {
    /// Nobody waits yet. The line moves by so many bytes a second at least.
    pub fn new(now: Instant, least: u64) -> Pace {
        let (least, free, window) = (least as f64, [now; 2], (now, 0));
        Pace(Mutex::new(Line { least, free, window, newest: 0.0 }))
    }

    /// New entries have been added.
    pub fn added(&self, now: Instant, bytes: u64) {
        let mut line = self.0.lock();
        line.window.1 += bytes;
        line.measure(now);
    }

    /// How long to wait with so many bytes for a replica that is far behind.
    pub fn wait(&self, now: Instant, bytes: u64) -> Duration {
        self.0.lock().wait(0, now, bytes, 1)
    }

    /// How long to wait with so many bytes of a copy, which go so many times as fast.
    pub fn wait_copy(&self, now: Instant, bytes: u64, times: u64) -> Duration {
        self.0.lock().wait(1, now, bytes, times)
    }
}

impl Line {
    fn wait(&mut self, which: usize, now: Instant, bytes: u64, times: u64) -> Duration {
        self.measure(now);
        let rate = (TIMES * self.newest).max(self.least * times as f64);
        let from = self.free[which].max(now);
        self.free[which] = from + Duration::from_secs_f64(bytes as f64 / rate);
        from - now
    }

    fn measure(&mut self, now: Instant) {
        let (begun, bytes) = self.window;
        let took = now.saturating_duration_since(begun);
        if took >= WINDOW {
            self.newest = bytes as f64 / took.as_secs_f64();
            self.window = (now, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    fn after_ms(start: Instant, ms: u64) -> Instant {
        start + Duration::from_millis(ms)
    }

    #[test]
    fn what_is_far_behind_waits_in_line() {
        let start = Instant::now();
        let pace = Pace::new(start, 16 * MIB);
        assert_eq!(pace.wait(start, 8 * MIB), Duration::ZERO, "nobody is before it");
        assert_eq!(pace.wait(start, 8 * MIB), Duration::from_millis(500));
        assert_eq!(pace.wait(after_ms(start, 250), MIB), Duration::from_millis(750));
        assert_eq!(pace.wait(after_ms(start, 9_000), MIB), Duration::ZERO, "the line is empty");
    }

    #[test]
    fn whoever_is_behind_gets_more_than_there_is_new() {
        let start = Instant::now();
        let pace = Pace::new(start, 16 * MIB);
        for ms in (0..=2_000).step_by(10) {
            pace.added(after_ms(start, ms), MIB); // 100 MiB/s.
        }
        let now = after_ms(start, 2_000);
        assert_eq!(pace.wait(now, 100 * MIB), Duration::ZERO);
        let wait = pace.wait(now, MIB).as_secs_f64();
        assert!((0.45..0.55).contains(&wait), "100 MiB at 200 MiB/s: {wait} s");
    }

    #[test]
    fn it_is_forgotten_how_fast_new_entries_came() {
        let start = Instant::now();
        let pace = Pace::new(start, 16 * MIB);
        pace.added(after_ms(start, 1_000), 1_000 * MIB);
        let later = after_ms(start, 61_000);
        pace.wait(later, 16 * MIB);
        assert!(pace.wait(later, MIB) > Duration::from_millis(400), "as slow as before");
    }
}
