//! Opening what a node has stored, and becoming the node that it is of.

use std::sync::Arc;

use anyhow::{Context, bail};
use bellwether_core::id::RunId;
use bellwether_core::key;
use bellwether_core::read;
use bellwether_core::record::{self, StoreRow};
use bellwether_core::run;
use bellwether_core::waist::{Family, View};
use bellwether_raft::engine::{RaftEngine, RaftOptions};
use bellwether_raft::log::LogOptions;
use bellwether_raft::net::Identity;
use bellwether_raft::types::Peer;
use bellwether_store::{DiskEngine, DiskOptions, Engine};
use bellwether_worker::{Orphan, kill_orphans};

use crate::cluster::NodeIdentity;
use crate::config::{Config, InvalidConfig};

/// Shards of a new store, unless it is told otherwise.
const SHARDS: u16 = 16;
/// Time that processes left over from a killed server get between TERM and KILL.
const ORPHAN_GRACE: std::time::Duration = std::time::Duration::from_secs(2);

/// A store that is open.
pub struct Opened {
    /// Everything that is stored.
    pub engine: Arc<RaftEngine>,
    /// Which node this is.
    pub identity: NodeIdentity,
}

/// Opens the store of a node. If the node is alone, it leads all shards when this returns.
///
/// # Errors
/// When the store cannot be opened, or is of another shape than it is said to be.
pub async fn open(config: &Config) -> anyhow::Result<Opened> {
    let opening = config.clone();
    let (tables, identity) = tokio::task::spawn_blocking(move || open_tables(&opening)).await??;
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
    let engine = RaftEngine::open(RaftOptions {
        tables,
        log_dir: config.data_dir.join("log"),
        log: LogOptions::default(),
        identity: Identity { cluster: identity.cluster.clone(), node: identity.node },
        shards: (0..identity.shards).collect(),
    })
    .await?;
    let engine = Arc::new(engine);
    engine.lead_alone(Peer::default()).await?;
    Ok(Opened { engine, identity })
}

/// The tables, and which node they are of.
fn open_tables(config: &Config) -> anyhow::Result<(Arc<DiskEngine>, NodeIdentity)> {
    let mut options = DiskOptions::new(&config.data_dir);
    options.cache_bytes = config.cache_bytes;
    options.sync = false;
    let tables = Arc::new(DiskEngine::open(options)?);
    let known = NodeIdentity::read(&config.data_dir).with_context(|| {
        format!("the file NODE in {} cannot be read", config.data_dir.display())
    })?;
    if let Some(identity) = known {
        return Ok((tables, identity));
    }
    let store = tables.view().get(Family::Meta, &key::store_row())?;
    let store = store.map(|bytes| record::decode::<StoreRow>("store", bytes)).transpose()?;
    let identity = match store {
        // A store from before nodes had a log becomes the first node of a cluster.
        Some(row) => NodeIdentity {
            cluster: row.id,
            node: 1,
            shards: u16::try_from(row.shards).context("the store has too many shards")?,
        },
        None => NodeIdentity {
            cluster: format!("{:016x}{:016x}", rand::random::<u64>(), rand::random::<u64>()),
            node: 1,
            shards: config.shards.unwrap_or(SHARDS),
        },
    };
    identity.write(&config.data_dir)?;
    Ok((tables, identity))
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
