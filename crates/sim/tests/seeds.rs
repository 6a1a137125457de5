//! The simulation itself: some seeds that are always the same, some that never are.
//!
//! `SIM_SEEDS` says how many of the first are run (200 unless it does), and `SIM_SECONDS` for how
//! long new ones are tried (5).

#![allow(clippy::unwrap_used)]

use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bellwether_sim::{Coverage, simulate};

/// With fewer seeds than this, something may not happen by chance.
const ENOUGH: u64 = 200;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Runs a seed, which must go well.
#[track_caller]
fn check(seed: u64) -> Coverage {
    let outcome = simulate(seed, None, false);
    assert!(
        outcome.wrong.is_empty(),
        "seed {seed}: {:#?}\nreplay it: make sim SEED={seed}",
        outcome.wrong
    );
    outcome.coverage
}

/// Runs seeds, on all cores, and says what happened.
fn check_all(seeds: u64) -> Coverage {
    let next = AtomicU64::new(0);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let run = || {
            let mut coverage = Coverage::default();
            loop {
                match next.fetch_add(1, Ordering::Relaxed) {
                    seed if seed < seeds => coverage.add(&check(seed)),
                    _ => return coverage,
                }
            }
        };
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(run)).collect();
        let mut all = Coverage::default();
        for thread in threads {
            match thread.join() {
                Ok(coverage) => all.add(&coverage),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    })
}

#[test]
fn r64_r70_r71_r72_a_cluster_keeps_its_promises_whatever_goes_wrong() {
    let seeds = setting("SIM_SEEDS", ENOUGH);
    let coverage = check_all(seeds);
    // A run in which nothing goes wrong proves nothing.
    let missing = coverage.missing();
    assert!(seeds < ENOUGH || missing.is_empty(), "never happened: {missing:#?}");
}

#[test]
fn r64_r70_r71_r72_also_with_seeds_that_nobody_has_tried() {
    let until = Instant::now() + Duration::from_secs(setting("SIM_SECONDS", 5));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut seed = now.as_millis() as u64;
    while Instant::now() < until {
        check(seed);
        seed += 1;
    }
}

/// The hash of all that happens with a seed, in a process of its own.
fn trace_elsewhere(seed: u64) -> String {
    let binary = env!("CARGO_BIN_EXE_bellwether-sim");
    let output = Command::new(binary).args(["--seed", &seed.to_string()]).output();
    let output = output.expect("the simulator can be run");
    let text = String::from_utf8_lossy(&output.stdout);
    let (_, rest) = text.split_once("trace ").expect("it says what its trace is");
    rest.split_whitespace().next().unwrap_or_default().to_owned()
}

#[test]
fn the_same_seed_does_the_same_here_and_in_another_process() {
    let mut traces = std::collections::BTreeSet::new();
    for seed in [1, 2, 5, 42, 1_001, 77_777] {
        let (first, second) = (simulate(seed, None, false), simulate(seed, None, false));
        assert_eq!(first, second, "seed {seed}");
        assert_eq!(trace_elsewhere(seed), format!("{:016x}", first.hash), "seed {seed}");
        assert!(first.starts > 0 && first.take_overs > 0 && first.jobs > 0, "{first:?}");
        traces.insert(first.hash);
    }
    assert_eq!(traces.len(), 6, "other seeds do something else");
}
