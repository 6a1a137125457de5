//! Whether attempts of a run overlap, by what those say that last for long.
//!
//! Nobody writes down that an attempt was killed, so how long it was there is taken from its beats. An overlap is
//! a beat or an end of an attempt that was written after a newer one of the same run had begun, by the time that the
//! attempts themselves read on the machine's clock. That is exact to 10 ms; `MARGIN` is for a worker that
//! did not get the processor in time to stop what it runs, when all nodes share a small machine.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::record::{Effect, What};

/// For how long an attempt may be heard after a newer one has begun.
const MARGIN: Duration = Duration::from_millis(300);

/// Attempts of a run never overlap. How many runs had several attempts.
pub fn never(effects: &[Effect]) -> usize {
    let mut runs: BTreeMap<&str, Vec<&Effect>> = BTreeMap::new();
    for effect in effects {
        runs.entry(&effect.run).or_default().push(effect);
    }
    let mut several = 0;
    for effects in runs.values() {
        let begun: Vec<&Effect> = effects.iter().copied().filter(|e| e.begins()).collect();
        several += usize::from(begun.len() > 1);
        for two in begun.windows(2) {
            let (older, newer) = (two[0], two[1]);
            let overlaps = |effect: &&Effect| {
                let later = effect.what != What::Begins && effect.at > newer.at + MARGIN;
                later && effect.token == older.token
            };
            let overlap = effects.iter().copied().find(overlaps);
            assert!(overlap.is_none(), "R65: {overlap:?}, but {newer:?}");
        }
    }
    several
}
