//! Whether the clocks of nodes agree.
//!
//! Nothing that must not happen depends on it: leases and elections go by time that has passed. But
//! whoever leads a shard launches by its own clock, so one that is wrong launches early or late, and
//! jobs that are due meanwhile change their time whenever a leader changes. So it is said where a clock is off.

use bellwether_core::time::Time;

/// Clocks that are apart by more are told of.
const APART_MAX_MS: u64 = 500;
/// They agree again when they are apart by no more than this.
const AGREE_MAX_MS: u64 = 250;
/// An answer that took longer says too little.
const WAY_MAX_MS: u64 = 200;

/// By how many milliseconds another node's clock is ahead of this one's for certain: behind if negative. It said
/// what its clock was at some moment between a question and its answer, so as much as that took is uncertain.
/// Nothing if that was long, or this node's own clock was set back meanwhile.
#[must_use]
pub fn ahead_for_certain(clock: Time, asked: Time, answered: Time) -> Option<i64> {
    if answered < asked || answered.since_ms(asked) > WAY_MAX_MS {
        return None;
    }
    let (most, least) = (clock.0.saturating_sub(asked.0), clock.0.saturating_sub(answered.0));
    Some(if least > 0 { least } else { most.min(0) })
}

/// Whether a clock counts as off. One that does has to come nearer than one that does not, so that nobody is told of
/// the same clock again and again.
#[must_use]
pub fn is_off(before: bool, ahead_ms: i64) -> bool {
    ahead_ms.unsigned_abs() > if before { AGREE_MAX_MS } else { APART_MAX_MS }
}

/// Says that a clock is off, or is not any more.
pub fn tell(node: &str, is_off: bool, ahead_ms: i64) {
    if is_off {
        tracing::warn!(
            node,
            ahead_ms,
            "the clocks of that node and this one do not agree, and shards launch by the clock of \
             whoever leads them: keep all nodes in step with NTP"
        );
    } else {
        tracing::info!(node, "the clocks of that node and this one agree again");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r71_a_clock_is_off_only_by_what_its_way_cannot_explain() {
        let ahead =
            |clock, asked, answered| ahead_for_certain(Time(clock), Time(asked), Time(answered));
        assert_eq!(ahead(1_005, 1_000, 1_010), Some(0), "it may have been asked then");
        assert_eq!((ahead(1_000, 1_000, 1_010), ahead(1_010, 1_000, 1_010)), (Some(0), Some(0)));
        assert_eq!(ahead(3_010, 1_000, 1_010), Some(2_000), "ahead");
        assert_eq!(ahead(400, 1_000, 1_010), Some(-600), "behind");
        assert_eq!(ahead(9_000, 1_000, 1_201), None, "its way was long");
        assert_eq!(ahead(5_000, 1_000, 500), None, "the own clock was set back");
        assert_eq!(ahead(i64::MAX, -5, 5), Some(i64::MAX - 5));
        assert_eq!(ahead(i64::MIN, -5, 5), Some(i64::MIN + 5));
    }

    #[test]
    fn a_clock_at_the_edge_is_told_of_once() {
        let mut off = false;
        let told = [400, 501, 499, -499, 260, 501, 250, 499, -501].map(|ahead_ms| {
            let before = off;
            off = is_off(before, ahead_ms);
            (before != off).then_some(off)
        });
        let times: Vec<bool> = told.into_iter().flatten().collect();
        assert_eq!(times, [true, false, true]);
    }
}
