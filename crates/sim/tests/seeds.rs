//! The simulation itself: some seeds that are always the same, some that never are; and each mistake
//! that is made on purpose is found.
//!
//! `SIM_SECONDS` says how long new seeds are tried (20 seconds unless it does).

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bellwether_sim::{Mutant, simulate};

/// Seeds that are always run.
const FIXED: [u64; 6] = [0, 11, 1_054, 2_098, 2_163, 20_061];

/// Runs a seed, which must go well.
#[track_caller]
fn check(seed: u64) {
    let outcome = simulate(seed, None, false);
    assert!(
        outcome.wrong.is_empty(),
        "seed {seed}: {:#?}\nreplay it: make sim SEED={seed}",
        outcome.wrong
    );
}

#[test]
fn r64_r70_r71_r72_a_cluster_keeps_its_promises_whatever_goes_wrong() {
    FIXED.into_iter().for_each(check);
    let seconds = std::env::var("SIM_SECONDS").ok().and_then(|text| text.parse().ok());
    let until = Instant::now() + Duration::from_secs(seconds.unwrap_or(20));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut seed = now.as_millis() as u64;
    while Instant::now() < until {
        check(seed);
        seed += 1;
    }
}

#[test]
fn the_same_seed_does_the_same() {
    for seed in [1, 2] {
        let (first, second) = (simulate(seed, None, false), simulate(seed, None, false));
        assert_eq!(first, second, "seed {seed}");
        assert!(first.starts > 0 && first.take_overs > 0 && first.jobs > 0, "{first:?}");
    }
    assert_ne!(simulate(1, None, false).hash, simulate(2, None, false).hash);
}

/// A mistake is found within some seeds, by a check that says this.
#[track_caller]
fn check_mutant(mutant: Mutant, from: u64, seeds: u64, says: &[&str]) {
    for seed in from..from + seeds {
        let outcome = simulate(seed, Some(mutant), false);
        if let Some(what) = outcome.wrong.first() {
            assert!(says.iter().any(|says| what.contains(says)), "{mutant}, seed {seed}: {what}");
            println!("{mutant} is found by seed {seed}: {what}");
            return;
        }
    }
    panic!("{mutant} is not found within {seeds} seeds");
}

#[test]
fn r91_an_attempt_that_is_handed_over_before_its_commit_is_found() {
    check_mutant(Mutant::ActBeforeCommit, 1_000, 60, &["R64", "R65", "R72", "R34", "R94"]);
}

#[test]
fn r92_a_leader_that_goes_on_after_it_was_replaced_is_found() {
    check_mutant(Mutant::ForgetFence, 1_000, 120, &["two leaders act", "R64", "R65", "R67"]);
}

#[test]
fn r71_a_new_leader_that_begins_at_the_wrong_place_is_found() {
    check_mutant(Mutant::WrongCursor, 1_000, 8, &["R71", "R36"]);
}

#[test]
fn r67_a_log_that_says_it_is_durable_and_is_not_is_found() {
    let says = ["the log of node", "R67", "R70", "R64", "twice", "stopped", "node", "nobody"];
    check_mutant(Mutant::LyingSync, 1_000, 60, &says);
}

#[test]
fn r94_leases_that_end_too_early_are_found() {
    check_mutant(Mutant::ShortLease, 1_000, 60, &["R94", "R65", "R34", "R72"]);
}
