//! Which shard a job goes to that may go to any.
//!
//! One after the other, so that all get the same. Only when many jobs are created at the same time a few
//! of them in a row go to one shard: it stores them in one commit, and a commit costs more than a job
//! does. Nobody waits for that to happen; with few callers each job has a shard of its own, and its
//! commit is under way at once.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

/// For so many jobs under way there is one more in a row.
const UNDER_WAY_FOR_EACH: usize = 4;
/// Jobs in a row that go to one shard at most.
const ROW_MAX: usize = 16;

/// How many jobs in a row go to one shard.
fn row(under_way: usize) -> usize {
    (under_way / UNDER_WAY_FOR_EACH).clamp(1, ROW_MAX)
}

/// Spreads jobs over shards.
#[derive(Debug, Default)]
pub struct Spread {
    under_way: AtomicUsize,
    place: Mutex<Place>,
}

#[derive(Debug, Default)]
struct Place {
    shard: usize,
    /// How many more go to it.
    left: usize,
}

/// A job that is being created, while this is there.
pub struct UnderWay<'a>(&'a AtomicUsize);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Spread {
    /// Begins after this shard.
    #[must_use]
    pub fn after(shard: usize) -> Spread {
        Spread { place: Mutex::new(Place { shard, left: 0 }), ..Spread::default() }
    }

    /// A job is being created from here on.
    pub fn begin(&self) -> UnderWay<'_> {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay(&self.under_way)
    }

    /// The place of the next job among so many shards.
    #[must_use]
    pub fn next(&self, shards: usize) -> usize {
        let mut place = self.place.lock();
        if place.left == 0 {
            let shard = place.shard.wrapping_add(1) % shards;
            *place = Place { shard, left: row(self.under_way.load(Ordering::Relaxed)) };
        }
        place.left -= 1;
        place.shard
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_that_come_alone_go_to_one_shard_after_the_other() {
        let spread = Spread::after(usize::MAX);
        let places: Vec<usize> = (0..6)
            .map(|_| {
                let _under_way = spread.begin();
                spread.next(4)
            })
            .collect();
        assert_eq!(places, [0, 1, 2, 3, 0, 1]);
    }

    #[test]
    fn jobs_that_come_together_are_stored_together_and_all_shards_get_the_same() {
        let spread = Spread::after(15);
        let callers: Vec<UnderWay<'_>> = (0..64).map(|_| spread.begin()).collect();
        let places: Vec<usize> = (0..16 * 64).map(|_| spread.next(16)).collect();
        assert!(places.chunks(ROW_MAX).all(|row| row.iter().all(|place| *place == row[0])));
        for shard in 0..16 {
            assert_eq!(places.iter().filter(|place| **place == shard).count(), 64);
        }
        drop(callers);
        let after: Vec<usize> = (0..3).map(|_| spread.next(16)).collect();
        assert_eq!(after, [0, 1, 2], "nobody is under way any more");
    }

    #[test]
    fn rows_grow_with_the_number_of_callers() {
        assert_eq!([0, 1, 7, 8, 16, 64, 5_000].map(row), [1, 1, 1, 2, 4, 16, 16]);
    }
}
