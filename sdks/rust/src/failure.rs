//! How a handler says that it did not go well.

use std::fmt;

/// Why a run did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Another attempt may help.
    Failed {
        /// A stable word.
        reason: String,
        /// A sentence.
        detail: String,
    },
    /// Another attempt would not help.
    ForGood {
        /// A stable word.
        reason: String,
        /// A sentence.
        detail: String,
    },
    /// Nothing was done: another worker may have it.
    HandBack,
}

impl Failure {
    /// It failed; the job's `retry` decides whether it is tried again.
    pub fn failed(detail: impl fmt::Display) -> Failure {
        Failure::Failed { reason: "handler_failed".to_owned(), detail: detail.to_string() }
    }

    /// It failed, and trying again would not help.
    pub fn for_good(detail: impl fmt::Display) -> Failure {
        Failure::ForGood { reason: "handler_failed".to_owned(), detail: detail.to_string() }
    }

    /// The same with a word of its own for why.
    #[must_use]
    pub fn because(self, word: impl Into<String>) -> Failure {
        match self {
            Failure::Failed { detail, .. } => Failure::Failed { reason: word.into(), detail },
            Failure::ForGood { detail, .. } => Failure::ForGood { reason: word.into(), detail },
            Failure::HandBack => Failure::HandBack,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Failed { detail, .. } | Failure::ForGood { detail, .. } => f.write_str(detail),
            Failure::HandBack => f.write_str("handed back"),
        }
    }
}

/// Any error fails a run: `?` works in handlers.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::failed(error)
    }
}
