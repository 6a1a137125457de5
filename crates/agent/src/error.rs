//! Why a session ends for good.

/// Why a worker cannot work. What may pass is not among it: a session tries again by itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The options make no sense, or the server says that the worker's hello does not.
    #[error("{0}")]
    Invalid(String),
    /// The token does not allow it, or there is none.
    #[error("the server does not let this worker in: {0}")]
    NotAllowed(String),
    /// There is another worker of this name.
    #[error("{0}")]
    NameTaken(String),
    /// There is no secure connection to be had.
    #[error("no secure connection to {server}: {reason}")]
    Tls {
        /// The server.
        server: String,
        /// Why not.
        reason: String,
    },
    /// What answers is not a server that takes workers.
    #[error("{server} does not take workers: {reason}")]
    NotAServer {
        /// What was dialled.
        server: String,
        /// What it answered.
        reason: String,
    },
}
