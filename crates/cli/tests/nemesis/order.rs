//! What is promised of an ordering key.

use std::collections::BTreeSet;

use crate::record::{Effect, What};

/// Jobs of an ordering key begin in order, and never before the one before has ended. Their keys are
/// a prefix and a number that rises.
pub fn in_order(prefix: &str, effects: &[Effect]) {
    let ended = effects.iter().filter(|effect| effect.what == What::Ends);
    let ended: BTreeSet<&str> = ended.map(|effect| &*effect.run).collect();
    let mut last: Option<u64> = None;
    let mut running: Option<&str> = None;
    for effect in effects {
        let Some(number) = effect.key.strip_prefix(prefix) else { continue };
        let number: u64 = number.parse().unwrap();
        match effect.what {
            What::Begins => {
                // What was killed with its machine has no end on record.
                let killed = running.is_none_or(|before| !ended.contains(before));
                assert!(killed, "R72: {effect:?} began while {running:?} ran");
                assert!(
                    last.is_none_or(|last| last < number),
                    "R72: {effect:?} came after {last:?}"
                );
                (last, running) = (Some(number), Some(&*effect.run));
            }
            What::GoesOn | What::Ends => {
                assert_eq!(running, Some(&*effect.run), "R72: {effect:?} while another ran");
                if effect.what == What::Ends {
                    running = None;
                }
            }
        }
    }
}
