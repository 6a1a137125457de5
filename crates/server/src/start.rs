//! Starting and stopping a server.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use anyhow::{Context, bail};
use bellwether_core::record::NodeRow;
use bellwether_core::waist::{Shard, StoreError};
use bellwether_store::Engine;
use bellwether_worker::{Executor, ExecutorOptions};
use futures::future::join_all;
use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::access::Tokens;
use crate::backup::{self, Backups};
use crate::batches::Batches;
use crate::cluster::{Cluster, Hands, NodeIdentity, Passing};
use crate::config::{Config, InvalidConfig};
use crate::first_token::first_admin_token;
use crate::http::Port;
use crate::metrics::Metrics;
use crate::node::{Node, queue_limits, set_limits};
use crate::open::{Opened, end_orphans, open};
use crate::peering::Peering;
use crate::shard::{self, Office, ShardHandle, ShardParts};
use crate::spread::Spread;
use crate::work::{
    Dispatch, LeaseSettings, LocalOptions, LocalWorker, Remotes, built_in_name, is_built_in,
};
use crate::{clock, http, in_step, ingest, peering};

/// How long a node that starts waits for shards to be led.
const LED_WITHIN: Duration = Duration::from_secs(30);
/// How long a node that starts waits to hear which tokens there are.
const TOKENS_WITHIN: Duration = Duration::from_secs(2);
/// How long a node that stops waits for others to agree to what it has decided.
const COMMIT_WITHIN: Duration = Duration::from_secs(5);
/// How often it is looked whether the store has failed.
const FAILURE_EVERY: Duration = Duration::from_millis(250);
/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Notices kept for a listener that is slow.
const NOTICES: usize = 4_096;

/// A server that runs.
pub struct RunningServer {
    node: Arc<Node>,
    dispatch: Arc<Dispatch>,
    /// Cancelled when no shard is to be acted for any more.
    stop_acting: CancellationToken,
    failed: mpsc::UnboundedReceiver<(Shard, StoreError)>,
    stop: CancellationToken,
    serving: tokio::task::JoinHandle<()>,
    /// Serves other nodes, if there can be any.
    peers: Option<tokio::task::JoinHandle<()>>,
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
    peering::check(&config)?;
    check_shards(&config)?;
    check_leases(&config)?;
    backup::check(&config)?;
    let tls = config.tls.as_ref().map(http::tls_config).transpose();
    let tls = tls.map_err(|error| InvalidConfig(format!("{error:#}")))?;
    let listen = config.listen;
    let not_there = || format!("cannot listen on {listen}; is another server running there?");
    let mut port = Port::take(listen).with_context(not_there)?;
    let address = port.address()?;
    let stop = CancellationToken::new();
    let peering = Peering::bind(&config).await?;
    let row = peering.row(&config, address);
    let Opened { engine, identity, nodes, known } = open(&config, &row, &peering).await?;
    end_orphans(engine.view(), &identity.instance()).await?;

    let dispatch = Arc::new(Dispatch::default());
    let metrics = Arc::new(Metrics::default());
    let batches = Arc::new(Batches::default());
    let (notices, _) = broadcast::channel(NOTICES);
    let (shards, outboxes): (Vec<ShardHandle>, Vec<_>) =
        (0..identity.shards).map(ShardHandle::new).unzip();
    dispatch.set_shards(shards.clone());
    let started = clock::now();
    let own = nodes.iter().find(|node| node.node == identity.node);
    let name = own.map_or_else(|| row.name.clone(), |own| own.name.clone());
    let row = NodeRow { node: identity.node, name, ..row };
    let cluster = Cluster::new(
        identity.clone(),
        engine.clone(),
        shards.clone(),
        row,
        started,
        peering.dialing.clone(),
        config.replace_after,
    );
    set_limits(&cluster.desk, &dispatch, queue_limits(&*engine.view())?);
    cluster.book.set_rows(identity.node, nodes);
    cluster.read_nodes()?;
    let alone = engine.standing(0).is_some_and(|now| now.voters.iter().eq([&identity.node]));
    if known && alone && cluster.book.is_empty() {
        say_who_joins(&config, &cluster);
    }
    let leases = LeaseSettings { heartbeat: config.worker_heartbeat, lease: config.worker_lease };
    let cluster_id = identity.cluster.clone();
    let remotes = Remotes::new(dispatch.clone(), shards.clone(), leases, cluster_id);
    let worker = make_worker(&config, &cluster, &dispatch, &shards)?;
    let stop_acting = CancellationToken::new();
    let (failed_sender, failed) = mpsc::unbounded_channel();
    let later: Arc<OnceLock<Weak<Node>>> = Arc::default();
    let office = Office {
        engine: engine.clone(),
        settings: config.rules.clone(),
        store: identity.store_row(started),
        parts: Arc::new(ShardParts {
            engine: engine.clone(),
            dispatch: dispatch.clone(),
            remotes: remotes.clone(),
            desk: cluster.desk.clone(),
            holders: cluster.holders.clone(),
            batches: batches.clone(),
            metrics: metrics.clone(),
            notices: notices.clone(),
        }),
        gone: gone(&cluster, worker.as_ref()),
        held: taken_over(Arc::downgrade(&cluster), remotes.clone(), later.clone()),
        failed: failed_sender,
        stop: stop_acting.clone(),
    };
    for (shard, outbox) in shards.iter().zip(outboxes) {
        let afar = Arc::new(Passing(cluster.clone()));
        let delivering = shard::deliver(shard.clone(), outbox, afar, stop_acting.clone());
        cluster.acting.spawn(delivering);
    }
    let tokens =
        Tokens::new(!config.listen.ip().is_loopback() && !config.insecure || config.require_token);
    tokens.reload(|| engine.view())?;
    let node = Arc::new(Node {
        config,
        cluster: cluster.clone(),
        engine,
        shards,
        worker: worker.clone(),
        dispatch: dispatch.clone(),
        remotes,
        batches,
        backups: Arc::new(Backups::default()),
        metrics,
        notices,
        tokens,
        listeners: parking_lot::Mutex::new(0),
        hearing: parking_lot::Mutex::default(),
        spread: Spread::after(rand::random_range(0..64)),
        stop: stop.clone(),
    });
    let _ = later.set(Arc::downgrade(&node));
    node.batches.belong_to(&node);
    let around: Weak<Cluster> = Arc::downgrade(&cluster);
    node.remotes.set_surroundings(around);
    cluster.set_hands(Hands {
        dispatch: dispatch.clone(),
        remotes: node.remotes.clone(),
        worker: worker.clone(),
        lease: leases.lease,
    });
    let peers = peering.serve(&node, &stop_acting);
    if cluster.book.is_empty() {
        // Workers of a server that is alone go on while it refuses connections, since nobody can give
        // away what they have. From here on this server can.
        port = Port::Open(port.listen().with_context(not_there)?);
    }
    cluster.open(office);
    let mut server = RunningServer {
        node: node.clone(),
        dispatch: dispatch.clone(),
        stop_acting: stop_acting.clone(),
        failed,
        stop: stop.clone(),
        serving: tokio::spawn(async {}),
        peers,
        ingesting: TaskTracker::new(),
        address,
        admin_token: None,
    };
    // From here on shards act, so others have to hear what waits in them.
    cluster.acting.spawn(cluster.clone().keep_attending(stop_acting.clone()));
    cluster.acting.spawn(cluster.clone().keep_hinting(stop_acting.clone()));
    cluster.acting.spawn(cluster.clone().keep_stopping(stop_acting.clone()));
    // Whatever acts here is looked after, also while this node waits for shards that nobody leads.
    cluster.acting.spawn(cluster.clone().introduce(stop_acting.clone()));
    cluster.acting.spawn(cluster.clone().keep_managing(stop_acting.clone()));
    cluster.acting.spawn(cluster.clone().keep_watching(stop_acting.clone()));
    cluster.acting.spawn(cluster.clone().keep_bounds(stop_acting.clone()));
    cluster.acting.spawn(cluster.clone().keep_asking(stop_acting.clone()));
    cluster.acting.spawn(cluster.clone().keep_answering(stop_acting.clone()));
    server.until_led().await?;
    if let Some(worker) = &worker {
        end_far_orphans(&node).await;
        // They may be led as they were before, and nobody have been heard yet.
        cluster.tell_all().await;
        cluster.start_worker(worker, &stop_acting);
    }
    cluster.acting.spawn(cluster.clone().keep_leases(stop_acting.clone()));
    for shard in node.shard_numbers() {
        cluster.acting.spawn(cluster.clone().keep_claiming(shard, stop_acting.clone()));
    }
    // If that takes longer, whoever has one that is not known yet is told to come again.
    let _ = tokio::time::timeout(TOKENS_WITHIN, in_step::read_all_tokens(&node)).await;
    cluster.acting.spawn(in_step::keep_in_step(node.clone(), stop_acting.clone()));
    server.admin_token = first_admin_token(&node).await?;
    let router = http::router(node.clone());
    let listener = port.listen().with_context(not_there)?;
    server.serving = tokio::spawn(http::serve_all(router, listener, tls, stop.clone()));
    server.ingesting = ingest::start(&node, &stop)?;
    backup::keep_schedule(&node);
    Ok(server)
}

/// Ends processes left behind whose runs only other nodes know. If these cannot be asked, they are
/// left: a node that starts must not wait for others for ever.
async fn end_far_orphans(node: &Arc<Node>) {
    let view = node.view();
    if view.is_far()
        && let Err(error) = end_orphans(view, &node.cluster.identity.instance()).await
    {
        tracing::warn!("not all processes left behind could be looked for: {error:#}");
    }
}

/// What is done when a shard has been taken over: workers that hold runs of it get a fresh lease,
/// and its batches are seen to.
fn taken_over(
    cluster: Weak<Cluster>,
    remotes: Arc<Remotes>,
    node: Arc<OnceLock<Weak<Node>>>,
) -> Arc<shard::Held> {
    Arc::new(move |shard, held| {
        let Some(cluster) = cluster.upgrade() else { return };
        if cluster.book.is_empty() {
            remotes.take_up_held(held);
        } else {
            // They may be connected to any node.
            held.iter().for_each(|held| cluster.holders.note(&held.worker));
        }
        if let Some(node) = node.get().and_then(Weak::upgrade)
            && let Err(error) = node.batches.go_on(&node, shard)
        {
            tracing::error!(shard, %error, "the batches of a shard cannot be read");
        }
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

/// Somebody who has started servers apart from one another, and means to make them one cluster by giving
/// them a list, would otherwise have as many clusters as before and not be told.
fn say_who_joins(config: &Config, cluster: &Cluster) {
    let own = cluster.row().peer_address;
    let others: Vec<String> =
        config.join.iter().map(ToString::to_string).filter(|other| *other != own).collect();
    if !others.is_empty() {
        tracing::warn!(
            cluster = cluster.identity.cluster,
            "this node has data and is a cluster by itself, so it asks nobody of --join to let it in: {} can join \
             it, with empty data directories. If they have data, they are other clusters and stay that",
            others.join(", ")
        );
    }
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

/// Whose runs are known to be gone when a shard is taken over: those of this node's own worker that
/// it does not have. They were with it before this process was started, and have been ended.
/// With other nodes there, the two sides agree on that when the shard has been taken over.
fn gone(cluster: &Arc<Cluster>, worker: Option<&Arc<LocalWorker>>) -> Arc<shard::Gone> {
    let cluster = Arc::downgrade(cluster);
    let running = worker.map(|worker| worker.running());
    let own: Option<String> = worker.map(|worker| worker.name().to_owned());
    Arc::new(move |id, run| {
        if cluster.upgrade().is_none_or(|cluster| !cluster.book.is_empty()) {
            return None;
        }
        let mine = own.as_ref().is_none_or(|own| *own == run.worker);
        let has = running.as_ref().is_some_and(|running| running.has(id, run.token));
        (is_built_in(&run.worker) && mine && !has)
            .then(|| "the server was stopped while it ran".to_owned())
    })
}

fn make_worker(
    config: &Config,
    cluster: &Arc<Cluster>,
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
    let name = config.worker_name.clone().unwrap_or_else(|| cluster.row().name);
    let options = LocalOptions {
        name: built_in_name(&name).into(),
        queues: config.worker_queues.iter().cloned().collect(),
        command_slots: config.worker_slots,
        http_slots: config.worker_http_slots,
        output_limit: config.output_limit,
        instance: cluster.identity.instance(),
        guard: config.guard.clone(),
    };
    let (cluster, length) = (Arc::downgrade(cluster), config.worker_lease);
    let leases =
        Box::new(move |shard, asked_ms| cluster.upgrade()?.lease_on(shard, asked_ms, length));
    Ok(Some(LocalWorker::new(options, executor, dispatch.clone(), shards.to_vec(), leases)))
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

impl RunningServer {
    /// Where it listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Where other nodes reach it, if they do.
    #[must_use]
    pub fn peer_address(&self) -> Option<String> {
        Some(self.node.cluster.row().peer_address).filter(|address| !address.is_empty())
    }

    /// Which node of the cluster it is.
    #[must_use]
    pub fn node_number(&self) -> u64 {
        self.node.cluster.identity.node
    }

    /// The cluster's id.
    #[must_use]
    pub fn cluster_id(&self) -> &str {
        &self.node.cluster.identity.cluster
    }

    /// This node's name, and those of the others that it knows.
    #[must_use]
    pub fn names(&self) -> (String, Vec<String>) {
        let cluster = &self.node.cluster;
        let others = cluster.book.all().into_iter().map(|known| known.row.name);
        (cluster.row().name, others.collect())
    }

    /// How many shards act here.
    #[must_use]
    pub fn acting_shards(&self) -> usize {
        self.node.shards.iter().filter(|shard| shard.acts_here()).count()
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

    /// Waits until every shard is led: by this node if it is alone, by any if it is not.
    async fn until_led(&mut self) -> anyhow::Result<()> {
        let node = self.node.clone();
        let cluster = &node.cluster;
        let led = async {
            for shard in &node.shards {
                // Whoever leads may change while this waits: the one that is seen last counts.
                let is_led = || match cluster.leader(shard.shard) {
                    Some(leader) => leader != cluster.identity.node || shard.acts_here(),
                    None => false,
                };
                while !is_led() {
                    tokio::time::sleep(LOOK_EVERY).await;
                }
            }
        };
        tokio::select! {
            within = tokio::time::timeout(LED_WITHIN, led) => {
                if within.is_err() {
                    tracing::warn!("some shards have no leader yet; going on without");
                }
                Ok(())
            }
            error = self.wait_for_failure() => Err(error),
        }
    }

    /// Waits until a shard, or the store itself, fails. That is for good: the process should say so
    /// and end.
    pub async fn wait_for_failure(&mut self) -> anyhow::Error {
        let mut look = tokio::time::interval(FAILURE_EVERY);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                Some((shard, error)) = self.failed.recv() => {
                    return anyhow::Error::new(error).context(format!("shard {shard} has stopped"));
                }
                _ = look.tick() => if let Some(why) = self.node.engine.failure() {
                    return anyhow::Error::msg(why).context(
                        "the data directory cannot be used any more; is the disk full or broken? \
                         Mend that and start the server again",
                    );
                }
            }
        }
    }

    /// Waits until this node has been removed from its cluster, and notes that in its data
    /// directory. The process should then say so, stop and not be started again.
    ///
    /// # Errors
    /// When it cannot be noted.
    pub fn removal(&self) -> impl Future<Output = anyhow::Result<()>> + use<> {
        let node = self.node.clone();
        async move {
            node.cluster.removed.cancelled().await;
            let removed = NodeIdentity { removed: true, ..node.cluster.identity.clone() };
            removed.write(&node.config.data_dir).context("the file NODE cannot be written")
        }
    }

    /// Waits until what workers of this node have said is with those who lead.
    async fn until_told(&self) {
        let led = |shard: &&ShardHandle| self.node.cluster.leader(shard.shard).is_some();
        let telling = self.node.shards.iter().filter(led).map(async |shard| {
            if shard.acts_here() {
                shard.barrier().await;
            } else {
                // It comes after all else that was said.
                let _ = shard.report_durably(Vec::new()).await;
            }
        });
        join_all(telling).await;
    }

    /// Stops in order: no more requests, no more launches, running work finished or handed back,
    /// everything stored.
    ///
    /// # Errors
    /// When something could not be stored.
    pub async fn shutdown(self) -> anyhow::Result<()> {
        tracing::debug!("stops");
        self.dispatch.close();
        self.stop.cancel();
        // What was being claimed when the doors were closed is still handed over: wait for that.
        // A shard that is led without a majority never gets there.
        let barriers = join_all(self.node.shards.iter().map(ShardHandle::barrier));
        let _ = tokio::time::timeout(COMMIT_WITHIN, barriers).await;
        self.dispatch.flush().await;
        self.node.remotes.stop();
        tracing::debug!("nothing more is handed over to workers");
        if let Some(worker) = &self.node.worker {
            worker.drain(self.node.config.shutdown_grace).await;
            let _ = tokio::time::timeout(COMMIT_WITHIN, self.until_told()).await;
        }
        let _ = self.serving.await;
        self.ingesting.wait().await;
        self.node.batches.stop().await;
        self.node.backups.stop().await;
        // What others can lead they lead before this node is gone.
        tracing::debug!("gives away what it leads");
        self.node.cluster.retire().await;
        tracing::debug!("has given away what it led");
        self.stop_acting.cancel();
        for shard in &self.node.shards {
            shard.stop();
        }
        let acting = &self.node.cluster.acting;
        acting.close();
        if tokio::time::timeout(COMMIT_WITHIN, acting.wait()).await.is_err() {
            tracing::warn!("not everything could be stored: too few nodes are there");
        }
        // Whoever still waits for others to agree hears that it is over.
        let engine = self.node.engine.clone();
        tokio::task::spawn_blocking(move || engine.close()).await??;
        acting.wait().await;
        if let Some(peers) = self.peers {
            let _ = peers.await;
        }
        Ok(())
    }
}
