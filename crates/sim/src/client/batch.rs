//! Batches: sent chunk by chunk, and accepted as a whole.

use std::time::Duration;

use bellwether_core::id::{BatchId, JobId};
use bellwether_core::record::{self, BatchRow, Item};
use bellwether_core::turn::{BatchInput, Input, Reply};
use bytes::Bytes;

use super::Client;
use crate::asked::KnownBatch;
use crate::jobs::some_template;

impl Client {
    /// Sends a batch. If anything about it is uncertain, it is left to itself.
    pub(super) async fn batch(&mut self, known: &[JobId]) {
        let shard = self.some_shard();
        let key = if self.chance.one_in(2) { self.fresh_name() } else { String::new() };
        let then = if self.chance.one_in(2) { self.chance.of(known).copied() } else { None };
        let row = BatchRow {
            key,
            template: record::encode(&some_template(&mut self.chance)),
            on_complete: then.map_or(0, |job| job.0),
            ..BatchRow::default()
        };
        let begin = BatchInput::Begin { row: Box::new(row) };
        let begun = self.ask(shard, of_batch(BatchId(u64::from(shard)), begin)).await;
        let Some(Ok(Reply::Batch { batch, new: true })) = begun else { return };
        let mut items = 0;
        for chunk in 0..1 + self.chance.below(6) as u32 {
            let more = 1 + self.chance.below(3);
            let data = |n: u64| Item { data: Bytes::from(n.to_string()), is_text: true };
            let some = (items..items + more).map(data).collect();
            items += more;
            let receive = BatchInput::Receive { chunk, items: some };
            match self.ask(shard, of_batch(batch, receive)).await {
                Some(Ok(_)) => {}
                _ => return,
            }
        }
        let accept = BatchInput::Accept { actor: "ana".to_owned(), hash: Bytes::new() };
        let Some(Ok(_)) = self.ask(shard, of_batch(batch, accept)).await else { return };
        self.world.trace.tell(format_args!("{batch} of {items} items is acknowledged"));
        self.world.saw("a batch was accepted");
        let accepted = KnownBatch { items, canceled: false };
        self.record(|record| record.wishes.batches.insert(batch, accepted));
        if self.chance.one_in(3) {
            self.cancel_batch(batch).await;
        }
    }

    async fn cancel_batch(&mut self, batch: BatchId) {
        tokio::time::sleep(Duration::from_millis(self.chance.below(3_000))).await;
        self.record(|record| {
            if let Some(known) = record.wishes.batches.get_mut(&batch) {
                known.canceled = true;
            }
        });
        let (actor, note) = ("ana".to_owned(), String::new());
        let cancel = of_batch(batch, BatchInput::Cancel { actor, note });
        if let Some(Ok(_)) = self.ask(batch.shard(), cancel).await {
            self.world.saw("a batch was canceled");
        }
    }
}

fn of_batch(batch: BatchId, input: BatchInput) -> Input {
    Input::Batch { batch, input: Box::new(input) }
}
