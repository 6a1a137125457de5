//! Figures for Prometheus, and what `bellwether bench` reads.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use bellwether_core::time::Time;
use bellwether_core::turn::{Assignment, Tally};
use bellwether_store::EngineStats;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::shard::ShardHandle;

/// From when a run was due to when it was handed over, in seconds.
const LAG_BUCKETS: [f64; 22] = [
    0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0,
    20.0, 60.0, 300.0, 900.0, 1_800.0, 3_600.0,
];
const COMMIT_BUCKETS: [f64; 13] =
    [0.000_5, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// The figures of a node.
pub struct Metrics {
    lag: Histogram,
    commits: Histogram,
    /// The longest lag and the number of launches, by second of the minute.
    by_second: [(AtomicU64, AtomicU64); 60],
    /// Messages with jobs: taken, refused, to come again.
    ingested: [AtomicU64; 3],
    /// When the newest complete backup was begun, in milliseconds since 1970; 0 if there is none.
    backed_up_ms: AtomicI64,
    /// Backups that could not be taken.
    backups_failed: AtomicU64,
    /// When the certificate for other nodes ends, in milliseconds since 1970; 0 if there is none.
    certificate_ends_ms: AtomicI64,
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics {
            lag: Histogram::new(LAG_BUCKETS),
            commits: Histogram::new(COMMIT_BUCKETS),
            by_second: std::array::from_fn(|_| Default::default()),
            ingested: Default::default(),
            backed_up_ms: AtomicI64::new(0),
            backups_failed: AtomicU64::new(0),
            certificate_ends_ms: AtomicI64::new(0),
        }
    }
}

impl Metrics {
    /// A shard has committed.
    pub fn commit(&self, took: Duration) {
        self.commits.observe(took.as_secs_f64());
    }

    /// Attempts have been handed over.
    pub fn launched<'a>(&self, assignments: impl Iterator<Item = &'a Assignment>, now: Time) {
        for assignment in assignments {
            let lag_ms = now.since_ms(assignment.due);
            self.lag.observe(lag_ms as f64 / 1_000.0);
            let second = assignment.due.0.div_euclid(1_000).rem_euclid(60);
            if let Some((most, count)) = self.by_second.get(second as usize) {
                most.fetch_max(lag_ms, Ordering::Relaxed);
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Messages with jobs have been judged: 0 for taken, 1 for refused, 2 for to come again.
    pub fn ingested(&self, verdicts: &[usize]) {
        for verdict in verdicts {
            if let Some(count) = self.ingested.get(*verdict) {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// There is a complete backup, begun at this time.
    pub fn backed_up(&self, begun: Time) {
        self.backed_up_ms.fetch_max(begun.0, Ordering::Relaxed);
    }

    /// A backup could not be taken.
    pub fn backup_failed(&self) {
        self.backups_failed.fetch_add(1, Ordering::Relaxed);
    }

    /// The certificate for other nodes ends at this time.
    pub fn certificate(&self, ends: Time) {
        self.certificate_ends_ms.store(ends.0, Ordering::Relaxed);
    }

    /// Everything in the text format of Prometheus.
    #[must_use]
    pub fn text(
        &self,
        shards: &[ShardHandle],
        engine: &EngineStats,
        cluster: &ClusterFigures,
        now: Time,
    ) -> String {
        let mut registry = Registry::with_prefix("bellwether");
        registry.register_with_unit(
            "launch_lag",
            "From when an attempt was due to when it was handed to a worker",
            Unit::Seconds,
            self.lag.clone(),
        );
        registry.register_with_unit(
            "commit_latency",
            "From handing a batch to the store to its being durable",
            Unit::Seconds,
            self.commits.clone(),
        );
        self.seconds(&mut registry);
        self.ingest(&mut registry);
        self.backups(&mut registry, now);
        tallies(&mut registry, shards);
        shard_gauges(&mut registry, shards);
        engine_gauges(&mut registry, engine);
        cluster_gauges(&mut registry, cluster);
        self.certificates(&mut registry, now);
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &registry);
        text
    }

    /// The age is absent as long as there is no backup: an alert can tell that from one of age 0.
    fn backups(&self, registry: &mut Registry, now: Time) {
        let failed = self.backups_failed.load(Ordering::Relaxed);
        let help = "Backups that could not be taken";
        registry.register("backups_failed", help, ConstCounter::new(failed));
        let newest = self.backed_up_ms.load(Ordering::Relaxed);
        if newest != 0 {
            registry.register_with_unit(
                "backup_age",
                "Time since the newest complete backup was begun",
                Unit::Seconds,
                ConstGauge::new(now.since_ms(Time(newest)) as i64 / 1_000),
            );
        }
    }

    /// Absent where nodes need no certificate.
    fn certificates(&self, registry: &mut Registry, now: Time) {
        let ends = self.certificate_ends_ms.load(Ordering::Relaxed);
        if ends != 0 {
            registry.register_with_unit(
                "peer_certificate_left",
                "Time until the certificate for other nodes ends",
                Unit::Seconds,
                ConstGauge::new(ends.saturating_sub(now.0) / 1_000),
            );
        }
    }

    fn ingest(&self, registry: &mut Registry) {
        let help = [
            ("ingest_messages_taken", "Messages from brokers whose jobs are stored"),
            ("ingest_messages_refused", "Messages from brokers that can never be accepted"),
            ("ingest_messages_returned", "Messages from brokers that could not be stored yet"),
        ];
        for ((name, help), count) in help.into_iter().zip(&self.ingested) {
            registry.register(name, help, ConstCounter::new(count.load(Ordering::Relaxed)));
        }
    }

    fn seconds(&self, registry: &mut Registry) {
        let group = registry.sub_registry_with_prefix("second_of_minute");
        for (second, (most, count)) in self.by_second.iter().enumerate() {
            let label = [("second".into(), second.to_string().into())];
            let by = group.sub_registry_with_labels(label.into_iter());
            by.register(
                "lag_max_milliseconds",
                "Longest lag of attempts due in this second of any minute",
                ConstGauge::new(most.load(Ordering::Relaxed) as i64),
            );
            by.register(
                "launches",
                "Attempts due in this second of any minute",
                ConstCounter::new(count.load(Ordering::Relaxed)),
            );
        }
    }
}

/// What a node knows of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterFigures {
    /// Nodes, with this one.
    pub nodes: usize,
    /// Those that are not heard.
    pub down: usize,
    /// Shards that nobody leads who can do something about it.
    pub leaderless: usize,
    /// Entries of the log that the farthest replica of this node has yet to apply.
    pub lag: u64,
    /// By how much the clock of another node is off from this one's at most.
    pub clock_off_ms: u64,
}

fn cluster_gauges(registry: &mut Registry, cluster: &ClusterFigures) {
    for (name, help, value) in [
        ("nodes", "Nodes of the cluster, as this node knows them", cluster.nodes as u64),
        ("nodes_down", "Those that this node does not hear", cluster.down as u64),
        (
            "shards_without_leader",
            "Shards that nobody leads, as this node knows",
            cluster.leaderless as u64,
        ),
        (
            "replica_lag_entries",
            "Log entries that the replica of this node that is farthest behind has yet to apply",
            cluster.lag,
        ),
    ] {
        registry.register(name, help, ConstGauge::new(value as i64));
    }
    registry.register_with_unit(
        "clock_difference",
        "By how much the clock of any other node differs from that of this one, at least",
        Unit::Seconds,
        ConstGauge::new(cluster.clock_off_ms as f64 / 1_000.0),
    );
}

fn tallies(registry: &mut Registry, shards: &[ShardHandle]) {
    let mut sum = Tally::default();
    for shard in shards {
        sum += shard.status.counted.lock().so_far();
    }
    for (name, help, value) in [
        ("launches", "Attempts promised to workers", sum.launches),
        ("runs_succeeded", "Runs that ended well", sum.succeeded),
        ("runs_failed", "Runs that ended badly", sum.failed),
        ("runs_canceled", "Runs that were canceled", sum.canceled),
        ("runs_lost", "Runs whose outcome is unknown", sum.lost),
        ("runs_skipped", "Runs and ticks that led to nothing", sum.skipped),
        ("attempts_retried", "Attempts that failed and are followed by another", sum.retried),
        (
            "attempts_repeated",
            "Attempts started although one before may have run: possible duplicates",
            sum.repeated,
        ),
        ("reports_stale", "Reports under a void token, which changed nothing", sum.stale_reports),
        ("jobs_created", "Jobs created", sum.created),
        ("ticks_misfired", "Ticks that came late or were merged", sum.misfired),
    ] {
        registry.register(name, help, ConstCounter::new(value));
    }
}

fn shard_gauges(registry: &mut Registry, shards: &[ShardHandle]) {
    let sum = |of: &dyn Fn(&ShardHandle) -> u64| shards.iter().map(of).sum::<u64>() as i64;
    let load = |value: &AtomicU64| value.load(Ordering::Relaxed);
    let here = sum(&|shard| u64::from(shard.acts_here()));
    registry.register("shards", "Shards that act on this node", ConstGauge::new(here));
    let open = sum(&|shard| load(&shard.status.open_runs));
    registry.register("open_runs", "Runs that have not ended", ConstGauge::new(open));
    let wheel = sum(&|shard| load(&shard.status.wheel_entries));
    registry.register("wheel_entries", "Upcoming entries in memory", ConstGauge::new(wheel));
    let requests = sum(&|shard| load(&shard.status.requests));
    registry.register("requests_waiting", "Requests in inboxes", ConstGauge::new(requests));
    let mut queues = std::collections::BTreeMap::<String, u64>::new();
    for shard in shards {
        for (queue, count) in shard.status.ready.lock().iter() {
            *queues.entry(queue.clone()).or_default() += count;
        }
    }
    for (queue, count) in queues {
        let label = [("queue".into(), queue.into())];
        registry.sub_registry_with_labels(label.into_iter()).register(
            "queue_depth",
            "Runs that wait for a worker",
            ConstGauge::new(count as i64),
        );
    }
}

fn engine_gauges(registry: &mut Registry, engine: &EngineStats) {
    for (name, help, value) in [
        ("store_disk_bytes", "Bytes on disk", engine.disk_bytes),
        ("store_log_bytes", "Of these, bytes of the log", engine.log_bytes),
        ("store_journals", "Journal files", engine.journal_count),
        ("store_cache_bytes", "Bytes in the block cache", engine.cache_bytes),
        ("store_memtable_bytes", "Bytes in memtables", engine.memtable_bytes),
        ("store_queue", "Batches that wait for the writer", engine.queue_len),
    ] {
        registry.register(name, help, ConstGauge::new(value as i64));
    }
    for (name, help, value) in [
        ("store_syncs", "Syncs of the journal", engine.syncs),
        ("store_batches", "Batches committed", engine.batches),
        ("store_ops", "Keys written", engine.ops),
    ] {
        registry.register(name, help, ConstCounter::new(value));
    }
}
