//! All settings, as flags, environment variables and keys of the file.

use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use bellwether_server::PeerAddress;
use clap::{Args, ValueEnum};
use serde::Deserialize;

use super::unit::{Lasting, Size};

/// The form of log lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For programs: one object per line.
    Json,
}

/// A text with a password in it, perhaps.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Private(pub String);

impl fmt::Debug for Private {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl FromStr for Private {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Private, Infallible> {
        Ok(Private(text.to_owned()))
    }
}

/// What can be set, and is if it is there.
#[derive(Args, Deserialize, Clone, PartialEq, Debug, Default)]
#[serde(deny_unknown_fields, default)]
pub struct Values {
    /// Where the HTTP API listens [default: 127.0.0.1:2355]
    #[arg(long, env = "BELLWETHER_LISTEN", value_name = "ADDRESS:PORT", help_heading = "Server")]
    pub listen: Option<SocketAddr>,
    /// Where everything is stored [default: bellwether-data]
    #[arg(long, env = "BELLWETHER_DATA_DIR", value_name = "DIR", help_heading = "Server")]
    pub data_dir: Option<PathBuf>,
    /// Shards of a new store; an existing one keeps its number [default: 16]
    #[arg(long, env = "BELLWETHER_SHARDS", value_name = "N", help_heading = "Server")]
    pub shards: Option<u16>,
    /// Memory for the store's cache [default: 256M]
    #[arg(long, env = "BELLWETHER_CACHE_SIZE", value_name = "SIZE", help_heading = "Server")]
    pub cache_size: Option<Size>,
    /// How long a stop waits for running work [default: 30s]
    #[arg(
        long,
        env = "BELLWETHER_SHUTDOWN_GRACE",
        value_name = "DURATION",
        help_heading = "Server"
    )]
    pub shutdown_grace: Option<Lasting>,

    /// Where other nodes reach this one [default: nowhere; with --join 127.0.0.1:2356]
    #[arg(
        long,
        env = "BELLWETHER_PEER_LISTEN",
        value_name = "ADDRESS:PORT",
        help_heading = "Cluster"
    )]
    pub peer_listen: Option<SocketAddr>,
    /// The address that other nodes dial, if it is not the one above
    #[arg(
        long,
        env = "BELLWETHER_PEER_ADVERTISE",
        value_name = "HOST[:PORT]",
        help_heading = "Cluster"
    )]
    pub peer_advertise: Option<PeerAddress>,
    /// A node of the cluster to join, at its --peer-listen, port 2356 if none is given; repeatable
    #[arg(
        long,
        env = "BELLWETHER_JOIN",
        value_name = "HOST[:PORT]",
        value_delimiter = ',',
        help_heading = "Cluster"
    )]
    pub join: Option<Vec<PeerAddress>>,
    /// The node's name [default: the host's]
    #[arg(long, env = "BELLWETHER_NODE_NAME", value_name = "NAME", help_heading = "Cluster")]
    pub name: Option<String>,
    /// Where the node stands; replicas are kept in different zones
    #[arg(long, env = "BELLWETHER_ZONE", value_name = "NAME", help_heading = "Cluster")]
    pub zone: Option<String>,
    /// How many nodes have a replica of each shard: 3, 5 or 7; the highest that any node of the
    /// cluster is given counts [default: 3]
    #[arg(long, env = "BELLWETHER_REPLICAS", value_name = "N", help_heading = "Cluster")]
    pub replicas: Option<u32>,
    /// How long a node may be down before others take its place, where there are more than
    /// replicas [default: 10m]
    #[arg(
        long,
        env = "BELLWETHER_REPLACE_AFTER",
        value_name = "DURATION",
        help_heading = "Cluster"
    )]
    pub replace_after: Option<Lasting>,
    /// The cluster's certificate authority (PEM), for TLS among nodes
    #[arg(long, env = "BELLWETHER_PEER_CA", value_name = "FILE", help_heading = "Cluster")]
    pub peer_ca: Option<PathBuf>,
    /// This node's certificate (PEM)
    #[arg(long, env = "BELLWETHER_PEER_CERT", value_name = "FILE", help_heading = "Cluster")]
    pub peer_cert: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(long, env = "BELLWETHER_PEER_KEY", value_name = "FILE", help_heading = "Cluster")]
    pub peer_key: Option<PathBuf>,
    /// A file with a secret that all nodes know, instead of certificates
    #[arg(
        long,
        env = "BELLWETHER_CLUSTER_SECRET_FILE",
        value_name = "FILE",
        help_heading = "Cluster"
    )]
    pub cluster_secret_file: Option<PathBuf>,
    /// Let other nodes in beyond loopback without certificates and secret: whoever reaches the port
    /// can join
    #[arg(long, env = "BELLWETHER_INSECURE_PEERS", value_name = "BOOL", value_parser = clap::builder::BoolishValueParser::new(), num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = "Cluster")]
    pub insecure_peers: Option<bool>,

    /// A broker to read jobs from, such as nats://HOST?stream=NAME or amqp://HOST/VHOST?queue=NAME;
    /// repeatable
    #[arg(
        long,
        env = "BELLWETHER_INGEST",
        value_name = "URL",
        value_delimiter = ',',
        hide_env_values = true,
        help_heading = "Server"
    )]
    pub ingest: Option<Vec<Private>>,

    /// Certificate chain (PEM) for TLS
    #[arg(long, env = "BELLWETHER_TLS_CERT", value_name = "FILE", help_heading = "Access")]
    pub tls_cert: Option<PathBuf>,
    /// Private key (PEM) for TLS
    #[arg(long, env = "BELLWETHER_TLS_KEY", value_name = "FILE", help_heading = "Access")]
    pub tls_key: Option<PathBuf>,
    /// Let the API listen beyond loopback without TLS and tokens
    #[arg(long, env = "BELLWETHER_INSECURE", value_name = "BOOL", value_parser = clap::builder::BoolishValueParser::new(), num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = "Access")]
    pub insecure: Option<bool>,
    /// Ask for a token also on loopback
    #[arg(long, env = "BELLWETHER_REQUIRE_TOKEN", value_name = "BOOL", value_parser = clap::builder::BoolishValueParser::new(), num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = "Access")]
    pub require_token: Option<bool>,

    /// Do not run work in this process
    #[arg(long, env = "BELLWETHER_NO_WORKER", value_name = "BOOL", value_parser = clap::builder::BoolishValueParser::new(), num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = "Built-in worker")]
    pub no_worker: Option<bool>,
    /// The worker's name [default: the host's]
    #[arg(
        long,
        env = "BELLWETHER_WORKER_NAME",
        value_name = "NAME",
        help_heading = "Built-in worker"
    )]
    pub worker_name: Option<String>,
    /// A queue it takes from; repeatable [default: all]
    #[arg(
        long,
        env = "BELLWETHER_WORKER_QUEUE",
        value_name = "NAME",
        value_delimiter = ',',
        help_heading = "Built-in worker"
    )]
    pub worker_queue: Option<Vec<String>>,
    /// Commands it runs at once [default: 64]
    #[arg(
        long,
        env = "BELLWETHER_WORKER_SLOTS",
        value_name = "N",
        help_heading = "Built-in worker"
    )]
    pub worker_slots: Option<usize>,
    /// Requests it makes and messages it publishes at once [default: 256]
    #[arg(
        long,
        env = "BELLWETHER_WORKER_HTTP_SLOTS",
        value_name = "N",
        help_heading = "Built-in worker"
    )]
    pub worker_http_slots: Option<usize>,
    /// Output kept per attempt, half from the start and half from the end [default: 1M]
    #[arg(
        long,
        env = "BELLWETHER_OUTPUT_LIMIT",
        value_name = "SIZE",
        help_heading = "Built-in worker"
    )]
    pub output_limit: Option<Size>,
    /// Certificate authorities (PEM) for requests and brokers, besides the system's
    #[arg(
        long,
        env = "BELLWETHER_HTTP_CA_FILE",
        value_name = "FILE",
        help_heading = "Built-in worker"
    )]
    pub http_ca_file: Option<PathBuf>,

    /// How often workers that dial in are to be heard [default: 10s]
    #[arg(
        long,
        env = "BELLWETHER_WORKER_HEARTBEAT",
        value_name = "DURATION",
        help_heading = "Workers that dial in"
    )]
    pub worker_heartbeat: Option<Lasting>,
    /// How long such a worker may be silent before its work is given to another [default: 30s]
    #[arg(
        long,
        env = "BELLWETHER_WORKER_LEASE",
        value_name = "DURATION",
        help_heading = "Workers that dial in"
    )]
    pub worker_lease: Option<Lasting>,

    /// Where backups go: an absolute path, or s3://BUCKET/PREFIX
    #[arg(long, env = "BELLWETHER_BACKUP_TO", value_name = "URL", help_heading = "Backups")]
    pub backup_to: Option<String>,
    /// How often one is taken by itself [default: never]
    #[arg(
        long,
        env = "BELLWETHER_BACKUP_EVERY",
        value_name = "DURATION",
        help_heading = "Backups"
    )]
    pub backup_every: Option<Lasting>,
    /// How many of them are kept [default: 24]
    #[arg(long, env = "BELLWETHER_BACKUP_KEEP", value_name = "N", help_heading = "Backups")]
    pub backup_keep: Option<usize>,

    /// How long history and output are kept, unless a job says otherwise [default: 7d]
    #[arg(long, env = "BELLWETHER_HISTORY_AGE", value_name = "DURATION", help_heading = "Rules")]
    pub history_age: Option<Lasting>,
    /// Runs of a recurring job that are kept, unless it says otherwise [default: 500]
    #[arg(long, env = "BELLWETHER_HISTORY_RUNS", value_name = "N", help_heading = "Rules")]
    pub history_runs: Option<u32>,
    /// A tick that fires later than this was missed [default: 5s]
    #[arg(long, env = "BELLWETHER_MISFIRE_AFTER", value_name = "DURATION", help_heading = "Rules")]
    pub misfire_after: Option<Lasting>,

    /// What is logged: error, warn, info, debug, trace, or a filter [default: info]
    #[arg(long, env = "BELLWETHER_LOG_LEVEL", value_name = "LEVEL", help_heading = "Logs")]
    pub log_level: Option<String>,
    /// The form of log lines [default: text]
    #[arg(long, env = "BELLWETHER_LOG_FORMAT", value_name = "FORMAT", help_heading = "Logs")]
    pub log_format: Option<LogFormat>,
}
