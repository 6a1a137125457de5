//! Holding what the cluster says against what really happened.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bellwether_api::{Job, JobStatus, Run, RunStatus, Tick, TickFate};
use bellwether_client::{Client, ClientError, PageFilter};
use futures::TryStreamExt;
use jiff::Timestamp;

use crate::load::{Kind, Load, ORDERING_KEYS, Promise, Recurring};
use crate::order::in_order;
use crate::overlap;
use crate::record::{Effect, Record};
use crate::server::{Cluster, until};

/// Why what never began may have failed: no process could be made, or no connection.
const UNBEGUN: [&str; 3] = ["spawn_failed", "connect_error", "connect_timeout"];
/// How late a tick may be on a machine that is busy, once nothing is wrong any more.
const LATE_MAX: Duration = Duration::from_secs(15);

/// The job of a promise, if there is one. Only the shard's own word counts for that there is none.
async fn job_of(cluster: &Cluster, promise: &Promise) -> Option<Job> {
    let look = async |client: &Client| match client.job(&promise.key).await {
        Ok(job) => Ok(Some(job)),
        Err(ClientError::Problem(problem)) if problem.status == 404 => Ok(None),
        Err(error) => Err(error),
    };
    cluster.anywhere(&promise.key, look).await
}

/// Waits until everything that was promised has ended, and nothing that ticks is under way.
pub async fn until_all_ended(cluster: &Cluster, load: &Load<'_>) {
    let promises = load.promises.lock().clone();
    for promise in &promises {
        until(&format!("{promise:?} ends"), async || {
            job_of(cluster, promise).await.is_none_or(|job| {
                !matches!(job.info.status, JobStatus::Scheduled | JobStatus::Running)
            })
        })
        .await;
    }
    for job in &load.recurring {
        until(&format!("the runs of {} end", job.key), async || {
            let found = cluster.anywhere(&job.key, async |client| client.job(&job.id).await).await;
            found.info.open_runs.is_empty()
        })
        .await;
    }
}

/// How much was checked.
#[derive(Debug, Default)]
pub struct Tally {
    /// Jobs that were acknowledged.
    pub acknowledged: usize,
    /// Jobs of which nobody knew whether they are there.
    pub unknown: usize,
    /// Of these, those that are.
    pub there: usize,
    /// Runs that were lost, under `at_most_once`.
    pub lost: usize,
    /// Attempts that really began.
    pub begun: usize,
    /// Runs with several attempts.
    pub again: usize,
    /// Ticks in the ledger.
    pub ticks: usize,
}

/// Checks everything that can be asked for.
pub async fn all(cluster: &Cluster, load: &Load<'_>, record: &Record) -> Tally {
    let effects = record.read();
    let mut tally = Tally::default();
    let promises = load.promises.lock().clone();
    for promise in &promises {
        one_off(cluster, promise, &effects, &mut tally).await;
    }
    tokens_rise(&effects);
    keys_tell_repetitions(&effects);
    tally.again = overlap::never(&effects);
    for line in 0..ORDERING_KEYS {
        in_order(&format!("line{line}-"), &effects);
    }
    for job in &load.recurring {
        tally.ticks += recurring(cluster, job, load.stopped(), &effects, &mut tally).await;
    }
    tally.begun = effects.iter().filter(|effect| effect.begins()).count();
    tally
}

/// A one-off job is there if it was acknowledged, and ran as often as its delivery allows.
async fn one_off(cluster: &Cluster, promise: &Promise, effects: &[Effect], tally: &mut Tally) {
    // By key: should there be two jobs under one key, both count.
    let began =
        effects.iter().filter(|effect| effect.begins() && effect.key == promise.key).count();
    let job = job_of(cluster, promise).await;
    let Some(job) = job else {
        assert!(promise.id.is_none(), "R70, acknowledged and not there: {promise:?}");
        assert_eq!(began, 0, "what is not there has run: {promise:?}");
        tally.unknown += 1;
        return;
    };
    match &promise.id {
        Some(id) => {
            assert_eq!(*id, job.info.id, "there are two of {promise:?}");
            tally.acknowledged += 1;
        }
        None => {
            tally.unknown += 1;
            tally.there += 1;
        }
    }
    let last = job.info.last_run.as_ref();
    let detail = format!("{promise:?} began {began} times, and its last run is {last:?}");
    match (promise.kind, job.info.status) {
        (Kind::AtLeastOnce, JobStatus::Completed) => assert!(began >= 1, "R66: {detail}"),
        (Kind::AtMostOnce | Kind::Ordered, JobStatus::Completed) => {
            assert_eq!(began, 1, "R64/R65: {detail}");
        }
        (Kind::AtMostOnce | Kind::Ordered, JobStatus::Failed) => {
            assert!(began <= 1, "R64/R65: {detail}");
            if last.is_some_and(|run| run.status == RunStatus::Lost) {
                tally.lost += 1;
            } else {
                let runs = runs_of(cluster, &job.info.id).await;
                let failed = last.and_then(|run| runs.get(&run.id));
                let reason = failed.and_then(|run| run.reason.as_deref());
                let detail = format!("{promise:?} began {began} times, but it is {failed:?}");
                assert!(reason.is_some_and(|reason| UNBEGUN.contains(&reason)), "{detail}");
                assert_eq!(began, 0, "{detail}");
            }
        }
        _ => panic!("it is {:?}: {detail}", job.info.status),
    }
}

/// Attempts of a run have rising tokens.
fn tokens_rise(effects: &[Effect]) {
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    for effect in effects.iter().filter(|effect| effect.begins()) {
        if let Some(before) = last.insert(&effect.run, effect.token) {
            assert!(before < effect.token, "R98: tokens do not rise at {effect:?}");
        }
    }
}

/// R60, R67: a target that does what comes under a key only once does everything once: attempts of a run come
/// under the same key, and no two runs share one.
fn keys_tell_repetitions(effects: &[Effect]) {
    let (mut of_runs, mut of_keys) = (BTreeMap::new(), BTreeMap::new());
    for effect in effects {
        let Effect { run, idempotency_key, .. } = effect;
        let known = of_runs.entry(run).or_insert(idempotency_key);
        assert_eq!(*known, idempotency_key, "R60: the run has another key: {effect:?}");
        let known = of_keys.entry(idempotency_key).or_insert(run);
        assert_eq!(*known, run, "R67: the key is that of another run: {effect:?}");
    }
}

/// Every tick of a job is in the ledger once, and ran at most once. How many there are.
async fn recurring(
    cluster: &Cluster,
    job: &Recurring,
    stopped: Timestamp,
    effects: &[Effect],
    tally: &mut Tally,
) -> usize {
    let mut ticks = ledger(cluster, job).await;
    ticks.reverse();
    let runs = runs_of(cluster, &job.id).await;
    let count = contiguous(job, &ticks, stopped);
    let mut launched = BTreeSet::new();
    for tick in ticks.iter().filter(|tick| matches!(tick.fate, TickFate::Fired | TickFate::Late)) {
        let run = tick.run_id.as_deref().unwrap();
        launched.insert(run);
        let began = effects.iter().filter(|effect| effect.begins() && effect.run == run).count();
        let stored = runs.get(run);
        let detail = format!("{run} of {} began {began} times and is {stored:?}", job.key);
        assert!(began <= 1, "R64/R65: {detail}");
        match stored.map(|run| run.status) {
            Some(RunStatus::Succeeded) => assert_eq!(began, 1, "{detail}"),
            Some(RunStatus::Lost) => tally.lost += 1,
            _ => panic!("{detail}"),
        }
    }
    for effect in effects.iter().filter(|effect| effect.key == job.key) {
        assert!(launched.contains(&*effect.run), "R71: {effect:?} is not in the ledger");
    }
    count
}

/// The ledger of a job, the newest tick first.
pub async fn ledger(cluster: &Cluster, job: &Recurring) -> Vec<Tick> {
    let read = async |client: &Client| {
        client.ticks_all(&job.id, PageFilter::default()).try_collect::<Vec<_>>().await
    };
    cluster.anywhere("the ledger", read).await
}

async fn runs_of(cluster: &Cluster, job: &str) -> BTreeMap<String, Run> {
    let read = async |client: &Client| {
        client.job_runs_all(job, PageFilter::default()).try_collect::<Vec<Run>>().await
    };
    let runs = cluster.anywhere("the runs of a job", read).await;
    runs.into_iter().map(|run| (run.id.clone(), run)).collect()
}

/// From when a job was created until it was paused no tick is missing, and none is there twice. How many
/// there are.
pub fn contiguous(job: &Recurring, ticks: &[Tick], stopped: Timestamp) -> usize {
    let period = i64::try_from(job.period.as_millis()).unwrap();
    let mut expected = ticks.first().unwrap().at.0.0;
    let latest = job.since.as_millisecond() + period;
    assert!(expected <= latest, "R71: the first tick of {job:?} is {:?}", ticks.first());
    let mut count = 0;
    for tick in ticks {
        assert_eq!(tick.at.0.0, expected, "R71: a gap or a repetition at {tick:?} of {}", job.key);
        let last = tick.until.map_or(tick.at.0.0, |until| until.0.0);
        assert_eq!(last - tick.at.0.0, i64::from(tick.count - 1) * period, "R71: {tick:?}");
        expected = last + period;
        count += tick.count as usize;
    }
    let silent_ms = stopped.as_millisecond() - expected;
    let late_max_ms = i64::try_from(LATE_MAX.as_millis()).unwrap();
    assert!(silent_ms < late_max_ms, "R71: {} ticked no more for {silent_ms} ms", job.key);
    count
}
