//! Many workers at once, and pools that do not get into each other's way.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use parking_lot::Mutex;

use crate::simulated::{Claim, Habit, Pool};
use crate::support::{Server, eventually};

/// A crowd would disturb what is measured next to it.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[test]
fn r83_r85_a_thousand_workers_never_get_the_same_run() {
    const WORKERS: usize = 1_000;
    const RUNS: usize = 20_000;
    let _alone = ONE_AT_A_TIME.lock();
    let server = Server::start_with(&["--no-worker"]);
    let pool = Pool::connect(&server, "crowd", WORKERS, 4, Habit::Finishes);
    let mut made = BTreeSet::new();
    for _ in 0..4 {
        made.extend(pool.add(RUNS / 4));
    }
    pool.claims(RUNS);
    // Had a run been given away twice, the second would be among these: all have ended by now.
    eventually("the end of all runs", || (pool.metric("bellwether_open_runs") == 0).then_some(()));
    let claims = pool.claims(RUNS);
    let mut claimed: BTreeMap<&str, Vec<&Claim>> = BTreeMap::new();
    for claim in &claims {
        claimed.entry(&claim.run).or_default().push(claim);
    }
    let twice: Vec<_> = claimed.values().filter(|claims| claims.len() > 1).collect();
    assert!(twice.is_empty(), "given away more than once: {twice:#?}");
    let missing: Vec<_> = made.iter().filter(|run| !claimed.contains_key(run.as_str())).collect();
    assert!(missing.is_empty(), "never given away: {missing:#?}");
    assert_eq!(claimed.len(), RUNS);
    let busy: BTreeSet<usize> = claims.iter().map(|claim| claim.worker).collect();
    assert!(busy.len() > WORKERS / 2, "only {} of {WORKERS} workers got any", busy.len());
    assert_eq!(pool.metric("bellwether_launches_total"), RUNS as u64);
}

fn p99(waits: &mut [Duration]) -> Duration {
    waits.sort();
    waits[waits.len() * 99 / 100]
}

#[test]
fn r57_a_pool_that_is_saturated_does_not_slow_down_another() {
    let _alone = ONE_AT_A_TIME.lock();
    let server = Server::start_with(&["--no-worker"]);
    let light = Pool::connect(&server, "light", 1, 4, Habit::Finishes);
    light.waits(20);
    let alone = p99(&mut light.waits(200));
    // Heavy runs never end: whatever waits behind them waits for ever.
    let heavy = Pool::connect(&server, "heavy", 2, 4, Habit::Keeps);
    heavy.add(5_000);
    heavy.claims(8);
    let beside = p99(&mut light.waits(200));
    assert_eq!(heavy.claims(8).len(), 8, "the heavy pool is full");
    println!("p99 of light work: alone {alone:?}, beside heavy work {beside:?}");
    // A busy machine may take its time; what waits for heavy work would wait for ever.
    let bound = 10 * alone + Duration::from_millis(500);
    assert!(beside < bound, "p99 of light work: alone {alone:?}, beside heavy work {beside:?}");
}
