//! What a server tells its guard: a line each.

use std::time::Duration;

/// Until when an attempt may go on, by [`super::boot_ms`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deadline {
    /// It is asked to end then.
    pub stop_at_ms: u64,
    /// It is ended by force then.
    pub kill_at_ms: u64,
}

impl Deadline {
    /// How long it has from an instant on until it is ended by force.
    pub(super) fn kill_in(self, now_ms: u64) -> Duration {
        Duration::from_millis(self.kill_at_ms.saturating_sub(now_ms))
    }
}

/// An attempt under guard.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Ward {
    /// Its run, as its command is told.
    pub(super) run_id: String,
    /// Its number.
    pub(super) attempt: u32,
    /// Its token: one that was handed back and is given here again has the same number.
    pub(super) token: u64,
}

impl Ward {
    fn words(&self) -> String {
        format!("{} {} {}", self.run_id, self.attempt, self.token)
    }

    fn parse(run_id: &str, attempt: &str, token: &str) -> Option<Ward> {
        let run_id = run_id.to_owned();
        Some(Ward { run_id, attempt: attempt.parse().ok()?, token: token.parse().ok()? })
    }
}

/// Something that a guard is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Note {
    /// An attempt is about to begin, or goes on.
    Hold(Hold),
    /// It is over.
    Release(Ward),
}

/// What is said of an attempt that may go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Hold {
    pub(super) ward: Ward,
    /// When it was said, by [`super::boot_ms`].
    pub(super) said_ms: u64,
    /// Until when it may go on, if not for good.
    pub(super) until: Option<Deadline>,
}

impl Note {
    pub(super) fn line(&self) -> String {
        match self {
            Note::Hold(Hold { ward, said_ms, until: None }) => {
                format!("hold {} {said_ms}\n", ward.words())
            }
            Note::Hold(Hold {
                ward,
                said_ms,
                until: Some(Deadline { stop_at_ms, kill_at_ms }),
            }) => {
                format!("hold {} {said_ms} {stop_at_ms} {kill_at_ms}\n", ward.words())
            }
            Note::Release(ward) => format!("release {}\n", ward.words()),
        }
    }

    /// The note of a line without its end. Nothing if it is none, as the last line of a server that
    /// was killed may be.
    pub(super) fn parse(line: &str) -> Option<Note> {
        let words: Vec<&str> = line.split(' ').collect();
        let (verb, ward, rest) = match words[..] {
            [verb, run_id, attempt, token, ref rest @ ..] => {
                (verb, Ward::parse(run_id, attempt, token)?, rest)
            }
            _ => return None,
        };
        match (verb, rest) {
            ("hold", [said]) => {
                Some(Note::Hold(Hold { ward, said_ms: said.parse().ok()?, until: None }))
            }
            ("hold", [said, stop_at, kill_at]) => {
                let (stop_at_ms, kill_at_ms) = (stop_at.parse().ok()?, kill_at.parse().ok()?);
                let until = Some(Deadline { stop_at_ms, kill_at_ms });
                Some(Note::Hold(Hold { ward, said_ms: said.parse().ok()?, until }))
            }
            ("release", []) => Some(Note::Release(ward)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_understood_and_what_is_torn_is_not() {
        let ward = Ward { run_id: "run_0ABC-7".to_owned(), attempt: 3, token: 1 << 36 };
        let deadline = Deadline { stop_at_ms: 31_000, kill_at_ms: 31_500 };
        let hold = |until| Note::Hold(Hold { ward: ward.clone(), said_ms: 1_000, until });
        let notes = [hold(None), hold(Some(deadline)), Note::Release(ward.clone())];
        for note in notes {
            assert_eq!(Note::parse(note.line().trim_end()), Some(note));
        }
        for torn in ["", "ho", "hold", "hold run_0ABC-7 3 7", "hold x 3 7 1 31000", "release x y z"]
        {
            assert_eq!(Note::parse(torn), None, "{torn}");
        }
    }
}
