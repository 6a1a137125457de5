//! Which value of each setting counts.

use std::fmt::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use bellwether_core::settings::Settings;
use bellwether_server::{
    BackupConfig, Config, PEER_PORT, PeerAddress, PeerFiles, Source, TlsFiles,
};
use clap::ArgMatches;
use clap::parser::ValueSource;

use super::file;
use super::unit::{Lasting, Size};
use super::values::{LogFormat, Values};
use crate::exit::usage;

/// Where a value comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Origin {
    Flag(String),
    Environment(String),
    File(PathBuf),
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Flag(flag) => write!(f, "flag {flag}"),
            Origin::Environment(name) => write!(f, "environment {name}"),
            Origin::File(path) => write!(f, "file {}", path.display()),
            Origin::Default => f.write_str("default"),
        }
    }
}

/// A setting as it will be shown.
#[derive(Clone, Debug)]
struct Line {
    name: &'static str,
    /// The value as TOML; `None` if it is not set and has no default of its own.
    value: Option<String>,
    origin: Origin,
}

/// What a server is started with.
#[derive(Clone, Debug)]
pub struct Effective {
    /// For the server.
    pub config: Config,
    /// What is logged.
    pub log_level: String,
    /// In which form.
    pub log_format: LogFormat,
    lines: Vec<Line>,
}

/// Takes the values of one setting from all layers.
struct Layers<'a> {
    given: Values,
    matches: &'a ArgMatches,
    file: Values,
    path: Option<PathBuf>,
    lines: Vec<Line>,
}

/// Chooses a setting's value and notes where it came from.
macro_rules! pick {
    ($layers:ident, $name:ident) => {{
        let given = $layers.given.$name.take();
        let file = $layers.file.$name.take();
        let origin = $layers.origin(stringify!($name), given.is_some(), file.is_some());
        (stringify!($name), given.or(file), origin)
    }};
}

impl Layers<'_> {
    fn origin(&self, name: &str, given: bool, file: bool) -> Origin {
        if given {
            return match self.matches.value_source(name) {
                Some(ValueSource::EnvVariable) => {
                    Origin::Environment(format!("BELLWETHER_{}", name.to_uppercase()))
                }
                _ => Origin::Flag(format!("--{}", name.replace('_', "-"))),
            };
        }
        match &self.path {
            Some(path) if file => Origin::File(path.clone()),
            _ => Origin::Default,
        }
    }

    /// A setting with a default.
    fn or<T: Toml>(&mut self, (name, value, origin): Picked<T>, default: T) -> T {
        let value = value.unwrap_or(default);
        self.lines.push(Line { name, value: Some(value.toml()), origin });
        value
    }

    /// A setting that may be absent.
    fn maybe<T: Toml>(&mut self, (name, value, origin): Picked<T>) -> Option<T> {
        let toml = value.as_ref().map(Toml::toml);
        self.lines.push(Line { name, value: toml, origin });
        value
    }
}

type Picked<T> = (&'static str, Option<T>, Origin);

/// Puts the layers together: what was given by flag or environment, then the file, then defaults.
///
/// # Errors
/// If the file is not valid, or settings do not go together.
pub fn effective(given: Values, matches: &ArgMatches, config: Option<&Path>) -> Result<Effective> {
    let (path, file) = file::load(config)?;
    let mut layers = Layers { given, matches, file, path, lines: Vec::new() };
    let defaults = Config::default();
    let mut config = Config {
        listen: {
            let p = pick!(layers, listen);
            layers.or(p, defaults.listen)
        },
        data_dir: {
            let p = pick!(layers, data_dir);
            layers.or(p, defaults.data_dir.clone())
        },
        shards: {
            let p = pick!(layers, shards);
            layers.maybe(p)
        },
        cache_bytes: {
            let p = pick!(layers, cache_size);
            layers.or(p, Size(defaults.cache_bytes)).0
        },
        shutdown_grace: {
            let p = pick!(layers, shutdown_grace);
            layers.or(p, lasting(defaults.shutdown_grace)).duration()
        },
        ..defaults.clone()
    };
    fill_cluster(&mut config, &mut layers)?;
    config.ingest = ingest(&mut layers)?;
    let tls_cert = {
        let p = pick!(layers, tls_cert);
        layers.maybe(p)
    };
    let tls_key = {
        let p = pick!(layers, tls_key);
        layers.maybe(p)
    };
    config.tls = match (tls_cert, tls_key) {
        (Some(cert), Some(key)) => Some(TlsFiles { cert, key }),
        (None, None) => None,
        _ => return Err(usage("--tls-cert and --tls-key go together: give both or none")),
    };
    config.insecure = {
        let p = pick!(layers, insecure);
        layers.or(p, false)
    };
    config.require_token = {
        let p = pick!(layers, require_token);
        layers.or(p, false)
    };
    if config.shards == Some(0) {
        return Err(usage("--shards must be at least 1"));
    }
    fill_worker(&mut config, &mut layers, &defaults)?;
    fill_backup(&mut config.backup, &mut layers, &defaults.backup)?;
    fill_rules(&mut config.rules, &mut layers, &defaults.rules);
    let log_level = {
        let p = pick!(layers, log_level);
        layers.or(p, "info".to_owned())
    };
    let log_format = {
        let p = pick!(layers, log_format);
        layers.or(p, LogFormat::Text)
    };
    Ok(Effective { config, log_level, log_format, lines: layers.lines })
}

fn lasting(duration: Duration) -> Lasting {
    Lasting(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// A node that is only restarted is back sooner.
const REPLACE_AFTER_MIN: Duration = Duration::from_secs(10);

/// Where a node that joins others is reached, unless it is told otherwise.
const PEER_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PEER_PORT);

fn fill_cluster(config: &mut Config, layers: &mut Layers<'_>) -> Result<()> {
    config.peer_listen = {
        let p = pick!(layers, peer_listen);
        layers.maybe(p)
    };
    config.peer_advertise = {
        let p = pick!(layers, peer_advertise);
        layers.maybe(p)
    };
    config.join = {
        let p = pick!(layers, join);
        layers.or(p, Vec::new())
    };
    if !config.join.is_empty() && config.peer_listen.is_none() {
        config.peer_listen = Some(PEER_LISTEN);
    }
    config.name = {
        let p = pick!(layers, name);
        layers.maybe(p)
    };
    config.zone = {
        let p = pick!(layers, zone);
        layers.or(p, String::new())
    };
    config.replicas = {
        let p = pick!(layers, replicas);
        layers.maybe(p)
    };
    if config.replicas.is_some_and(|replicas| !matches!(replicas, 3 | 5 | 7)) {
        return Err(usage(
            "--replicas must be 3, 5 or 7: an even number bears no more losses than the one below it",
        ));
    }
    config.replace_after = {
        let p = pick!(layers, replace_after);
        layers.or(p, lasting(Config::default().replace_after)).duration()
    };
    if config.replace_after < REPLACE_AFTER_MIN {
        return Err(usage(
            "--replace-after must be 10s or more: others would take the place of a node that is only restarted",
        ));
    }
    let (ca, cert, key) = (
        {
            let p = pick!(layers, peer_ca);
            layers.maybe(p)
        },
        {
            let p = pick!(layers, peer_cert);
            layers.maybe(p)
        },
        {
            let p = pick!(layers, peer_key);
            layers.maybe(p)
        },
    );
    config.peer_tls = match (ca, cert, key) {
        (Some(ca), Some(cert), Some(key)) => Some(PeerFiles { ca, cert, key }),
        (None, None, None) => None,
        _ => {
            return Err(usage(
                "--peer-ca, --peer-cert and --peer-key go together: give all or none",
            ));
        }
    };
    let secret_file = {
        let p = pick!(layers, cluster_secret_file);
        layers.maybe(p)
    };
    if let Some(path) = secret_file {
        let read = std::fs::read_to_string(&path).map_err(|error| {
            usage(format!("--cluster-secret-file {} cannot be read: {error}", path.display()))
        })?;
        config.cluster_secret = Some(read.trim().to_owned());
    }
    config.insecure_peers = {
        let p = pick!(layers, insecure_peers);
        layers.or(p, false)
    };
    Ok(())
}

/// Sources are shown without their passwords.
fn ingest(layers: &mut Layers<'_>) -> Result<Vec<Source>> {
    let (name, value, origin) = pick!(layers, ingest);
    let sources: Vec<Source> = value
        .unwrap_or_default()
        .iter()
        .enumerate()
        .map(|(at, text)| {
            text.0
                .parse()
                .map_err(|why: String| usage(format!("--ingest, number {}: {why}", at + 1)))
        })
        .collect::<Result<_>>()?;
    let shown: Vec<String> = sources.iter().map(Source::shown).collect();
    layers.lines.push(Line { name, value: Some(shown.toml()), origin });
    Ok(sources)
}

fn fill_worker(config: &mut Config, layers: &mut Layers<'_>, defaults: &Config) -> Result<()> {
    config.worker = !{
        let p = pick!(layers, no_worker);
        layers.or(p, false)
    };
    config.worker_name = {
        let p = pick!(layers, worker_name);
        layers.maybe(p)
    };
    config.worker_queues = {
        let p = pick!(layers, worker_queue);
        layers.or(p, Vec::new())
    };
    // The program as it is now, also when a newer one has been put in its place.
    config.guard = Some("/proc/self/exe".into());
    config.worker_slots = {
        let p = pick!(layers, worker_slots);
        layers.or(p, defaults.worker_slots)
    };
    config.worker_http_slots = {
        let p = pick!(layers, worker_http_slots);
        layers.or(p, defaults.worker_http_slots)
    };
    for (name, slots) in
        [("--worker-slots", config.worker_slots), ("--worker-http-slots", config.worker_http_slots)]
    {
        if slots == 0 {
            return Err(usage(format!(
                "{name} must be at least 1; to run no work in this process say --no-worker"
            )));
        }
    }
    config.worker_heartbeat = {
        let p = pick!(layers, worker_heartbeat);
        layers.or(p, lasting(defaults.worker_heartbeat)).duration()
    };
    config.worker_lease = {
        let p = pick!(layers, worker_lease);
        layers.or(p, lasting(defaults.worker_lease)).duration()
    };
    let limit = {
        let p = pick!(layers, output_limit);
        layers.or(p, Size(defaults.output_limit as u64))
    };
    config.output_limit =
        usize::try_from(limit.0).map_err(|_| usage("--output-limit is too large"))?;
    config.http_ca_file = {
        let p = pick!(layers, http_ca_file);
        layers.maybe(p)
    };
    Ok(())
}

/// The shortest time between two backups.
const BACKUP_EVERY_MIN: Duration = Duration::from_secs(60);

fn fill_backup(
    backup: &mut BackupConfig,
    layers: &mut Layers<'_>,
    defaults: &BackupConfig,
) -> Result<()> {
    backup.to = {
        let p = pick!(layers, backup_to);
        layers.maybe(p)
    };
    backup.every = {
        let p = pick!(layers, backup_every);
        layers.maybe(p).map(Lasting::duration)
    };
    backup.keep = {
        let p = pick!(layers, backup_keep);
        layers.or(p, defaults.keep)
    };
    if backup.every.is_some_and(|every| every < BACKUP_EVERY_MIN) {
        return Err(usage("--backup-every must be at least 1m"));
    }
    if backup.keep == 0 {
        return Err(usage("--backup-keep must be at least 1"));
    }
    if backup.every.is_some() && backup.to.is_none() {
        return Err(usage("--backup-every needs --backup-to: say where to"));
    }
    Ok(())
}

fn fill_rules(rules: &mut Settings, layers: &mut Layers<'_>, defaults: &Settings) {
    rules.retention_age_ms = {
        let p = pick!(layers, history_age);
        layers.or(p, Lasting(defaults.retention_age_ms)).0
    };
    rules.retention_runs = {
        let p = pick!(layers, history_runs);
        layers.or(p, defaults.retention_runs)
    };
    rules.misfire_after_ms = {
        let p = pick!(layers, misfire_after);
        layers.or(p, Lasting(defaults.misfire_after_ms)).0
    };
}

impl Effective {
    /// All settings as a configuration file, each with where it came from.
    pub fn print(&self) -> String {
        let shown = |line: &Line| match &line.value {
            Some(value) => format!("{} = {value}", line.name),
            // A file cannot say "not set".
            None => format!("# {} is not set", line.name),
        };
        let width = self.lines.iter().map(|line| shown(line).len()).max().unwrap_or(0).min(48);
        let mut text = String::new();
        for line in &self.lines {
            let _ = writeln!(text, "{:<width$}  # {}", shown(line), line.origin);
        }
        text
    }
}

/// A value as it is written in the file.
trait Toml {
    fn toml(&self) -> String;
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

macro_rules! toml_quoted {
    ($($kind:ty),*) => {
        $(impl Toml for $kind {
            fn toml(&self) -> String {
                quoted(&self.to_string())
            }
        })*
    };
}

macro_rules! toml_plain {
    ($($kind:ty),*) => {
        $(impl Toml for $kind {
            fn toml(&self) -> String {
                self.to_string()
            }
        })*
    };
}

toml_quoted!(std::net::SocketAddr, PeerAddress, String, Size, Lasting);
toml_plain!(u16, u32, usize, bool);

impl Toml for PathBuf {
    fn toml(&self) -> String {
        quoted(&self.display().to_string())
    }
}

impl<T: Toml> Toml for Vec<T> {
    fn toml(&self) -> String {
        let items: Vec<String> = self.iter().map(Toml::toml).collect();
        format!("[{}]", items.join(", "))
    }
}

impl Toml for LogFormat {
    fn toml(&self) -> String {
        quoted(match self {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        })
    }
}
