//! What can go wrong between a caller and a server.

use std::error::Error as _;

use bellwether_api::Problem;

/// Why a call did not give what was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The server refused, and says why. Nothing was changed, unless its code is `outcome_unknown`:
    /// then nobody knows.
    #[error("{0}")]
    Problem(Box<Problem>),
    /// There was no answer: no connection could be made, to none of the servers that the client knows.
    /// Nothing was changed.
    #[error(
        "{}; is it running? \
         Start one with `bellwether server`, or say where it is with --server or BELLWETHER_SERVER",
        unreached(tried)
    )]
    Unreachable {
        /// Where it was tried, in order: one server at least.
        tried: Vec<Unreached>,
    },
    /// The connection was there but took too long or broke. A request that changes something may
    /// have been carried out.
    #[error("the connection to {server} failed before the answer was complete: {reason}")]
    Interrupted {
        /// The server.
        server: String,
        /// What happened.
        reason: String,
    },
    /// Something answered that does not speak this API.
    #[error("the answer of {url} was not understood: {reason}; is it a Bellwether server?")]
    Answer {
        /// What was asked.
        url: String,
        /// What is wrong with the answer.
        reason: String,
    },
    /// The client cannot be set up or the request cannot be written down: a bad address, a
    /// certificate file that cannot be read, a name no URL can hold.
    #[error("{0}")]
    Setup(String),
}

/// A server that could not be reached, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreached {
    /// Where it was looked for.
    pub server: String,
    /// What the network said.
    pub reason: String,
}

fn unreached(tried: &[Unreached]) -> String {
    match tried {
        [Unreached { server, reason }] => format!("cannot reach the server at {server}: {reason}"),
        several => format!("cannot reach any of the servers: {}", reasons(several)),
    }
}

fn reasons(tried: &[Unreached]) -> String {
    let each = tried.iter().map(|Unreached { server, reason }| format!("{server}: {reason}"));
    each.collect::<Vec<_>>().join(", ")
}

impl ClientError {
    /// The problem, if the server refused.
    #[must_use]
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            ClientError::Problem(problem) => Some(problem),
            _ => None,
        }
    }

    /// The stable code of the problem, if the server refused: `job_not_found`, `key_exists`, ….
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        self.problem().map(|problem| problem.code.as_str())
    }

    /// The HTTP status, if the server refused.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.problem().map(|problem| problem.status)
    }

    /// Whether the server says that there is no such thing.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.status() == Some(404)
    }

    /// Sorts an error of the HTTP library.
    pub(crate) fn from_http(server: &str, error: &reqwest::Error) -> ClientError {
        let Failed { connecting, reason } = error.into();
        let server = server.to_owned();
        if connecting {
            ClientError::Unreachable { tried: vec![Unreached { server, reason }] }
        } else {
            ClientError::Interrupted { server, reason }
        }
    }
}

/// Why a server gave no answer.
#[derive(Clone, Debug)]
pub(crate) struct Failed {
    /// Whether no connection could be made, so that nothing was sent.
    pub(crate) connecting: bool,
    /// What happened.
    pub(crate) reason: String,
}

impl Failed {
    /// There was a connection, and no answer in time.
    pub(crate) fn silent() -> Failed {
        Failed { connecting: false, reason: TOO_LONG.to_owned() }
    }
}

impl From<&reqwest::Error> for Failed {
    fn from(error: &reqwest::Error) -> Failed {
        Failed { connecting: error.is_connect(), reason: root_cause(error) }
    }
}

const TOO_LONG: &str = "it took too long";

/// What lies at the bottom; the layers above only say that a request failed.
fn root_cause(error: &reqwest::Error) -> String {
    if error.is_timeout() && error.source().is_none_or(|source| source.source().is_none()) {
        return TOO_LONG.to_owned();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
