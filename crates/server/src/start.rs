//! Starting and stopping a server.

use std::net::SocketAddr;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use anyhow::{Context, bail};
use bellwether_api::Role;
use bellwether_core::id::RunId;
use bellwether_core::key;
use bellwether_core::read;
use bellwether_core::record::{self, StoreRow, TokenRow};
use bellwether_core::run;
use bellwether_core::turn::Memory;
use bellwether_core::waist::{Batch, Family, Op, Shard, StoreError};
use bellwether_store::{DiskEngine, DiskOptions, Engine};
use bellwether_worker::{Executor, ExecutorOptions, Orphan, kill_orphans};
use tokio::net::TcpListener;
use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::access::{self, Tokens};
use crate::backup::{self, Backups};
use crate::batches::Batches;
use crate::config::{Config, InvalidConfig};
use crate::metrics::Metrics;
use crate::node::{Node, queue_limits};
use crate::shard::{self, ShardHandle, ShardParts};
use crate::work::{Dispatch, LeaseSettings, LocalOptions, LocalWorker, Remotes, built_in_name};
use crate::{clock, http, ingest};

/// Shards of a new store, unless it is told otherwise.
const SHARDS: u16 = 16;
/// Notices kept for a listener that is slow.
const NOTICES: usize = 4_096;
/// Time that processes left over from a killed server get between TERM and KILL.
const ORPHAN_GRACE: std::time::Duration = std::time::Duration::from_secs(2);

/// A server that runs.
pub struct RunningServer {
    node: Arc<Node>,
    dispatch: Arc<Dispatch>,
    threads: Vec<JoinHandle<()>>,
    failed: mpsc::UnboundedReceiver<(Shard, StoreError)>,
    stop: CancellationToken,
    serving: tokio::task::JoinHandle<()>,
    ingesting: TaskTracker,
    address: SocketAddr,
    admin_token: Option<String>,
}

/// Starts a server and returns once it is ready.
///
/// # Errors
/// When the settings do not go together, the address or the data directory cannot be had, or the
/// store cannot be read. The message says what to do.
pub async fn start(config: Config) -> anyhow::Result<RunningServer> {
    check_exposure(&config)?;
    check_shards(&config)?;
    check_leases(&config)?;
    backup::check(&config)?;
    let tls = config.tls.as_ref().map(http::tls_config).transpose();
    let tls = tls.map_err(|error| InvalidConfig(format!("{error:#}")))?;
    let listener = TcpListener::bind(config.listen).await.with_context(|| {
        format!("cannot listen on {}; is another server running there?", config.listen)
    })?;
    let address = listener.local_addr()?;
    let opened = {
        let config = config.clone();
        tokio::task::spawn_blocking(move || open(&config)).await??
    };
    let Opened { engine, store, memories } = opened;
    end_orphans(&engine, &store).await?;
    let recovering = engine.clone();
    let (memories, still_held) =
        tokio::task::spawn_blocking(move || shard::recover_all(&*recovering, memories)).await??;

    let dispatch = Arc::new(Dispatch::default());
    dispatch.set_limits(queue_limits(&*engine.view())?);
    let metrics = Arc::new(Metrics::default());
    let batches = Arc::new(Batches::default());
    let (notices, _) = broadcast::channel(NOTICES);
    let (failed_sender, failed) = mpsc::unbounded_channel();
    let later = Arc::new(OnceLock::new());
    let mut shards: Vec<ShardHandle> = Vec::new();
    let mut threads = Vec::new();
    for memory in memories {
        let parts = ShardParts {
            engine: engine.clone(),
            dispatch: dispatch.clone(),
            remotes: later.clone(),
            batches: batches.clone(),
            metrics: metrics.clone(),
            notices: notices.clone(),
            failed: failed_sender.clone(),
        };
        let (handle, thread) = shard::spawn(memory, parts)?;
        shards.push(handle);
        threads.push(thread);
    }
    dispatch.set_shards(shards.clone());
    let leases = LeaseSettings { heartbeat: config.worker_heartbeat, lease: config.worker_lease };
    let remotes =
        Remotes::new(dispatch.clone(), shards.clone(), leases, store.id.clone(), still_held);
    let remotes = later.get_or_init(|| remotes).clone();
    let worker = start_worker(&config, &store, &dispatch, &shards)?;

    let tokens =
        Tokens::new(!config.listen.ip().is_loopback() && !config.insecure || config.require_token);
    tokens.reload(&*engine)?;
    let node = Arc::new(Node {
        config,
        address,
        store_id: store.id,
        engine,
        shards,
        worker,
        dispatch: dispatch.clone(),
        remotes,
        batches,
        backups: Arc::new(Backups::default()),
        metrics,
        notices,
        tokens,
        started: clock::now(),
        listeners: parking_lot::Mutex::new(0),
        next_shard: AtomicUsize::new(rand::random_range(0..usize::from(SHARDS))),
    });
    let rates = dispatch.clone();
    tokio::spawn(async move { rates.keep_rates().await });
    let admin_token = first_admin_token(&node).await?;
    let stop = CancellationToken::new();
    node.batches.go_on(&node)?;
    let serving = tokio::spawn(http::serve(node.clone(), listener, tls, stop.clone()));
    let ingesting = ingest::start(&node, &stop)?;
    backup::keep_schedule(&node);
    Ok(RunningServer {
        node,
        dispatch,
        threads,
        failed,
        stop,
        serving,
        ingesting,
        address,
        admin_token,
    })
}

/// Beyond loopback a server wants TLS and tokens, or to be told that it does not.
fn check_exposure(config: &Config) -> anyhow::Result<()> {
    if config.listen.ip().is_loopback() || config.insecure || config.tls.is_some() {
        return Ok(());
    }
    bail!(InvalidConfig(format!(
        "{} can be reached from other machines: give a certificate with --tls-cert and --tls-key \
         (requests then need a token), or say --insecure to go without both",
        config.listen
    )))
}

/// Before anything is made on disk.
fn check_shards(config: &Config) -> anyhow::Result<()> {
    let most = bellwether_core::id::SHARDS_MAX;
    if config.shards.is_some_and(|shards| shards == 0 || shards > most) {
        bail!(InvalidConfig(format!("--shards must be from 1 to {most}")));
    }
    Ok(())
}

/// A worker that is heard in time must not be given up.
fn check_leases(config: &Config) -> anyhow::Result<()> {
    let (heartbeat, lease) = (config.worker_heartbeat, config.worker_lease);
    if heartbeat.as_millis() < 100 || lease < heartbeat * 2 || lease.as_secs() > 86_400 {
        bail!(InvalidConfig(format!(
            "--worker-heartbeat must be at least 100ms and --worker-lease twice that or more, and \
             at most 1d; they are {heartbeat:?} and {lease:?}"
        )));
    }
    Ok(())
}

struct Opened {
    engine: Arc<dyn Engine>,
    store: StoreRow,
    memories: Vec<Memory>,
}

fn open(config: &Config) -> anyhow::Result<Opened> {
    let mut options = DiskOptions::new(&config.data_dir);
    options.cache_bytes = config.cache_bytes;
    let engine: Arc<dyn Engine> = Arc::new(DiskEngine::open(options)?);
    let mut first = shard::take_over(&*engine, 0, &config.rules)?;
    let store = store_row(&*engine, &first, config)?;
    let mut memories = Vec::with_capacity(store.shards as usize);
    for number in 1..store.shards {
        memories.push(shard::take_over(&*engine, number as Shard, &config.rules)?);
    }
    first.notices = false;
    memories.insert(0, first);
    Ok(Opened { engine, store, memories })
}

/// What the store says about itself; said now if it is new.
fn store_row(engine: &dyn Engine, first: &Memory, config: &Config) -> anyhow::Result<StoreRow> {
    if let Some(bytes) = engine.view().get(Family::Meta, &key::store_row())? {
        let row: StoreRow = record::decode("store", bytes)?;
        if let Some(wanted) = config.shards
            && u32::from(wanted) != row.shards
        {
            bail!(InvalidConfig(format!(
                "{} has {} shards, and that cannot be changed; start without --shards, or with \
                 --shards {}",
                config.data_dir.display(),
                row.shards,
                row.shards
            )));
        }
        return Ok(row);
    }
    let shards = config.shards.unwrap_or(SHARDS);
    let row = StoreRow {
        id: format!("{:016x}{:016x}", rand::random::<u64>(), rand::random::<u64>()),
        shards: u32::from(shards),
        created_ms: clock::now().0,
    };
    let put = Op::Put { family: Family::Meta, key: key::store_row(), value: record::encode(&row) };
    engine.commit(Batch { shard: 0, term: first.term, ops: vec![put] })?;
    Ok(row)
}

/// Ends processes that an earlier server of this store left behind when it was killed, so that a
/// run that is resolved or started again cannot overlap with its old self.
async fn end_orphans(engine: &Arc<dyn Engine>, store: &StoreRow) -> anyhow::Result<()> {
    let view = engine.view();
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
    let orphans = kill_orphans(&store.id, ORPHAN_GRACE, was_under_way).await;
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

fn start_worker(
    config: &Config,
    store: &StoreRow,
    dispatch: &Arc<Dispatch>,
    shards: &[ShardHandle],
) -> anyhow::Result<Option<Arc<LocalWorker>>> {
    if !config.worker {
        return Ok(None);
    }
    let executor = Executor::new(ExecutorOptions {
        extra_ca_file: config.http_ca_file.clone(),
        ..ExecutorOptions::default()
    })?;
    let name = config.worker_name.clone().unwrap_or_else(host_name);
    let options = LocalOptions {
        name: built_in_name(&name).into(),
        queues: config.worker_queues.iter().cloned().collect(),
        command_slots: config.worker_slots,
        http_slots: config.worker_http_slots,
        output_limit: config.output_limit,
        instance: store.id.clone(),
    };
    Ok(Some(LocalWorker::start(options, executor, dispatch.clone(), shards.to_vec())))
}

/// The name of this machine.
#[must_use]
pub fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map(|name| name.trim().to_owned())
        .ok()
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "local".to_owned())
}

/// A server that wants tokens and has none that may make others makes one, which is shown this
/// once. So whoever may start the server can get in again when all such tokens have expired.
async fn first_admin_token(node: &Arc<Node>) -> anyhow::Result<Option<String>> {
    let tokens = read::tokens(&*node.view(), 0)?;
    if !node.tokens.required || tokens.iter().any(|token| token.is_admin(clock::now())) {
        return Ok(None);
    }
    let secret = access::new_secret()?;
    let is_free = |name: &String| tokens.iter().all(|token| token.name != *name);
    let numbered = (2..).map(|n| format!("admin-{n}"));
    let token = TokenRow {
        name: std::iter::once("admin".to_owned()).chain(numbered).find(is_free).unwrap_or_default(),
        hash: access::hash(&secret),
        role: Role::Admin.name().to_owned(),
        namespace: String::new(),
        created_ms: clock::now().0,
        created_by: "first start".to_owned(),
        expires_ms: None,
    };
    let input = bellwether_core::turn::Input::PutToken { actor: "first start".to_owned(), token };
    node.shards[0].ask(input).await?;
    node.tokens.reload(&*node.engine)?;
    Ok(Some(secret))
}

impl RunningServer {
    /// Where it listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The secret of the admin token, if one was made at this start.
    #[must_use]
    pub fn admin_token(&self) -> Option<&str> {
        self.admin_token.as_deref()
    }

    /// How many shards it has.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.node.shards.len()
    }

    /// Waits until a shard fails. That is for good: the process should say so and end.
    pub async fn wait_for_failure(&mut self) -> anyhow::Error {
        match self.failed.recv().await {
            Some((shard, error)) => {
                anyhow::Error::new(error).context(format!("shard {shard} has stopped"))
            }
            None => std::future::pending().await,
        }
    }

    /// Stops in order: no more requests, no more launches, running work finished or handed back,
    /// everything stored.
    ///
    /// # Errors
    /// When something could not be stored.
    pub async fn shutdown(self) -> anyhow::Result<()> {
        self.dispatch.close();
        self.stop.cancel();
        // What was being claimed when the doors were closed is still handed over: wait for that.
        for shard in &self.node.shards {
            shard.barrier().await;
        }
        self.dispatch.flush().await;
        self.node.remotes.stop();
        if let Some(worker) = &self.node.worker {
            worker.drain(self.node.config.shutdown_grace).await;
        }
        let _ = self.serving.await;
        self.ingesting.wait().await;
        self.node.batches.stop().await;
        self.node.backups.stop().await;
        for shard in &self.node.shards {
            shard.stop();
        }
        let threads = self.threads;
        let engine = self.node.engine.clone();
        tokio::task::spawn_blocking(move || {
            for thread in threads {
                if thread.join().is_err() {
                    tracing::error!("a shard's thread has panicked");
                }
            }
            engine.close()
        })
        .await??;
        Ok(())
    }
}
