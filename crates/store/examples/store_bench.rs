//! What the store alone can do with the layout of one-off jobs.
//!
//! `cargo run --release -p bellwether-store --example store_bench -- --jobs 5000000 --fire 1000000`
//!
//! It creates jobs (a due entry with the whole record, an index entry), then launches them in the
//! order of their times (delete due, put active) and completes them (delete active, put history),
//! with commits of about `--commit` jobs gathered from all shards, each synced. Then it opens the
//! store again. Figures of the disk itself come first.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bellwether_core::waist::{Batch, Family, Op, Shard, Term};
use bellwether_store::{DiskEngine, DiskOptions, Engine, probe};
use bytes::Bytes;
use crossbeam_channel::Receiver;
use hdrhistogram::Histogram;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

const YEAR_MS: u64 = 365 * 24 * 3600 * 1000;

type Error = Box<dyn std::error::Error>;

struct Settings {
    jobs: u64,
    fire: u64,
    commit: u64,
    shards: u16,
    inflight: usize,
    dir: PathBuf,
    options: DiskOptions,
}

impl Settings {
    fn from_args() -> Result<Self, Error> {
        let mut settings = Self {
            jobs: 1_000_000,
            fire: 200_000,
            commit: 1_000,
            shards: 16,
            inflight: 2,
            dir: PathBuf::new(),
            options: DiskOptions::new(""),
        };
        let mut args = std::env::args().skip(1);
        while let Some(name) = args.next() {
            let value = args.next().ok_or(format!("{name} wants a value"))?;
            match name.as_str() {
                "--jobs" => settings.jobs = value.parse()?,
                "--fire" => settings.fire = value.parse()?,
                "--commit" => settings.commit = value.parse()?,
                "--shards" => settings.shards = value.parse()?,
                "--inflight" => settings.inflight = value.parse()?,
                "--threads" => settings.options.threads = value.parse()?,
                "--memtable-mib" => {
                    settings.options.memtable_bytes_max = value.parse::<u64>()? << 20;
                }
                "--cache-mib" => settings.options.cache_bytes = value.parse::<u64>()? << 20,
                "--journal-mib" => settings.options.journal_bytes = value.parse::<u64>()? << 20,
                "--lag-mib" => settings.options.journal_lag_bytes = value.parse::<u64>()? << 20,
                "--dir" => settings.dir = value.into(),
                _ => return Err(format!("unknown argument {name}").into()),
            }
        }
        Ok(settings)
    }

    fn per_shard(&self) -> u64 {
        (self.commit / u64::from(self.shards)).max(1)
    }
}

fn main() -> Result<(), Error> {
    let mut settings = Settings::from_args()?;
    let scratch = tempfile::tempdir()?;
    if settings.dir.as_os_str().is_empty() {
        settings.dir = scratch.path().join("data");
    }
    settings.options.dir = settings.dir.clone();
    let limits = probe::disk_probe(scratch.path(), Duration::from_secs(2))?;
    println!(
        "disk: {:.0} appends of 4 KiB + fdatasync /s (p99 {:.1} ms), {:.0} MB/s in sequence",
        limits.syncs_per_second,
        limits.sync_p99.as_secs_f64() * 1e3,
        limits.stream_bytes_per_second / 1e6
    );
    let engine = DiskEngine::open(settings.options.clone())?;
    println!("open, empty: {:?}, {} MB resident", engine.stats().open_duration, resident_mb());
    let mut bench = Bench::new(engine, &settings)?;
    bench.create(settings.jobs, &settings)?;
    bench.report("after creating");
    bench.fire(settings.fire, &settings)?;
    bench.report("after firing");
    reopen(bench, &settings)?;
    drop(scratch);
    Ok(())
}

/// A shard and where it is.
struct Actor {
    shard: Shard,
    term: Term,
    next_id: u64,
    cursor: Bytes,
}

struct Bench {
    engine: Arc<DiskEngine>,
    actors: Vec<Actor>,
    rng: SmallRng,
    stored: u64,
}

impl Bench {
    fn new(engine: DiskEngine, settings: &Settings) -> Result<Self, Error> {
        let mut actors = Vec::new();
        for shard in 0..settings.shards {
            let term = engine.acquire(shard)?;
            let cursor = key(shard, &[]);
            actors.push(Actor { shard, term, next_id: 0, cursor });
        }
        let rng = SmallRng::seed_from_u64(7);
        Ok(Self { engine: Arc::new(engine), actors, rng, stored: 0 })
    }

    fn create(&mut self, jobs: u64, settings: &Settings) -> Result<(), Error> {
        let started = Instant::now();
        let (mut created, mut rounds) = (0, Rounds::new());
        while created < jobs {
            for actor in &mut self.actors {
                let mut ops = Vec::with_capacity(settings.per_shard() as usize * 2);
                for _ in 0..settings.per_shard() {
                    let time = self.rng.random_range(0..YEAR_MS);
                    let id = actor.next_id << 16 | u64::from(actor.shard);
                    actor.next_id += 1;
                    let value = record(&mut self.rng, id);
                    ops.push(put(Family::Due, key(actor.shard, &[time, id]), value));
                    let time = Bytes::copy_from_slice(&time.to_be_bytes());
                    ops.push(put(Family::Index, key(actor.shard, &[id]), time));
                }
                rounds.submit(&self.engine, actor, ops);
                created += settings.per_shard();
            }
            rounds.close_round();
            rounds.wait_until(settings.inflight - 1)?;
        }
        rounds.wait_until(0)?;
        self.stored += created;
        rounds.print("create", created, started.elapsed());
        Ok(())
    }

    /// Launches and completes, the two in separate commits, as they are when a run takes time.
    fn fire(&mut self, jobs: u64, settings: &Settings) -> Result<(), Error> {
        let started = Instant::now();
        let (mut fired, mut rounds) = (0, Rounds::new());
        let mut running: VecDeque<Vec<Vec<Bytes>>> = VecDeque::new();
        while fired < jobs || !running.is_empty() {
            if fired < jobs {
                let mut launched = Vec::new();
                for index in 0..self.actors.len() {
                    let keys = self.launch(index, settings, &mut rounds)?;
                    fired += keys.len() as u64;
                    launched.push(keys);
                }
                if launched.iter().all(Vec::is_empty) {
                    return Err("no jobs are left to fire".into());
                }
                running.push_back(launched);
                rounds.close_round();
            }
            rounds.wait_until(settings.inflight - 1)?;
            if running.len() >= settings.inflight || fired >= jobs {
                let ended = running.pop_front().unwrap_or_default();
                for (index, keys) in ended.into_iter().enumerate() {
                    self.complete(index, &keys, &mut rounds)?;
                }
                rounds.close_round();
                rounds.wait_until(settings.inflight - 1)?;
            }
        }
        rounds.wait_until(0)?;
        rounds.print("launch+complete", fired, started.elapsed());
        Ok(())
    }

    /// Scans the due index from the cursor on; returns the active keys.
    fn launch(
        &mut self,
        index: usize,
        settings: &Settings,
        rounds: &mut Rounds,
    ) -> Result<Vec<Bytes>, Error> {
        let actor = &mut self.actors[index];
        let view = self.engine.view();
        let (mut ops, mut active_keys) = (Vec::new(), Vec::new());
        let end = key(actor.shard + 1, &[]);
        let rows = view.scan(Family::Due, &actor.cursor, &end);
        for row in rows.take(settings.per_shard() as usize) {
            let (due, value) = row?;
            let due = Bytes::copy_from_slice(&due);
            let active = Bytes::from([&due[..2], &due[10..], &due[2..10]].concat());
            ops.push(Op::Delete { family: Family::Due, key: due.clone() });
            ops.push(put(Family::Active, active.clone(), Bytes::copy_from_slice(&value)));
            active_keys.push(active);
            actor.cursor = Bytes::from([&due[..], &[0]].concat());
        }
        rounds.submit(&self.engine, actor, ops);
        Ok(active_keys)
    }

    fn complete(&mut self, index: usize, keys: &[Bytes], rounds: &mut Rounds) -> Result<(), Error> {
        let view = self.engine.view();
        let mut ops = Vec::with_capacity(keys.len() * 2);
        for active in keys {
            let value = view.get(Family::Active, active)?.ok_or("a launched run is missing")?;
            let history = Bytes::from([&active[..2], &[1], &active[10..], &active[2..10]].concat());
            ops.push(Op::Delete { family: Family::Active, key: active.clone() });
            ops.push(put(Family::History, history, Bytes::copy_from_slice(&value)));
        }
        rounds.submit(&self.engine, &self.actors[index], ops);
        Ok(())
    }

    fn report(&self, when: &str) {
        let stats = self.engine.stats();
        println!(
            "{when}: {:.0} B of disk per job ({} MB; journals {} of {} MB), {} MB resident (memtables {} MB, cache {} MB), \
             {} commits of {:.0} ops, mean {:.1} ms, max {:.0} ms; {} compactions, {} early rotations",
            stats.disk_bytes as f64 / self.stored as f64,
            stats.disk_bytes >> 20,
            stats.journal_count,
            stats.journal_bytes >> 20,
            resident_mb(),
            stats.memtable_bytes >> 20,
            stats.cache_bytes >> 20,
            stats.syncs,
            stats.ops as f64 / stats.syncs as f64,
            stats.commit_duration_sum.as_secs_f64() * 1e3 / stats.syncs as f64,
            stats.commit_duration_max.as_secs_f64() * 1e3,
            stats.compactions,
            stats.memtables_rotated,
        );
    }
}

fn reopen(bench: Bench, settings: &Settings) -> Result<(), Error> {
    let Bench { engine, .. } = bench;
    engine.close()?;
    drop(engine);
    let engine = DiskEngine::open(settings.options.clone())?;
    println!("open again: {:?}", engine.stats().open_duration);
    let (cpu_ms, peak_mb) = process_usage();
    println!(
        "process: {cpu_ms} ms of CPU, {peak_mb} MB resident at most; data in {}",
        display(&settings.dir)
    );
    Ok(())
}

/// Commits under way, in rounds of one batch per shard.
struct Rounds {
    open: Vec<Receiver<bool>>,
    waiting: VecDeque<(Instant, Vec<Receiver<bool>>)>,
    micros: Histogram<u64>,
    cpu_ms_before: u64,
}

impl Rounds {
    fn new() -> Self {
        let micros = Histogram::new(3).expect("three digits are allowed");
        let cpu_ms_before = process_usage().0;
        Self { open: Vec::new(), waiting: VecDeque::new(), micros, cpu_ms_before }
    }

    fn submit(&mut self, engine: &DiskEngine, actor: &Actor, ops: Vec<Op>) {
        let (sender, outcome) = crossbeam_channel::bounded(1);
        let batch = Batch { shard: actor.shard, term: actor.term, ops };
        let done = move |result: Result<_, _>| {
            let _ = sender.send(result.is_ok());
        };
        engine.submit(batch, Box::new(done));
        self.open.push(outcome);
    }

    fn close_round(&mut self) {
        self.waiting.push_back((Instant::now(), std::mem::take(&mut self.open)));
    }

    /// Waits until at most `left` rounds are under way.
    fn wait_until(&mut self, left: usize) -> Result<(), Error> {
        while self.waiting.len() > left {
            let Some((began, outcomes)) = self.waiting.pop_front() else { break };
            for outcome in outcomes {
                if !outcome.recv()? {
                    return Err("a batch was refused".into());
                }
            }
            self.micros.record(began.elapsed().as_micros() as u64)?;
        }
        Ok(())
    }

    fn print(&self, what: &str, count: u64, elapsed: Duration) {
        let ms = |q: f64| self.micros.value_at_quantile(q) as f64 / 1e3;
        let cpu_ms = process_usage().0 - self.cpu_ms_before;
        println!(
            "{what}: {:.0}/s ({count} in {:.1} s, {:.1} us of CPU each); \
             a commit takes {:.1} ms at the median, {:.1} ms at p99, {:.1} ms at most",
            count as f64 / elapsed.as_secs_f64(),
            elapsed.as_secs_f64(),
            cpu_ms as f64 * 1e3 / count.max(1) as f64,
            ms(0.5),
            ms(0.99),
            ms(1.0),
        );
    }
}

fn key(shard: Shard, parts: &[u64]) -> Bytes {
    let mut key = shard.to_be_bytes().to_vec();
    parts.iter().for_each(|part| key.extend_from_slice(&part.to_be_bytes()));
    Bytes::from(key)
}

fn put(family: Family, key: Bytes, value: Bytes) -> Op {
    Op::Put { family, key, value }
}

/// A record of about 130 bytes, a good part of which differs from job to job.
fn record(rng: &mut SmallRng, id: u64) -> Bytes {
    let (user, token): (u32, u128) = (rng.random(), rng.random());
    Bytes::from(format!(
        "email_send\0default\0{{\"user_id\":{user},\"template\":\"welcome\",\"token\":\"{token:032x}\"}}\0retries=3 id={id:016x}"
    ))
}

fn resident_mb() -> u64 {
    status_kb("VmRSS:") / 1024
}

fn process_usage() -> (u64, u64) {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF);
    let cpu_ms = usage.map_or(0, |usage| {
        let (user, system) = (usage.user_time(), usage.system_time());
        (user.tv_sec() + system.tv_sec()) * 1000 + (user.tv_usec() + system.tv_usec()) / 1000
    });
    (cpu_ms.unsigned_abs(), status_kb("VmHWM:") / 1024)
}

fn status_kb(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn display(path: &Path) -> String {
    path.display().to_string()
}
