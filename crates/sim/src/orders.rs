//! Ordering keys: whoever gets its turn has waited for the longest (R72).

use std::collections::BTreeMap;

use bellwether_core::id::RunId;
use bellwether_core::record::Run;
use bellwether_core::time::Time;
use bellwether_core::waist::{Family, Shard, Term, View};
use bellwether_core::{key, read};

use crate::record::Record;

/// Kinds of rows of the family of ordering keys, as their third byte says.
const WAITS: u8 = 1;
const CURRENT: u8 = 3;
/// Bytes of time and run at the end of a key of one that waits.
const TAIL: usize = 20;

/// Looks at whose turn it is after a turn of a shard, which was at `now` if it was the only one
/// since the last look. One that was replaced meanwhile sees what was true before.
pub fn look(record: &mut Record, view: &dyn View, (shard, term): (Shard, Term), now: Option<Time>) {
    let newest = record.looked.entry(shard).or_default();
    if term < *newest {
        return;
    }
    *newest = term;
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
        let before = record.current.get(key).copied();
        let Some(now) = now.filter(|_| before != Some(*id)) else { continue };
        let Some(run) = run(view, *id) else { continue };
        for (_, other) in waiting.iter().filter(|(of, _)| of == key) {
            let Some(waits) = self::run(view, *other) else { continue };
            let since_ms = waits.events.last().map_or(0, |event| event.at_ms);
            let earlier = (waits.scheduled_ms, *other) < (run.scheduled_ms, *id);
            // One that came to wait in the same turn may come after it.
            if earlier && since_ms < now.0 {
                let text = format!(
                    "R72: {id} goes before {other}, after {before:?}: {}; {}",
                    story(&run),
                    story(&waits)
                );
                record.wrong(text);
            }
        }
    }
    record.current.retain(|key, _| !key.starts_with(&from));
    record.current.extend(current);
}

fn run(view: &dyn View, id: RunId) -> Option<Run> {
    Some(read::run(view, id).ok()??.run)
}

/// What happened to a run, in a line.
fn story(run: &Run) -> String {
    let events = run.events.iter();
    let events: Vec<String> =
        events.map(|event| format!("{:?} at {}", event.kind(), Time(event.at_ms))).collect();
    format!("scheduled at {}, {}", Time(run.scheduled_ms), events.join(", "))
}
