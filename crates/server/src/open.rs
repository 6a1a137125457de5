//! Opening what a node has stored, and becoming the node that it is of.

use std::sync::Arc;

use anyhow::{Context, bail};
use bellwether_core::id::RunId;
use bellwether_core::key;
use bellwether_core::read;
use bellwether_core::record::{self, NodeRow, StoreRow};
use bellwether_core::run;
use bellwether_core::waist::{Family, View};
use bellwether_raft::engine::{RaftEngine, RaftOptions};
use bellwether_raft::log::LogOptions;
use bellwether_raft::net::Identity;
use bellwether_raft::types::Peer;
use bellwether_store::{DiskEngine, DiskOptions, Engine};
use bellwether_worker::{Orphan, kill_orphans};

use crate::cluster::{Joined, NodeIdentity, join, join_id, welcome};
use crate::config::{Config, InvalidConfig};
use crate::peering::Peering;

/// Shards of a new store, unless it is told otherwise.
const SHARDS: u16 = 16;
/// Bytes a second that nodes which have much to catch up with are sent at least, for each core of this
/// one: it has other things to do, and so have they.
const PACE: u64 = 2 * 1024 * 1024;
/// Time that processes left over from a killed server get between TERM and KILL.
const ORPHAN_GRACE: std::time::Duration = std::time::Duration::from_secs(2);

/// A store that is open.
pub struct Opened {
    /// Everything that is stored.
    pub engine: Arc<RaftEngine>,
    /// Which node this is.
    pub identity: NodeIdentity,
    /// The nodes of the cluster as this one heard when it joined, until it has them stored.
    pub nodes: Vec<NodeRow>,
    /// Whether it has been a node before.
    pub known: bool,
}

/// Opens the store of a node. If the node is alone, it leads all shards when this returns.
///
/// # Errors
/// When the store cannot be opened, or is of another shape than it is said to be, or the cluster
/// that is to be joined does not answer.
pub async fn open(config: &Config, row: &NodeRow, peering: &Peering) -> anyhow::Result<Opened> {
    let opening = config.clone();
    let (tables, known) = tokio::task::spawn_blocking(move || open_tables(&opening)).await??;
    let is_known = known.is_some();
    let (mut identity, nodes) = match known {
        Some(identity) => (identity, welcome::read(&config.data_dir)?),
        None => {
            let (identity, nodes) = match become_one(config, row, peering).await? {
                Joined::First => {
                    welcome::forget(&config.data_dir)?;
                    (found(config), Vec::new())
                }
                Joined::Member(identity, nodes) => {
                    welcome::keep(&config.data_dir, &nodes)?;
                    (identity, nodes)
                }
            };
            identity.write(&config.data_dir)?;
            (identity, nodes)
        }
    };
    join_id::forget(&config.data_dir)?;
    check_shards(config, &identity)?;
    check_wanted(config, &identity)?;
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let engine = RaftEngine::open(RaftOptions {
        tables,
        log_dir: config.data_dir.join("log"),
        log: LogOptions { pace: cores * PACE, ..LogOptions::default() },
        identity: Identity { cluster: identity.cluster.clone(), node: identity.node },
        dialing: peering.dialing.clone(),
        shards: if identity.founded { Vec::new() } else { (0..identity.shards).collect() },
    })
    .await?;
    let engine = Arc::new(engine);
    let peer = Peer { address: row.peer_address.clone(), zone: row.zone.clone() };
    if identity.founded {
        engine.lead_alone(&peer).await?;
    } else {
        engine.found(&peer).await?;
        identity.founded = true;
        identity.write(&config.data_dir)?;
    }
    let stored = read::nodes(&*engine.view(), 0)?;
    let nodes = if stored.iter().any(|row| row.node == identity.node) {
        welcome::forget(&config.data_dir)?;
        Vec::new()
    } else {
        nodes
    };
    Ok(Opened { engine, identity, nodes, known: is_known })
}

/// A process without data becomes a node: the first, if nobody is to be joined.
async fn become_one(config: &Config, row: &NodeRow, peering: &Peering) -> anyhow::Result<Joined> {
    let Some(own) = peering.waiting(config) else { return Ok(Joined::First) };
    let join_id = join_id::keep(&config.data_dir)?;
    let row = NodeRow { join_id, ..row.clone() };
    peering.answer_during(&own, join(&own, &peering.dialing, &row, config.shards)).await
}

fn check_shards(config: &Config, identity: &NodeIdentity) -> anyhow::Result<()> {
    if let Some(wanted) = config.shards
        && wanted != identity.shards
    {
        bail!(InvalidConfig(format!(
            "{} has {} shards, and that cannot be changed; start without --shards, or with \
             --shards {}",
            config.data_dir.display(),
            identity.shards,
            identity.shards
        )));
    }
    Ok(())
}

fn check_wanted(config: &Config, identity: &NodeIdentity) -> anyhow::Result<()> {
    if identity.removed {
        bail!(InvalidConfig(format!(
            "{} belongs to node {}, which was removed from the cluster {}; to join again, start \
             with an empty data directory",
            config.data_dir.display(),
            identity.node,
            identity.cluster
        )));
    }
    Ok(())
}

/// The first node of a new cluster.
fn found(config: &Config) -> NodeIdentity {
    NodeIdentity {
        cluster: format!("{:016x}{:016x}", rand::random::<u64>(), rand::random::<u64>()),
        node: 1,
        shards: config.shards.unwrap_or(SHARDS),
        founded: false,
        removed: false,
    }
}

/// The tables, and which node they are of, if they are of one.
fn open_tables(config: &Config) -> anyhow::Result<(Arc<DiskEngine>, Option<NodeIdentity>)> {
    let mut options = DiskOptions::new(&config.data_dir);
    options.cache_bytes = config.cache_bytes;
    options.sync = false;
    let tables = Arc::new(DiskEngine::open(options)?);
    let known = NodeIdentity::read(&config.data_dir).with_context(|| {
        format!("the file NODE in {} cannot be read", config.data_dir.display())
    })?;
    if known.is_some() {
        return Ok((tables, known));
    }
    let store = tables.view().get(Family::Meta, &key::store_row())?;
    let Some(store) = store else { return Ok((tables, None)) };
    let row = record::decode::<StoreRow>("store", store)?;
    // A store from before nodes had a log becomes the first node of a cluster.
    let identity = NodeIdentity {
        cluster: row.id,
        node: 1,
        shards: u16::try_from(row.shards).context("the store has too many shards")?,
        founded: false,
        removed: false,
    };
    identity.write(&config.data_dir)?;
    Ok((tables, Some(identity)))
}

/// Ends processes that an earlier server of this store left behind when it was killed, so that a
/// run that is resolved or started again cannot overlap with its old self.
///
/// # Errors
/// When the store cannot be read.
pub async fn end_orphans(view: Arc<dyn View>, instance: &str) -> anyhow::Result<()> {
    let failed = parking_lot::Mutex::new(None);
    let was_under_way = |run: &str| {
        let Ok(id) = run.parse::<RunId>() else { return false };
        read::run(&*view, id).map_or_else(
            |error| {
                failed.lock().get_or_insert(error);
                false
            },
            |found| found.is_some_and(|found| run::is_with_worker(found.run.status())),
        )
    };
    let orphans = kill_orphans(instance, ORPHAN_GRACE, was_under_way).await;
    if let Some(error) = failed.into_inner() {
        return Err(error.into());
    }
    for Orphan { pid, run_id, gone, .. } in orphans {
        if gone {
            tracing::warn!(pid, run = run_id, "ended a process left behind");
        } else {
            tracing::error!(pid, run = run_id, "cannot end a process left behind");
        }
    }
    Ok(())
}
