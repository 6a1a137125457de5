//! The guard's own process: it listens, and ends what nobody else can.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use bellwether_agent::boot_ms;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::unix::pipe;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::notes::{Deadline, Hold, Note, Ward};
use crate::tree::{self, Mark, Scanner, Wanted};

/// How long commands have to end by themselves when the server is gone.
const GRACE: Duration = Duration::from_secs(5);
/// How long after that it is looked once more: what was being started when the server died may not
/// have had its marks yet.
const ONCE_MORE_AFTER: Duration = Duration::from_millis(500);
/// The longest time between two looks at the clock while there are deadlines: that of timers stands
/// still while the machine sleeps.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// When to look next if there are no deadlines.
const IDLE: Duration = Duration::from_secs(24 * 3600);
/// How soon it is looked again for what was ended and not released: a server that stood still just before it
/// started a command starts it when it goes on.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Guards the commands that carry the mark `instance`, as told on standard input, until that ends
/// and nothing is left of what was held then.
///
/// # Errors
/// If there is no pipe to listen to.
pub fn watch(instance: &str) -> io::Result<()> {
    // Whoever ends the server's process group or terminal means the server, which ends this by its end.
    let _ = rustix::process::setsid();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()?;
    runtime.block_on(async {
        ignore_signals()?;
        let input: OwnedFd = rustix::io::dup(std::io::stdin())?;
        let mut lines = BufReader::new(pipe::Receiver::from_owned_fd(input)?).lines();
        let mut wards = Wards::default();
        let mut ending = JoinSet::new();
        let (mut look, mut look_again) = (Instant::now() + IDLE, Instant::now());
        loop {
            let overdue = tokio::select! {
                // What has been said comes before any look at the clock: this process may have stood still alone.
                biased;
                line = lines.next_line() => match line {
                    Ok(Some(line)) => {
                        let note = Note::parse(&line);
                        if let Some(Note::Hold(Hold { until: Some(until), .. })) = &note {
                            look = look.min(Instant::now() + look_after(*until, boot_ms()));
                        }
                        wards.note(note).into_iter().collect()
                    }
                    // What cannot be read is from nobody.
                    Ok(None) | Err(_) => break,
                },
                () = sleep_until(look) => {
                    let overdue = wards.overdue(boot_ms());
                    look = Instant::now() + wards.look_after(boot_ms()).unwrap_or(IDLE);
                    overdue
                }
                () = sleep_until(look_again), if ending.is_empty() && !wards.doomed.is_empty() => {
                    ending.spawn(end(instance.to_owned(), wards.doomed.clone(), Duration::ZERO));
                    look_again = Instant::now() + LOOK_AGAIN;
                    Vec::new()
                }
                Some(_) = ending.join_next() => Vec::new(),
            };
            for (ward, grace) in overdue {
                ending.spawn(end(instance.to_owned(), BTreeSet::from([ward]), grace));
                look_again = Instant::now() + LOOK_AGAIN;
            }
        }
        let left = wards.left();
        if !left.is_empty() {
            end(instance.to_owned(), left.clone(), GRACE).await;
            sleep(ONCE_MORE_AFTER).await;
            end(instance.to_owned(), left, Duration::ZERO).await;
        }
        while ending.join_next().await.is_some() {}
        Ok(())
    })
}

/// A service manager that stops everything at once sends signals to this process too. It is still
/// needed until the server has ended.
fn ignore_signals() -> io::Result<()> {
    for kind in [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()] {
        // Whoever listens is not ended by it; nobody needs to hear it.
        drop(signal(kind)?);
    }
    Ok(())
}

/// Ends attempts, with all that they have started.
async fn end(instance: String, wards: BTreeSet<Ward>, grace: Duration) {
    let wards: BTreeSet<(&str, String)> =
        wards.iter().map(|ward| (&*ward.run_id, ward.attempt.to_string())).collect();
    let theirs = |mark: &Mark| {
        mark.instance == instance && wards.contains(&(&*mark.run_id, mark.attempt.clone()))
    };
    let wanted = Wanted { root: None, mark: &theirs };
    tree::end(&Scanner::default(), &wanted, sleep(grace)).await;
}

/// How soon to look whether a deadline has come.
fn look_after(until: Deadline, now_ms: u64) -> Duration {
    Duration::from_millis(until.stop_at_ms.saturating_sub(now_ms)).min(LOOK_EVERY)
}

/// What is held, and until when.
#[derive(Default)]
struct Wards {
    held: BTreeMap<Ward, Option<Deadline>>,
    /// What is being ended. Nothing revives it: the server may have stood still for long.
    doomed: BTreeSet<Ward>,
}

impl Wards {
    /// Takes a note. What it is about, and the time that has to end, if that should have ended before the
    /// note was made: whoever made it stood still, and nothing revives that.
    fn note(&mut self, note: Option<Note>) -> Option<(Ward, Duration)> {
        match note {
            Some(Note::Hold(Hold { ward, said_ms, until })) if !self.doomed.contains(&ward) => {
                if let Some(Some(held)) = self.held.get(&ward)
                    && held.stop_at_ms <= said_ms
                {
                    let left = held.kill_in(said_ms);
                    self.held.remove(&ward);
                    self.doomed.insert(ward.clone());
                    return Some((ward, left));
                }
                self.held.insert(ward, until);
            }
            Some(Note::Release(ward)) => {
                self.held.remove(&ward);
                self.doomed.remove(&ward);
            }
            Some(Note::Hold(_)) | None => {}
        }
        None
    }

    /// When to look next, if there is anything to look for.
    fn look_after(&self, now_ms: u64) -> Option<Duration> {
        let next = self.held.values().flatten().min_by_key(|until| until.stop_at_ms)?;
        Some(look_after(*next, now_ms))
    }

    /// Takes out what must stop, each with the time it has for that.
    fn overdue(&mut self, now_ms: u64) -> Vec<(Ward, Duration)> {
        let mut overdue = Vec::new();
        self.held.retain(|ward, deadline| match deadline {
            Some(deadline) if deadline.stop_at_ms <= now_ms => {
                overdue.push((ward.clone(), deadline.kill_in(now_ms)));
                false
            }
            _ => true,
        });
        self.doomed.extend(overdue.iter().map(|(ward, _)| ward.clone()));
        overdue
    }

    /// All that is to be ended when the server is gone.
    fn left(self) -> BTreeSet<Ward> {
        self.held.into_keys().chain(self.doomed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ward(number: u32) -> Ward {
        Ward { run_id: "run_x-1".to_owned(), attempt: number, token: 7 }
    }

    fn hold(
        wards: &mut Wards,
        number: u32,
        said_ms: u64,
        stop_at_ms: Option<u64>,
    ) -> Option<(Ward, Duration)> {
        let until =
            stop_at_ms.map(|stop_at_ms| Deadline { stop_at_ms, kill_at_ms: stop_at_ms + 500 });
        wards.note(Some(Note::Hold(Hold { ward: ward(number), said_ms, until })))
    }

    #[test]
    fn r65_what_was_not_renewed_is_ended_in_time_and_is_not_revived() {
        let mut wards = Wards::default();
        hold(&mut wards, 1, 0, Some(30_000));
        hold(&mut wards, 2, 0, Some(30_000));
        hold(&mut wards, 2, 10_000, Some(40_000));
        hold(&mut wards, 3, 0, None);
        assert_eq!(wards.look_after(1_000), Some(LOOK_EVERY));
        assert_eq!(wards.overdue(29_999), []);
        assert_eq!(wards.overdue(30_000), [(ward(1), Duration::from_millis(500))]);
        // The server goes on, and says that all is well.
        assert_eq!(hold(&mut wards, 1, 30_000, Some(60_000)), None);
        assert_eq!(wards.doomed, BTreeSet::from([ward(1)]));
        assert_eq!(wards.left(), BTreeSet::from([ward(1), ward(2), ward(3)]));
    }

    #[test]
    fn r65_what_a_server_renews_late_is_ended_although_the_guard_looks_only_now() {
        let mut wards = Wards::default();
        hold(&mut wards, 1, 0, Some(30_000));
        let late = hold(&mut wards, 1, 30_100, Some(60_000));
        assert_eq!(late, Some((ward(1), Duration::from_millis(400))));
        assert_eq!(wards.doomed, BTreeSet::from([ward(1)]));
    }

    #[test]
    fn what_was_renewed_in_time_goes_on_although_the_guard_stood_still() {
        let mut wards = Wards::default();
        hold(&mut wards, 1, 0, Some(30_000));
        assert_eq!(hold(&mut wards, 1, 29_999, Some(60_000)), None);
        assert_eq!(wards.overdue(59_999), []);
    }

    #[test]
    fn r65_a_guard_that_comes_late_leaves_no_time() {
        let mut wards = Wards::default();
        hold(&mut wards, 1, 0, Some(30_000));
        assert_eq!(wards.look_after(100_000), Some(Duration::ZERO));
        assert_eq!(wards.overdue(100_000), [(ward(1), Duration::ZERO)]);
        assert_eq!(wards.look_after(100_000), None);
    }

    #[test]
    fn what_is_over_is_left_alone() {
        let mut wards = Wards::default();
        hold(&mut wards, 1, 0, None);
        wards.note(Some(Note::Release(ward(1))));
        wards.note(None);
        assert_eq!(wards.left(), BTreeSet::new());
    }
}
