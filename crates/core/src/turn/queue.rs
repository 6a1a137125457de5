//! The bounds of queues. They live in shard 0, like everything that belongs to no shard.
//!
//! What is kept is kept here; keeping to it is the dispatcher's part.

use super::{Halt, QueueChange, Reply, Turn};
use crate::key;
use crate::record::{self, Audit, Mark, QueueRow};
use crate::waist::Family;

impl Turn<'_> {
    pub(super) fn put_queue(
        &mut self,
        actor: &str,
        name: &str,
        change: QueueChange,
    ) -> Result<Reply, Halt> {
        let key = key::queue(self.memory.shard, name);
        let mut row = self.read::<QueueRow>(Family::Meta, &key)?.unwrap_or_default();
        row.concurrency = change.concurrency.unwrap_or(row.concurrency);
        row.rate_milli = change.rate_milli.unwrap_or(row.rate_milli);
        match change.paused {
            Some(true) => {
                row.paused = Some(Mark {
                    at_ms: self.now.0,
                    by: actor.to_owned(),
                    until_ms: None,
                    note: change.note,
                });
            }
            Some(false) => row.paused = None,
            None => {}
        }
        let paused = if row.paused.is_some() { "paused" } else { "not paused" };
        let bound = |number: u64| if number == 0 { "any".to_owned() } else { number.to_string() };
        let detail = format!(
            "concurrency {}, rate {} in 1000 s, {paused}",
            bound(u64::from(row.concurrency)),
            bound(row.rate_milli)
        );
        if row == QueueRow::default() {
            self.store.delete(Family::Meta, key);
        } else {
            self.store.put(Family::Meta, key, record::encode(&row));
        }
        self.note(Audit {
            actor: actor.to_owned(),
            action: "queue.change".to_owned(),
            subject: name.to_owned(),
            detail,
            ..Audit::default()
        });
        Ok(Reply::Done)
    }
}
