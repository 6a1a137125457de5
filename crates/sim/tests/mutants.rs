//! Mistakes that are made on purpose are found. By which seed and by which check, and which of them are
//! found too rarely to be tests, is said in `docs/simulation.md`.

use bellwether_sim::{Mutant, simulate};

/// A mistake is found within some seeds, by a check that says one of these.
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
fn r92_r97_a_leader_that_goes_on_after_it_was_replaced_is_found() {
    check_mutant(Mutant::ForgetFence, 1_000, 120, &["two leaders act", "R64", "R65", "R69"]);
}

#[test]
fn r71_a_new_leader_that_begins_at_the_wrong_place_is_found() {
    check_mutant(Mutant::WrongCursor, 1_000, 8, &["R71", "R36", "R5"]);
}

#[test]
fn r69_a_log_that_says_it_is_durable_and_is_not_is_found() {
    let says = ["the log of node", "R69", "R70", "R64", "twice", "stopped", "node", "nobody"];
    check_mutant(Mutant::LyingSync, 1_000, 60, &says);
}

#[test]
fn r94_leases_that_end_too_early_are_found() {
    check_mutant(Mutant::ShortLease, 1_000, 60, &["R94", "R65", "R34", "R72"]);
}

#[test]
fn r92_a_worker_that_takes_attempts_from_leaders_that_were_replaced_is_found() {
    check_mutant(Mutant::ForgetWorkersFence, 1_000, 60, &["R94", "R64", "R65", "R34", "R72"]);
}

#[test]
fn r70_an_answer_that_is_given_before_its_commit_is_found() {
    // Or a leader that was replaced tells workers again and again that it has heard them, and they stay
    // with it instead of going to whoever leads.
    check_mutant(Mutant::AnswerBeforeCommit, 1_000, 60, &["R70", "R36"]);
}

#[test]
fn r69_a_node_that_has_lost_its_disk_and_comes_back_as_itself_is_found() {
    let says = ["R69", "R70", "R71", "R36", "twice", "stopped", "node", "nobody", "two leaders"];
    check_mutant(Mutant::Amnesia, 1_000, 120, &says);
}
