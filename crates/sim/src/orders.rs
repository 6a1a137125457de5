//! Ordering keys: whoever gets its turn has waited for the longest (R72).

use std::collections::BTreeMap;

use bellwether_core::id::RunId;
use bellwether_core::time::Time;
use bellwether_core::waist::{Family, Shard, View};
use bellwether_core::{key, read};

use crate::record::Record;

/// Kinds of rows of the family of ordering keys, as their third byte says.
const WAITS: u8 = 1;
const CURRENT: u8 = 3;
/// Bytes of time and run at the end of a key of one that waits.
const TAIL: usize = 20;

/// Looks at whose turn it is after a turn of a shard, which was at `now` if it was the only one
/// since the last look.
pub fn look(record: &mut Record, view: &dyn View, shard: Shard, now: Option<Time>) {
    let (from, to) = key::shard_range(shard);
    let mut current: BTreeMap<Vec<u8>, RunId> = BTreeMap::new();
    let mut waiting: Vec<(Vec<u8>, RunId)> = Vec::new();
    for (key, value) in view.scan(Family::Order, &from, &to).flatten() {
        let name = |len: usize| [&key[..2], &key[3..len]].concat();
        match key.get(2) {
            Some(&WAITS) => {
                if let Ok(run) = key::read_order(&key) {
                    waiting.push((name(key.len().saturating_sub(TAIL).max(3)), run));
                }
            }
            Some(&CURRENT) => {
                if let Ok(run) = key::read_order(&value) {
                    current.insert(name(key.len()), run);
                }
            }
            _ => {}
        }
    }
    for (key, id) in &current {
        let Some(scheduled) = scheduled(view, *id) else { continue };
        let same_key = waiting.iter().filter(|(of, _)| of == key);
        let earlier: Vec<(RunId, i64)> = same_key
            .filter_map(|(_, other)| {
                let (at, since) = self::scheduled(view, *other)?;
                ((at, *other) < (scheduled.0, *id)).then_some((*other, since))
            })
            .collect();
        if let Some(now) = now {
            record.got_turn(now, key, *id, &earlier);
        }
    }
    record.current.retain(|key, _| !key.starts_with(&from));
    record.current.extend(current);
}

/// When a run was scheduled, and when something last happened to it.
fn scheduled(view: &dyn View, id: RunId) -> Option<(i64, i64)> {
    let run = read::run(view, id).ok()??.run;
    Some((run.scheduled_ms, run.events.last().map_or(0, |event| event.at_ms)))
}
