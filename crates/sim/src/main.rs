//! Runs the simulation: one seed and its story, or many of them, on all cores.

use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bellwether_sim::{Coverage, Mutant, Outcome, simulate};
use clap::Parser;
use parking_lot::Mutex;

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
    /// Stop after the first that fails.
    #[arg(long)]
    stop: bool,
    /// How many at the same time; as many as there are cores if it is 0.
    #[arg(long, default_value_t = 0)]
    jobs: usize,
    /// Tell what happened how often.
    #[arg(long)]
    coverage: bool,
    /// Make a mistake on purpose.
    #[arg(long)]
    mutant: Option<Mutant>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let begun = Instant::now();
    let next = AtomicU64::new(options.seed);
    let end = options.seed.saturating_add(options.runs);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let cores = if options.jobs == 0 { cores } else { options.jobs };
    let so_far = Mutex::new((0_u64, 0_u64, Coverage::default()));
    let run = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let (_, failed, _) = *so_far.lock();
            if seed >= end || (options.stop && failed > 0) {
                return;
            }
            let outcome = simulate(seed, options.mutant, options.trace);
            let mut so_far = so_far.lock();
            so_far.0 += 1;
            so_far.1 += u64::from(!outcome.wrong.is_empty());
            so_far.2.add(&outcome.coverage);
            if !outcome.wrong.is_empty() || options.runs == 1 {
                tell(seed, options.mutant, &outcome);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..cores.min(options.runs as usize) {
            scope.spawn(run);
        }
        run();
    });
    let (runs, failed, coverage) = so_far.into_inner();
    if options.coverage {
        coverage.all().for_each(|(what, count)| println!("{count:>9} × {what}"));
    }
    println!("{runs} runs in {:.1} s, {failed} failed", begun.elapsed().as_secs_f64());
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn tell(seed: u64, mutant: Option<Mutant>, outcome: &Outcome) {
    let Outcome { hash, events, jobs, starts, take_overs, answers, wrong, .. } = outcome;
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
    // Whoever waits wants to see it at once.
    let _ = std::io::stdout().flush();
}
