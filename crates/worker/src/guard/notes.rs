//! What a server tells its guard: a line each.

/// Until when an attempt may go on, by [`super::boot_ms`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deadline {
    /// It is asked to end then.
    pub stop_at_ms: u64,
    /// It is ended by force then.
    pub kill_at_ms: u64,
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
    /// An attempt is about to begin, or goes on, until then if that is said.
    Hold(Ward, Option<Deadline>),
    /// It is over.
    Release(Ward),
}

impl Note {
    pub(super) fn line(&self) -> String {
        match self {
            Note::Hold(ward, None) => format!("hold {}\n", ward.words()),
            Note::Hold(ward, Some(Deadline { stop_at_ms, kill_at_ms })) => {
                format!("hold {} {stop_at_ms} {kill_at_ms}\n", ward.words())
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
            ("hold", []) => Some(Note::Hold(ward, None)),
            ("hold", [stop_at, kill_at]) => {
                let (stop_at_ms, kill_at_ms) = (stop_at.parse().ok()?, kill_at.parse().ok()?);
                Some(Note::Hold(ward, Some(Deadline { stop_at_ms, kill_at_ms })))
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
        let notes = [
            Note::Hold(ward.clone(), None),
            Note::Hold(ward.clone(), Some(deadline)),
            Note::Release(ward),
        ];
        for note in notes {
            assert_eq!(Note::parse(note.line().trim_end()), Some(note));
        }
        for torn in ["", "ho", "hold", "hold run_0ABC-7 3", "hold x 3 7 31000", "release x y z"] {
            assert_eq!(Note::parse(torn), None, "{torn}");
        }
    }
}
