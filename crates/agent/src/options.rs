//! Who a worker is and where it dials.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use bellwether_protocol::v1::{Capacity, Held, Hello, capacity};

use crate::address::Address;

/// What a worker says about itself.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its name, unique among the workers of a server.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The queues it takes from; none for all.
    pub queues: Vec<String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// How much it runs at once.
    pub capacity: capacity::Mode,
    /// Whether it runs commands.
    pub commands: bool,
    /// Whether it makes HTTP requests.
    pub http: bool,
    /// The job types it has handlers for.
    pub job_types: Vec<String>,
}

impl Identity {
    pub(crate) fn hello(&self, instance: &str, held: Vec<Held>) -> Hello {
        Hello {
            name: self.name.clone(),
            instance: instance.to_owned(),
            version: self.version.clone(),
            queues: self.queues.clone(),
            labels: self.labels.clone().into_iter().collect(),
            capacity: Some(Capacity { mode: Some(self.capacity) }),
            commands: self.commands,
            http: self.http,
            job_types: self.job_types.clone(),
            held,
        }
    }
}

/// How a session is to be held.
#[derive(Clone)]
pub struct Options {
    /// Servers to dial, in turn.
    pub servers: Vec<Address>,
    /// The token to show.
    pub token: Option<String>,
    /// Certificate authorities (PEM) to trust besides the system's.
    pub ca_file: Option<PathBuf>,
    /// Who the worker is.
    pub identity: Identity,
    /// Whether work is stopped at the end of the lease even if connections are refused: for servers
    /// behind something that refuses connections in their place.
    pub strict_lease: bool,
    /// How long to insist if the server knows another worker of this name: it may be this one,
    /// before a crash that the server has not noticed.
    pub name_patience: Duration,
}

impl Options {
    /// Options with nothing unusual.
    #[must_use]
    pub fn new(servers: Vec<Address>, identity: Identity) -> Options {
        Options {
            servers,
            token: None,
            ca_file: None,
            identity,
            strict_lease: false,
            name_patience: Duration::from_secs(3),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("servers", &self.servers)
            .field("token", &self.token.as_ref().map(|_| "***"))
            .field("ca_file", &self.ca_file)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}
