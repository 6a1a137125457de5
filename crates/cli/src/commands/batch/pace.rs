//! How far a batch is, in words: what is done, how fast, and how long it will take.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bellwether_api::{Batch, BatchStatus};
use indicatif::HumanCount;

use crate::show::{duration_text, now, relative_text};

/// Over how long the rate is taken.
const WINDOW: Duration = Duration::from_secs(20);
/// A rate over less than this says nothing.
const SPAN_MIN: Duration = Duration::from_secs(1);

/// A number as people read it: `1,000,000`.
pub fn count(number: u64) -> String {
    HumanCount(number).to_string()
}

/// Items that are over, one way or another.
pub fn ended(batch: &Batch) -> u64 {
    batch.succeeded + batch.failed + batch.canceled + batch.lost + batch.skipped
}

/// Whether all of it is over.
pub fn is_over(batch: &Batch) -> bool {
    matches!(batch.status, BatchStatus::Completed | BatchStatus::Canceled)
}

/// The numbers that are not zero, with what they are numbers of.
fn listed(numbers: &[(u64, &str)]) -> Vec<String> {
    let some = numbers.iter().filter(|(number, _)| *number > 0);
    some.map(|(number, what)| format!("{} {what}", count(*number))).collect()
}

/// How fast a batch goes, by what was seen of it lately.
#[derive(Debug, Default)]
pub struct Pace {
    seen: VecDeque<(Instant, u64)>,
}

impl Pace {
    /// Notes how many are over.
    pub fn see(&mut self, at: Instant, over: u64) {
        self.seen.push_back((at, over));
        while self.seen.front().is_some_and(|(first, _)| at.duration_since(*first) > WINDOW) {
            self.seen.pop_front();
        }
    }

    /// Items a second.
    fn rate(&self) -> Option<f64> {
        let ((first, before), (last, over)) = (self.seen.front()?, self.seen.back()?);
        let span = last.duration_since(*first);
        if span < SPAN_MIN || over <= before {
            return None;
        }
        Some((over - before) as f64 / span.as_secs_f64())
    }

    /// Where a batch stands: `24,000 of 50,000 (48%), 300 running, 2 failed, 1,234/s, 21s left`.
    pub fn text(&self, batch: &Batch) -> String {
        let over = ended(batch);
        if batch.status == BatchStatus::Scheduled {
            let begins = batch.schedule_time.map(|time| relative_text(now(), time.0));
            return format!("{} wait; begins {}", count(batch.total), begins.unwrap_or_default());
        }
        let percent = over * 100 / batch.total.max(1);
        let mut parts = vec![format!("{} of {} ({percent}%)", count(over), count(batch.total))];
        if batch.status == BatchStatus::Canceling {
            parts.push("canceling".to_owned());
        }
        parts.extend(listed(&[
            (batch.running, "running"),
            (batch.retrying, "retrying"),
            (batch.failed, "failed"),
            (batch.lost, "lost"),
            (batch.skipped, "skipped"),
        ]));
        if let Some(rate) = self.rate() {
            let shown = if rate < 10.0 { format!("{rate:.1}") } else { count(rate as u64) };
            let left_ms = (batch.total.saturating_sub(over) as f64 / rate * 1_000.0) as u64;
            parts.push(format!("{shown}/s"));
            parts.push(format!("{} left", duration_text(left_ms)));
        }
        parts.join(", ")
    }
}

/// How a batch ended: `completed: 49,998 succeeded, 2 failed, in 41s`.
pub fn ending(batch: &Batch) -> String {
    let word = match batch.status {
        BatchStatus::Canceled => "canceled",
        _ => "completed",
    };
    let mut parts = listed(&[
        (batch.succeeded, "succeeded"),
        (batch.failed, "failed"),
        (batch.canceled, "canceled"),
        (batch.lost, "lost"),
        (batch.skipped, "skipped"),
    ]);
    if let Some(finished) = batch.finished_at {
        let begun = batch.schedule_time.map_or(batch.created_at, |time| time.max(batch.created_at));
        parts.push(format!("in {}", duration_text(finished.0.since_ms(begun.0))));
    }
    format!("{word}: {}", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(status: &str, succeeded: u64, failed: u64) -> Batch {
        let value = serde_json::json!({
            "id": "batch_1", "namespace": "default", "status": status, "total": 50_000,
            "waiting": 0, "retrying": 0, "running": 300, "succeeded": succeeded, "failed": failed,
            "canceled": 0, "lost": 0, "skipped": 0, "created_at": "2026-01-01T00:00:00Z",
            "created_by": "ana", "finished_at": "2026-01-01T00:00:41Z",
        });
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn r58_progress_is_told_with_rate_and_time_left() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut pace = Pace::default();
        pace.see(begun, 0);
        let text = pace.text(&batch("running", 0, 0));
        assert_eq!(text, "0 of 50,000 (0%), 300 running", "nothing is known of the rate yet");
        pace.see(at(20), 24_000);
        assert_eq!(
            pace.text(&batch("running", 23_998, 2)),
            "24,000 of 50,000 (48%), 300 running, 2 failed, 1,200/s, 22s left"
        );
        // What was long ago does not count.
        pace.see(at(40), 24_100);
        assert!(pace.text(&batch("canceling", 24_098, 2)).contains(
            "24,100 of 50,000 (48%), canceling, 300 running, 2 failed, 5.0/s, 1h 26m left"
        ));
        assert_eq!(
            ending(&batch("completed", 49_998, 2)),
            "completed: 49,998 succeeded, 2 failed, in 41s"
        );
    }
}
