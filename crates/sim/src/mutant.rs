//! Mistakes that are made on purpose, to see that they are found.

use std::fmt;
use std::str::FromStr;

/// A mistake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutant {
    /// Attempts are handed over before their claims are committed.
    ActBeforeCommit,
    /// Batches of a leader that has been replaced are applied all the same.
    ForgetFence,
    /// A new leader begins to read the due index at the present.
    WrongCursor,
    /// The log says that it is durable when it is not.
    LyingSync,
    /// Workers take attempts also from leaders that have been replaced.
    ForgetWorkersFence,
    /// A leader gives up workers before their own leases have ended.
    ShortLease,
    /// A leader tells workers that it has heard them without asking whether it still leads.
    HearAnyway,
    /// A leader answers before what it has decided is committed.
    AnswerBeforeCommit,
    /// A node that has lost its disk comes back as if it were the same.
    Amnesia,
    /// A copy of a shard whose taking in was interrupted is not taken in again.
    TornCopy,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Mutant; 10] = [
        Mutant::ActBeforeCommit,
        Mutant::ForgetFence,
        Mutant::WrongCursor,
        Mutant::LyingSync,
        Mutant::ForgetWorkersFence,
        Mutant::ShortLease,
        Mutant::HearAnyway,
        Mutant::AnswerBeforeCommit,
        Mutant::Amnesia,
        Mutant::TornCopy,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mutant::ActBeforeCommit => "act-before-commit",
            Mutant::ForgetFence => "forget-fence",
            Mutant::WrongCursor => "wrong-cursor",
            Mutant::LyingSync => "lying-sync",
            Mutant::ForgetWorkersFence => "forget-workers-fence",
            Mutant::ShortLease => "short-lease",
            Mutant::HearAnyway => "hear-anyway",
            Mutant::AnswerBeforeCommit => "answer-before-commit",
            Mutant::Amnesia => "amnesia",
            Mutant::TornCopy => "torn-copy",
        }
    }
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Mutant {
    type Err = String;

    fn from_str(text: &str) -> Result<Mutant, String> {
        let found = Mutant::ALL.into_iter().find(|mutant| mutant.name() == text);
        found.ok_or_else(|| {
            let names: Vec<&str> = Mutant::ALL.iter().map(|mutant| mutant.name()).collect();
            format!("there is no such mutant; there are {}", names.join(", "))
        })
    }
}
