//! What is to be executed: one attempt of one run, complete in itself.
//!
//! Nothing here is stored or sent as it stands; callers translate from their own formats. The
//! `Debug` texts of targets leave out everything that may be a secret: values of environment
//! variables and headers, credentials, bodies, and the query of a URL.

mod command;
mod http;
mod publish;

use std::time::Duration;

use crate::rules::SuccessRules;

pub use command::{CommandTarget, Program};
pub use http::{Auth, HttpTarget};
pub(crate) use http::{parse_header, parse_method, public_url};
pub(crate) use publish::broker_url;
pub use publish::public_address;
pub use publish::{Broker, Flaw, Login, PublishTarget};

/// One attempt of one run.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The run's id.
    pub run_id: String,
    /// The job's id.
    pub job_id: String,
    /// The caller's name for the job; may be empty.
    pub key: String,
    /// The job's namespace.
    pub namespace: String,
    /// The tick this run is for, in RFC 3339.
    pub scheduled_at: String,
    /// Which attempt of the run this is, from 1.
    pub attempt: u32,
    /// Grows with every attempt and every change of leader; lets a target refuse a stale one.
    pub fencing_token: u64,
    /// The same for all attempts of the run.
    pub idempotency_key: String,
    /// What to do.
    pub target: Target,
    /// How long it may take.
    pub timeout: Option<Duration>,
    /// How long a command has between TERM and KILL.
    pub grace: Duration,
    /// What counts as a success.
    pub success: SuccessRules,
    /// The id of the store this run belongs to; see [`crate::kill_orphans`].
    pub instance: String,
}

impl Attempt {
    /// What every attempt tells its target about itself, as pairs of an environment variable and
    /// a header.
    pub(crate) fn identity(&self) -> [(&'static str, &'static str, String); 8] {
        [
            ("BELLWETHER_RUN_ID", "bellwether-run-id", self.run_id.clone()),
            ("BELLWETHER_JOB_ID", "bellwether-job-id", self.job_id.clone()),
            ("BELLWETHER_KEY", "bellwether-key", self.key.clone()),
            ("BELLWETHER_NAMESPACE", "bellwether-namespace", self.namespace.clone()),
            ("BELLWETHER_SCHEDULED_AT", "bellwether-scheduled-at", self.scheduled_at.clone()),
            ("BELLWETHER_ATTEMPT", "bellwether-attempt", self.attempt.to_string()),
            (
                "BELLWETHER_FENCING_TOKEN",
                "bellwether-fencing-token",
                self.fencing_token.to_string(),
            ),
            ("BELLWETHER_IDEMPOTENCY_KEY", "idempotency-key", self.idempotency_key.clone()),
        ]
    }
}

/// What an attempt does.
#[derive(Clone, Debug)]
pub enum Target {
    /// Runs a process on this machine.
    Command(CommandTarget),
    /// Makes an HTTP request.
    Http(HttpTarget),
    /// Hands a message to a broker.
    Publish(PublishTarget),
}

impl Target {
    /// Checks what can be checked without executing, for use when a job is created.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn validate(&self) -> Result<(), String> {
        match self {
            Target::Command(command) => command.validate(),
            Target::Http(http) => http.validate().map(|_| ()),
            Target::Publish(publish) => publish.validate().map_err(|flaw| flaw.message),
        }
    }
}
