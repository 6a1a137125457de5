//! Runs the simulation: one seed and its story, or many of them.

use std::process::ExitCode;
use std::time::Instant;

use bellwether_sim::{Mutant, Outcome, simulate};
use clap::Parser;

/// Simulates a cluster. The same seed does the same.
#[derive(Parser)]
#[command(name = "bellwether-sim")]
struct Options {
    /// The seed, or the first of several.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many seeds.
    #[arg(long, default_value_t = 1)]
    runs: u64,
    /// Tell what happens.
    #[arg(long)]
    trace: bool,
    /// Make a mistake on purpose.
    #[arg(long)]
    mutant: Option<Mutant>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let begun = Instant::now();
    let mut failed = 0;
    for seed in options.seed..options.seed.saturating_add(options.runs) {
        let outcome = simulate(seed, options.mutant, options.trace);
        failed += u64::from(!outcome.wrong.is_empty());
        if !outcome.wrong.is_empty() || options.runs == 1 {
            tell(seed, options.mutant, &outcome);
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!("{} runs in {seconds:.1} s, {failed} failed", options.runs);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn tell(seed: u64, mutant: Option<Mutant>, outcome: &Outcome) {
    let Outcome { hash, events, jobs, starts, take_overs, answers, wrong } = outcome;
    println!(
        "seed {seed}: {jobs} jobs, {starts} starts, {take_overs} take-overs, {answers} answers, \
         {events} events, trace {hash:016x}"
    );
    for what in wrong {
        println!("  {what}");
    }
    if !wrong.is_empty() {
        let mutant = mutant.map(|mutant| format!(" --mutant {mutant}")).unwrap_or_default();
        println!("  cargo run -p bellwether-sim -- --seed {seed} --trace{mutant}");
    }
}
