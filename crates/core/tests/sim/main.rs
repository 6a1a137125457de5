//! A simulation of the rules: random jobs, random wishes, random workers, random crashes.
//!
//! Each seed is one short life of a shard. What workers really started is written down outside of
//! the shard; at the end it is compared with what the shard promised. A failing seed prints the
//! command that replays it.
//!
//! ```text
//! cargo test -p bellwether-core --test sim                 a few hundred seeds
//! SIM_SEEDS=5000 cargo test -p bellwether-core --test sim   more of them
//! SIM_SEED=17 cargo test -p bellwether-core --test sim      one of them
//! ```
//!
//! With `CARGO_PROFILE_DEV_OPT_LEVEL=1` it is six times as fast.
//!
//! A simulation is worth what it can find. These mistakes were made on purpose, one at a time; each
//! was found within 200 seeds, most within 20, by the check named:
//!
//! | mistake | found by |
//! |---|---|
//! | attempts handed over before the commit | R64: started twice under at-most-once |
//! | a report's fencing token not looked at | a run is started while it runs |
//! | the cursor not lowered for an entry behind it | an entry is behind the cursor |
//! | an entry of the past known by the present, not by its time | it is before the earliest known |
//! | an unknown outcome tried again under at-most-once | R64 |
//! | the next tick computed from just before the last | R5: the next tick, R71: the ledger |
//! | a queued run not released when the one before it ends | R36: it is stuck |
//! | a period after the last end forgotten while held back | R5: it has ended |
//! | of those that wait for an ordering key the last goes first | R72: goes before |
//! | a run filed where history has been pruned already | it is filed, but not there |
//! | a run of a deleted job given another go | it cannot be found by its id |
//! | a failed run of a deleted job left in the way of its key | whose turn it is exists |

#[path = "../world/mod.rs"]
mod world;

#[allow(clippy::unwrap_used)]
mod ending;
mod life;
mod pick;
mod promises;

use std::panic::{AssertUnwindSafe, catch_unwind};

/// The environment says which seeds to run; the rules themselves never look at it.
#[allow(clippy::disallowed_methods)]
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn r64_r70_r71_promises_hold_whatever_happens() {
    let seeds = match number("SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SIM_SEEDS").unwrap_or(300),
    };
    // One seed alone tells its story.
    let trace = number("SIM_SEED").is_some();
    let mut totals = life::Totals::default();
    for seed in seeds {
        match catch_unwind(AssertUnwindSafe(|| life::live(seed, trace))) {
            Ok(life) => totals.add(&life),
            Err(cause) => {
                eprintln!("SIM_SEED={seed} cargo test -p bellwether-core --test sim");
                std::panic::resume_unwind(cause);
            }
        }
    }
    println!("{totals:?}");
}
