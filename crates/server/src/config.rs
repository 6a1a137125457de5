//! What a server can be told. The binary fills this from flags, environment and file.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use bellwether_core::placement::Rules;
use bellwether_core::settings::Settings;
use bellwether_trust::PeerFiles;

use crate::ingest::Source;
use crate::peering::PeerAddress;

/// Settings that cannot be used: what is wrong, and what to do. Whoever started the server can tell
/// this from what fails on a machine, such as an address that is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidConfig(pub String);

impl std::fmt::Display for InvalidConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidConfig {}

/// The settings of one server process.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the HTTP API listens.
    pub listen: SocketAddr,
    /// Where other nodes of the cluster reach this one; `None` if they do not.
    pub peer_listen: Option<SocketAddr>,
    /// The address that other nodes are told, if it is not the one above.
    pub peer_advertise: Option<PeerAddress>,
    /// Nodes of a cluster that this one is to join, if it has not joined one.
    pub join: Vec<PeerAddress>,
    /// The node's name; the host's name if `None`.
    pub name: Option<String>,
    /// Where the node stands: replicas of a shard are kept in different zones.
    pub zone: String,
    /// How many replicas shards are to have; the highest that a node of the cluster wants counts.
    pub replicas: Option<u32>,
    /// How long a node may be down before others take its place.
    pub replace_after: Duration,
    /// Certificate, key and authority (PEM) for mutual TLS among nodes.
    pub peer_tls: Option<PeerFiles>,
    /// What all nodes of the cluster know and others do not.
    pub cluster_secret: Option<String>,
    /// Where everything is stored.
    pub data_dir: PathBuf,
    /// How many shards a new store gets. An existing store keeps its number; a different one here
    /// is an error. `None` takes what is there, or 16.
    pub shards: Option<u16>,
    /// Certificate chain and private key (PEM) for TLS.
    pub tls: Option<TlsFiles>,
    /// Let the API listen beyond loopback without TLS and tokens.
    pub insecure: bool,
    /// Let other nodes in beyond loopback without certificates and secret.
    pub insecure_peers: bool,
    /// Ask for a token even on loopback.
    pub require_token: bool,
    /// Whether this process also runs work.
    pub worker: bool,
    /// The built-in worker's name; the host's name if `None`.
    pub worker_name: Option<String>,
    /// Queues the built-in worker takes from; empty for all.
    pub worker_queues: Vec<String>,
    /// How many commands the built-in worker runs at once.
    pub worker_slots: usize,
    /// The program that is started as `PROGRAM guard INSTANCE` to end commands of the built-in worker
    /// when this process cannot, and must then call [`bellwether_worker::guard::watch()`].
    pub guard: Option<PathBuf>,
    /// How many requests it makes at once.
    pub worker_http_slots: usize,
    /// How often workers that dial in are to be heard.
    pub worker_heartbeat: Duration,
    /// How long such a worker may be silent before its work is given to another.
    pub worker_lease: Duration,
    /// Bytes of output kept per attempt, half from the start and half from the end.
    pub output_limit: usize,
    /// An additional file of certificate authorities (PEM) for `http` and `publish` targets.
    pub http_ca_file: Option<PathBuf>,
    /// Where jobs are read from, besides the API.
    pub ingest: Vec<Source>,
    /// Where backups go, and when.
    pub backup: BackupConfig,
    /// How long a stop waits for running work before it is interrupted.
    pub shutdown_grace: Duration,
    /// Memory for the store's block cache, in bytes.
    pub cache_bytes: u64,
    /// What the rules depend on.
    pub rules: Settings,
}

/// Where backups go, and when.
#[derive(Clone, Debug)]
pub struct BackupConfig {
    /// An absolute path or `s3://BUCKET/PREFIX`.
    pub to: Option<String>,
    /// How often one is taken by itself; never if `None`.
    pub every: Option<Duration>,
    /// How many of those in that place are kept.
    pub keep: usize,
}

impl Default for BackupConfig {
    fn default() -> BackupConfig {
        BackupConfig { to: None, every: None, keep: 24 }
    }
}

/// Where certificate and key are.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// Certificate chain, PEM.
    pub cert: PathBuf,
    /// Private key, PEM.
    pub key: PathBuf,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            listen: SocketAddr::from(([127, 0, 0, 1], 2355)),
            peer_listen: None,
            peer_advertise: None,
            join: Vec::new(),
            name: None,
            zone: String::new(),
            replicas: None,
            replace_after: Duration::from_millis(Rules::default().patience_ms),
            peer_tls: None,
            cluster_secret: None,
            data_dir: PathBuf::from("bellwether-data"),
            shards: None,
            tls: None,
            insecure: false,
            insecure_peers: false,
            require_token: false,
            worker: true,
            worker_name: None,
            worker_queues: Vec::new(),
            worker_slots: 64,
            guard: None,
            worker_http_slots: 256,
            worker_heartbeat: Duration::from_secs(10),
            worker_lease: Duration::from_secs(30),
            output_limit: 1024 * 1024,
            http_ca_file: None,
            ingest: Vec::new(),
            backup: BackupConfig::default(),
            shutdown_grace: Duration::from_secs(30),
            cache_bytes: 256 * 1024 * 1024,
            rules: Settings::default(),
        }
    }
}
