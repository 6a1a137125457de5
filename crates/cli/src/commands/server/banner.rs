//! What a server says to people when it has started.

use std::path::Path;
use std::time::Duration;

use bellwether_server::{Config, RunningServer};

use crate::exit::eprint_line;

/// Whether there is no store yet in a directory.
pub fn is_fresh(data_dir: &Path) -> bool {
    std::fs::read_dir(data_dir).map_or(true, |mut entries| entries.next().is_none())
}

/// Says where it listens, where data is, and what to try.
pub fn print(config: &Config, server: &RunningServer, fresh: bool, took: Duration) {
    let address = server.local_addr();
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    let store = if fresh { "new store" } else { "existing store" };
    let shown = std::fs::canonicalize(&config.data_dir).unwrap_or_else(|_| config.data_dir.clone());
    eprint_line(&format!(
        "Bellwether {} listens on {scheme}://{address}\n\
         data in {} ({store}, {} shards, ready after {} ms)",
        env!("CARGO_PKG_VERSION"),
        shown.display(),
        server.shards(),
        took.as_millis()
    ));
    if let Some(peer) = server.peer_address() {
        eprint_line(&in_cluster(config, server, &peer));
    }
    if !config.worker {
        eprint_line("this process runs no work (--no-worker)");
    }
    if let Some(token) = server.admin_token() {
        eprint_line(&format!(
            "\nadmin token, shown this once; keep it and use it as BELLWETHER_TOKEN:\n  {token}"
        ));
    }
    let joined = server.node_number() > 1;
    if fresh && !joined {
        eprint_line(&try_next(&address.to_string(), scheme));
    }
}

/// Which node of which cluster it is, and how another joins.
fn in_cluster(config: &Config, server: &RunningServer, peer: &str) -> String {
    let (name, mut others) = server.names();
    others.sort();
    let with = match others.as_slice() {
        [] => "alone so far".to_owned(),
        others => format!("with {}", others.join(", ")),
    };
    let (number, cluster) = (server.node_number(), server.cluster_id());
    let is = format!("node {number} ('{name}') of cluster {cluster}, {with}");
    let trust = match (&config.peer_tls, &config.cluster_secret) {
        (Some(_), _) => " --peer-ca … --peer-cert … --peer-key …",
        (None, Some(_)) => " --cluster-secret-file …",
        (None, None) => "",
    };
    let join = format!(
        "another node joins with\n  {} server --peer-listen ADDRESS:PORT --join {peer}{trust} \
         --data-dir DIRECTORY",
        program()
    );
    if others.is_empty() { format!("{is}\n{join}") } else { is }
}

/// As it was called, so that lines can be copied from a build directory too.
fn program() -> String {
    std::env::args().next().unwrap_or_else(|| "bellwether".to_owned())
}

/// Three commands to start with.
fn try_next(address: &str, scheme: &str) -> String {
    let server = match (scheme, address) {
        ("http", bellwether_client::DEFAULT_SERVER) => String::new(),
        ("http", address) => format!(" --server {address}"),
        (_, address) => format!(" --server {scheme}://{address}"),
    };
    let program = program();
    format!(
        "\ntry next, in another terminal:\n  \
         {program} job add{server} --key hello --cron '* * * * *' -- 'echo hello, it is $(date)'\n  \
         {program} job add{server} --every 5m --http {scheme}://{address}/healthz\n  \
         {program} job add{server} --delay 10s -- 'echo ten seconds later'\n\
         and see what happens with\n  \
         {program} events{server}\n\
         or in a browser at {scheme}://{address}/ (API: {scheme}://{address}/docs)"
    )
}
