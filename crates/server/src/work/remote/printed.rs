//! How much output of an attempt has come with the heartbeats of a worker that polls.
//!
//! Pieces are stored under their numbers, so one that is sent again replaces itself. What is kept
//! here sees to it that they come without gaps, which readers rely on, and that they have an end.

/// The most output that is taken of an attempt before it ends.
pub const OUTPUT_MAX: usize = 1024 * 1024;
/// The most pieces of an attempt.
pub const PIECES_MAX: u32 = 10_000;

/// What came of a piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admitted {
    /// It is to be stored.
    Yes,
    /// It was stored long ago.
    Known,
    /// There is enough of it.
    Full,
    /// One before it is missing.
    Gap,
}

/// What came so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Printed {
    /// The number of the next piece; `None` if this process has seen none since it was started,
    /// though there may be some.
    next: Option<u32>,
    bytes: usize,
    /// How much of that is the last piece.
    last: usize,
}

impl Printed {
    /// Of an attempt that is handed out just now.
    pub fn from_the_start() -> Printed {
        Printed { next: Some(0), ..Printed::default() }
    }

    /// Counts a piece, unless it is not to be stored.
    pub fn admit(&mut self, sequence: u32, bytes: usize) -> Admitted {
        let next = self.next.unwrap_or(sequence);
        if sequence > next {
            return Admitted::Gap;
        }
        if sequence < next.saturating_sub(1) {
            return Admitted::Known;
        }
        // The last one again, perhaps since it never got as far as the store.
        let before = if sequence < next { self.bytes - self.last } else { self.bytes };
        if sequence >= PIECES_MAX || before + bytes > OUTPUT_MAX {
            return Admitted::Full;
        }
        *self = Printed { next: Some(sequence + 1), bytes: before + bytes, last: bytes };
        Admitted::Yes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_in_order_and_again() {
        let mut printed = Printed::from_the_start();
        assert_eq!(printed.admit(1, 5), Admitted::Gap);
        for sequence in [0, 0, 1, 2, 2] {
            assert_eq!(printed.admit(sequence, 5), Admitted::Yes, "{sequence}");
        }
        assert_eq!(printed.admit(1, 5), Admitted::Known);
        assert_eq!(printed.admit(4, 5), Admitted::Gap);
        assert_eq!(printed.bytes, 15, "what comes again counts once");
    }

    #[test]
    fn there_is_an_end_to_output() {
        let mut printed = Printed::from_the_start();
        assert_eq!(printed.admit(0, OUTPUT_MAX), Admitted::Yes);
        assert_eq!(printed.admit(0, OUTPUT_MAX), Admitted::Yes, "again");
        assert_eq!(printed.admit(1, 1), Admitted::Full);
        assert_eq!(printed.admit(1, 0), Admitted::Yes);
        let mut many = Printed { next: Some(PIECES_MAX), ..Printed::default() };
        assert_eq!(many.admit(PIECES_MAX, 1), Admitted::Full);
    }

    #[test]
    fn after_a_restart_pieces_go_on_where_the_worker_is() {
        let mut printed = Printed::default();
        assert_eq!(printed.admit(7, 5), Admitted::Yes);
        assert_eq!(printed.admit(9, 5), Admitted::Gap);
        let mut far = Printed::default();
        assert_eq!(far.admit(u32::MAX, 5), Admitted::Full);
    }
}
