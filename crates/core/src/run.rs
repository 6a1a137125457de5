//! The life of a run: which events may follow which, and what each does to the run.
//!
//! ```text
//!  scheduled ─► queued ─► claimed ─► running ─► succeeded
//!      │          ▲ │        │          ├────► retrying ─► queued   (after the backoff)
//!      │          │ │        │          ├────► failed
//!      │          └─│────────┴──────────┤      (outcome unknown, at_least_once: requeued)
//!      │            │                   ├────► canceled
//!      │            │                   └────► lost                 (outcome unknown, at_most_once)
//!      └─► skipped ◄┘
//!  failed, lost, canceled, skipped ─► queued   (somebody asks for another go)
//!  failed, lost ─► canceled                    (somebody gives it up, which frees its ordering key)
//!  queued, retrying ─► lost                    (restored from a backup: it may have gone on since)
//! ```
//!
//! Every change of a run goes through [`record`], which refuses what the drawing does not show, so
//! that an illegal state cannot be stored. The events are kept and the rest of the run can be
//! rebuilt from them alone ([`rebuild`]).

use crate::record::{Cause, Event, EventKind, Run, RunStatus};
use crate::time::Time;

/// The status that follows when `kind` happens to a run in `status`; `None` if it cannot happen.
#[must_use]
pub fn next_status(status: RunStatus, kind: EventKind) -> Option<RunStatus> {
    use EventKind as E;
    use RunStatus as S;
    Some(match (status, kind) {
        (S::Scheduled | S::Retrying, E::Queued) => S::Queued,
        (S::Scheduled | S::Queued | S::Retrying, E::Skipped) => S::Skipped,
        (S::Queued, E::Claimed) => S::Claimed,
        (S::Claimed, E::Started) => S::Running,
        (S::Claimed | S::Running, E::Succeeded) => S::Succeeded,
        (S::Claimed | S::Running, E::Retrying) => S::Retrying,
        (S::Claimed | S::Running, E::Failed) => S::Failed,
        (S::Queued | S::Claimed | S::Running | S::Retrying, E::Lost) => S::Lost,
        (S::Claimed | S::Running, E::Requeued) => S::Queued,
        (S::Claimed | S::Running, E::CancelRequested) => status,
        (S::Scheduled | S::Queued | S::Claimed | S::Running | S::Retrying, E::Canceled) => {
            S::Canceled
        }
        (S::Failed | S::Lost, E::Canceled) => S::Canceled,
        (S::Failed | S::Lost | S::Canceled | S::Skipped, E::RetryRequested) => S::Queued,
        _ => return None,
    })
}

/// Whether a run in this status has ended.
#[must_use]
pub fn is_ended(status: RunStatus) -> bool {
    matches!(
        status,
        RunStatus::Succeeded
            | RunStatus::Failed
            | RunStatus::Canceled
            | RunStatus::Lost
            | RunStatus::Skipped
    )
}

/// Whether an attempt of the run is with a worker.
#[must_use]
pub fn is_with_worker(status: RunStatus) -> bool {
    matches!(status, RunStatus::Claimed | RunStatus::Running)
}

/// A new run that nothing has happened to.
#[must_use]
pub fn new(n: u32, scheduled: Time, filed: Time, class: u16, cause: Cause) -> Run {
    Run {
        n,
        scheduled_ms: scheduled.0,
        filed_ms: filed.0,
        class: u32::from(class),
        cause: cause as i32,
        ..Run::default()
    }
}

/// An event with nothing but its time and kind.
#[must_use]
pub fn event(at: Time, kind: EventKind) -> Event {
    Event { at_ms: at.0, kind: kind as i32, ..Event::default() }
}

/// An event with a reason: a stable word, and a sentence for people.
#[must_use]
pub fn event_because(at: Time, kind: EventKind, reason: &str, detail: &str) -> Event {
    Event { reason: reason.to_owned(), detail: detail.to_owned(), ..event(at, kind) }
}

/// Lets an event happen to a run.
///
/// # Panics
/// If the event cannot follow: that is a bug in the rules, and going on would store nonsense.
pub fn record(run: &mut Run, mut happened: Event) {
    let kind = happened.kind();
    let Some(status) = next_status(run.status(), kind) else {
        panic!("run {} is {:?}: {kind:?} cannot happen", run.n, run.status());
    };
    match kind {
        EventKind::Claimed => {
            run.attempt += 1;
            run.token = happened.token;
            run.worker.clone_from(&happened.worker);
        }
        EventKind::Retrying => {
            run.failures += 1;
            run.retry_ms = happened.next_ms;
        }
        EventKind::Failed => run.failures += 1,
        EventKind::Lost => run.losses += 1,
        EventKind::Requeued if happened.reason != HANDED_BACK => run.losses += 1,
        EventKind::CancelRequested => run.cancel_requested = true,
        EventKind::RetryRequested => {
            run.failures = 0;
            run.losses = 0;
            run.cancel_requested = false;
        }
        _ => {}
    }
    if kind != EventKind::Retrying {
        run.retry_ms = 0;
    }
    if run.attempt > 0 && kind != EventKind::RetryRequested {
        happened.attempt = run.attempt;
    }
    run.status = status as i32;
    run.events.push(happened);
    bound_events(run);
}

/// The reason of a requeue that is no loss: the worker gave the attempt back before starting it.
pub const HANDED_BACK: &str = "handed_back";

/// Whether the attempt with this token has ended, and that because its worker said so: then what
/// it says again is no news. What nobody knows the end of is no such attempt.
#[must_use]
pub fn was_reported(run: &Run, token: u64) -> bool {
    let claimed = |e: &Event| e.kind() == EventKind::Claimed && e.token == token;
    let Some(at) = run.events.iter().position(claimed) else {
        return false;
    };
    let ending = run.events[at + 1..].iter().find_map(|event| match event.kind() {
        EventKind::Claimed | EventKind::Lost => Some(false),
        EventKind::Succeeded | EventKind::Retrying => Some(true),
        EventKind::Failed => Some(event.reason != LOST_TOO_OFTEN),
        EventKind::Canceled => Some(event.reason != LOST),
        EventKind::Requeued => Some(event.reason == HANDED_BACK),
        _ => None,
    });
    ending.unwrap_or(false)
}

/// The reason of an attempt that nobody knows the end of.
pub const LOST: &str = "lost";

/// The reason of a run that ended because too many of its attempts were lost.
pub const LOST_TOO_OFTEN: &str = "lost_too_often";

/// The most events a run keeps. A run retried thousands of times keeps its first and last ones.
pub const EVENTS_MAX: usize = 400;

fn bound_events(run: &mut Run) {
    if run.events.len() > EVENTS_MAX {
        run.events.drain(EVENTS_MAX / 4..EVENTS_MAX / 2);
    }
    if run.results.len() > EVENTS_MAX / 4 {
        run.results.remove(1);
    }
}

/// Builds a run again from nothing but what it was made with and its events (R28). It takes all of
/// them: of a run that had more than [`EVENTS_MAX`] those in the middle are gone, and what is left
/// tells its story but does not add up.
#[must_use]
pub fn rebuild(made: &Run) -> Run {
    let mut run = Run {
        n: made.n,
        scheduled_ms: made.scheduled_ms,
        filed_ms: made.filed_ms,
        class: made.class,
        cause: made.cause,
        batch: made.batch,
        counted: made.counted,
        pinned: made.pinned.clone(),
        first_n: made.first_n,
        ..Run::default()
    };
    for happened in &made.events {
        record(&mut run, happened.clone());
    }
    run
}

/// The time of the last event of a kind.
#[must_use]
pub fn last_time(run: &Run, kinds: &[EventKind]) -> Option<Time> {
    run.events.iter().rev().find(|e| kinds.contains(&e.kind())).map(|e| Time(e.at_ms))
}

/// When an ended run ended.
#[must_use]
pub fn finished(run: &Run) -> Option<Time> {
    is_ended(run.status()).then(|| run.events.last().map(|e| Time(e.at_ms))).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUSES: [RunStatus; 10] = [
        RunStatus::Scheduled,
        RunStatus::Queued,
        RunStatus::Claimed,
        RunStatus::Running,
        RunStatus::Retrying,
        RunStatus::Succeeded,
        RunStatus::Failed,
        RunStatus::Canceled,
        RunStatus::Lost,
        RunStatus::Skipped,
    ];

    fn kinds() -> impl Iterator<Item = EventKind> {
        (1..=12).filter_map(|n| EventKind::try_from(n).ok())
    }

    #[test]
    fn an_end_is_known_to_have_been_reported_or_not() {
        let story = |kinds: &[(EventKind, &str)]| {
            let mut run = new(1, Time(0), Time(0), 0, Cause::Schedule);
            for (at, (kind, reason)) in kinds.iter().enumerate() {
                let token = if *kind == EventKind::Claimed { at as u64 } else { 0 };
                let event = event_because(Time(at as i64), *kind, reason, "");
                record(&mut run, Event { token, ..event });
            }
            run
        };
        use EventKind as E;
        let begun = [(E::Queued, ""), (E::Claimed, "")];
        for (kind, reason, expected) in [
            (E::Started, "", false),
            (E::Succeeded, "", true),
            (E::Failed, "exit_code", true),
            (E::Failed, LOST_TOO_OFTEN, false),
            (E::Retrying, "exit_code", true),
            (E::Canceled, "", true),
            (E::Canceled, LOST, false),
            (E::Lost, LOST, false),
            (E::Requeued, LOST, false),
            (E::Requeued, HANDED_BACK, true),
        ] {
            let run = story(&[begun[0], begun[1], (kind, reason)]);
            assert_eq!(was_reported(&run, 1), expected, "{kind:?} {reason}");
            assert!(!was_reported(&run, 2), "of another attempt nothing is known");
        }
        let second = [(E::Requeued, LOST), (E::Claimed, ""), (E::Succeeded, "")];
        let run = story(&[&begun[..], &second[..]].concat());
        assert!(!was_reported(&run, 1) && was_reported(&run, 3));
    }

    #[test]
    fn r27_nothing_but_a_worker_starts_a_run() {
        for status in STATUSES {
            for kind in kinds() {
                let next = next_status(status, kind);
                if next == Some(RunStatus::Running) && kind == EventKind::Started {
                    assert_eq!(status, RunStatus::Claimed);
                }
                if next == Some(RunStatus::Claimed) && kind == EventKind::Claimed {
                    assert_eq!(status, RunStatus::Queued);
                }
            }
        }
    }

    #[test]
    fn r27_success_is_final() {
        for kind in kinds() {
            assert_eq!(next_status(RunStatus::Succeeded, kind), None, "{kind:?}");
        }
    }

    #[test]
    #[should_panic(expected = "cannot happen")]
    fn r27_an_illegal_event_is_refused() {
        let mut run = new(1, Time(0), Time(0), 1, Cause::Schedule);
        record(&mut run, event(Time(1), EventKind::Started));
    }

    #[test]
    fn r28_a_run_is_rebuilt_from_its_events_alone() {
        let mut run = new(3, Time(10), Time(10), 168, Cause::Schedule);
        record(&mut run, event(Time(10), EventKind::Queued));
        let claim =
            |at, token| Event { worker: "w1".into(), token, ..event(Time(at), EventKind::Claimed) };
        record(&mut run, claim(11, 7));
        record(&mut run, event(Time(12), EventKind::Started));
        let failed =
            Event { exit_code: Some(3), next_ms: 2_000, ..event(Time(20), EventKind::Retrying) };
        record(&mut run, failed);
        record(&mut run, event(Time(2_000), EventKind::Queued));
        record(&mut run, claim(2_001, 8));
        record(&mut run, event_because(Time(2_002), EventKind::Requeued, "lost", "worker gone"));
        record(&mut run, claim(2_003, 9));
        record(&mut run, Event { exit_code: Some(0), ..event(Time(2_004), EventKind::Succeeded) });
        assert_eq!((run.attempt, run.failures, run.losses, run.token), (3, 1, 1, 9));
        assert_eq!(rebuild(&run), run);
    }
}
