//! How an attempt ended.

use std::fmt;
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use crate::control::StopReason;
use crate::executor::stopped;
use crate::output::Captured;

/// The end of an attempt and everything worth recording about it.
#[derive(Clone, Debug)]
pub struct Finished {
    /// How it ended.
    pub outcome: Outcome,
    /// The exit code of a command that exited; 127 and 126 also if it could not be started.
    pub exit_code: Option<i32>,
    /// The signal that ended a command.
    pub signal: Option<i32>,
    /// The response of an HTTP target, if one came.
    pub http: Option<HttpResponse>,
    /// When it began.
    pub started_at: SystemTime,
    /// When it ended.
    pub finished_at: SystemTime,
    /// How long it took, by a clock that cannot be set.
    pub elapsed: Duration,
    /// What a command used.
    pub usage: Option<Usage>,
    /// What is kept of its output.
    pub output: Captured,
    /// Whether the target may have acted: false if the process was never started or no
    /// connection was made.
    pub started: bool,
    /// Whether trying again could help. False for what only a change of the job can mend.
    pub retryable: bool,
}

impl Finished {
    /// Whether it succeeded.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        self.outcome == Outcome::Succeeded
    }

    /// The same of an attempt that its guard may have ended: if a signal ended it, that was the
    /// guard's, for want of a lease.
    #[must_use]
    pub fn perhaps_by_guard(self) -> Finished {
        match &self.outcome {
            Outcome::Failed(failure) if failure.code == ReasonCode::Signal => {
                Finished { outcome: stopped(StopReason::LeaseLost), ..self }
            }
            _ => self,
        }
    }
}

/// What the processes of a command used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Processor time, of user and system.
    pub cpu: Duration,
    /// The most memory they were seen to use together; zero if it was over too quickly to be seen.
    pub memory_peak_bytes: u64,
}

/// The ways an attempt can end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It did what it should, by the job's success rules.
    Succeeded,
    /// It ended by itself, and not well; or it could not be started.
    Failed(Failure),
    /// It took too long and was ended.
    TimedOut(Failure),
    /// It was stopped before it ended.
    Stopped(StopReason, Failure),
}

impl Outcome {
    /// Why, unless it succeeded.
    #[must_use]
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Outcome::Succeeded => None,
            Outcome::Failed(failure)
            | Outcome::TimedOut(failure)
            | Outcome::Stopped(_, failure) => Some(failure),
        }
    }
}

/// Why an attempt did not succeed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// For programs.
    pub code: ReasonCode,
    /// For people: a sentence. Never contains credentials.
    pub message: String,
}

impl Failure {
    pub(crate) fn new(code: ReasonCode, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

macro_rules! reason_codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Why an attempt did not succeed, as a stable name.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum ReasonCode { $($(#[$doc])* $name,)* }

        impl ReasonCode {
            /// All codes.
            pub const ALL: &'static [ReasonCode] = &[$(ReasonCode::$name,)*];

            /// The name, as it stands in stored and sent data.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(ReasonCode::$name => $text,)* }
            }
        }
    };
}

reason_codes! {
    /// The exit code is not one that counts as success.
    ExitCode = "exit_code",
    /// A signal ended the process.
    Signal = "signal",
    /// The program does not exist.
    CommandNotFound = "command_not_found",
    /// The program exists and cannot be executed.
    NotExecutable = "not_executable",
    /// The working directory does not exist or cannot be entered.
    BadWorkingDirectory = "bad_working_directory",
    /// There is no such user on this machine.
    UnknownUser = "unknown_user",
    /// Only root can run commands as another user.
    UserNotPermitted = "user_not_permitted",
    /// The process could not be started for another reason.
    SpawnFailed = "spawn_failed",
    /// The target makes no sense as it stands.
    InvalidTarget = "invalid_target",
    /// A success rule makes no sense as it stands.
    InvalidRule = "invalid_rule",
    /// Output or body did not contain what it must.
    OutputMismatch = "output_mismatch",
    /// Output or body contained what it must not.
    OutputForbidden = "output_forbidden",
    /// The JSON rule does not hold.
    JsonMismatch = "json_mismatch",
    /// The response's status is not one that counts as success.
    HttpStatus = "http_status",
    /// The host's name could not be resolved.
    DnsError = "dns_error",
    /// No connection could be made.
    ConnectError = "connect_error",
    /// Connecting took too long.
    ConnectTimeout = "connect_timeout",
    /// The TLS handshake failed, for example because of an untrusted certificate.
    TlsError = "tls_error",
    /// The connection broke or the answer was not HTTP.
    HttpProtocol = "http_protocol",
    /// Too many redirects, or one that cannot be followed.
    RedirectError = "redirect_error",
    /// The broker has taken the message and has nowhere to put it.
    Unroutable = "unroutable",
    /// The broker refused the message, or the login.
    BrokerRefused = "broker_refused",
    /// The connection to the broker broke, or no confirmation came.
    Unconfirmed = "unconfirmed",
    /// The processes of the command used more memory than they may.
    MemoryLimit = "memory_limit",
    /// The attempt took longer than its timeout.
    Timeout = "timeout",
    /// The attempt was stopped on request.
    Canceled = "canceled",
    /// The attempt was stopped because its worker shut down.
    Shutdown = "shutdown",
    /// The attempt was stopped because its worker lost the lease.
    LeaseLost = "lease_lost",
    /// Something went wrong in the worker itself.
    Internal = "internal",
}

/// The response to an HTTP attempt.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpResponse {
    /// The status.
    pub status: u16,
    /// The headers in order of arrival, bounded; cookies and echoed credentials are masked.
    pub headers: Vec<(String, String)>,
    /// Whether headers were left out to stay within the bound.
    pub headers_truncated: bool,
    /// The beginning of the body; echoed credentials are masked.
    pub body: Bytes,
    /// Whether there was more of it, which was then not read.
    pub body_truncated: bool,
}

impl fmt::Debug for HttpResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpResponse")
            .field("status", &self.status)
            .field("headers", &self.headers.len())
            .field("body_bytes", &self.body.len())
            .field("body_truncated", &self.body_truncated)
            .finish_non_exhaustive()
    }
}
