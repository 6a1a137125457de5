//! What the log of a group is applied to: the tables of its shard.
//!
//! Entries are applied without a sync: the log is durable, and whatever the tables lose in a crash
//! is applied again. So nothing is purged from the log before the tables have been made durable,
//! which is what building a snapshot amounts to here. Snapshots themselves are views of the tables
//! and cost nothing until they are sent.

use std::io;
use std::sync::Arc;

use bellwether_core::waist::{Family, Shard, StoreError, View};
use bellwether_store::{Applied, DiskEngine, Replicated, Tables, position_key};
use futures::{Stream, StreamExt};
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::type_config::alias::SnapshotOf;
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder};
use tokio::sync::oneshot;

use crate::codec::{decode_command, decode_position, encode_position};
use crate::runtime::blocking;
use crate::snapshot::{Receiving, ShardCopy, ShardView, failed, meta_of};
use crate::taking_in::{copy_rows, take_in};
use crate::types::{Entry, LogId, SnapshotMeta, StoredMembership, Types};

/// Entries that may be on their way to the tables.
const ON_THE_WAY_MAX: usize = 64;

/// The tables of one shard, as a group applies its log to them.
pub struct Machine<T = DiskEngine> {
    tables: Arc<T>,
    shard: Shard,
    applied: Option<LogId>,
    membership: StoredMembership,
    /// Somebody may wait until this is dropped: then nothing writes to the shard any more.
    alive: Option<Alive>,
}

/// Held by whatever writes to the tables of a shard.
pub(crate) type Alive = tokio::sync::mpsc::Sender<()>;

/// How far a shard's log has been applied, as the tables say.
fn position(view: &dyn View, shard: Shard) -> io::Result<(Option<LogId>, StoredMembership)> {
    match view.get(Family::Meta, &position_key(shard)).map_err(failed)? {
        Some(bytes) => decode_position(bytes),
        None => Ok((None, StoredMembership::default())),
    }
}

/// What becomes of an entry that is on its way to the tables.
type OnTheWay = oneshot::Receiver<Result<(), StoreError>>;
type Responder = openraft::storage::ApplyResponder<Types>;

impl<T: Tables> Machine<T> {
    /// The tables of a shard, as far as its log has been applied to them.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn new(tables: Arc<T>, shard: Shard, receiving: &Receiving) -> io::Result<Machine<T>> {
        if let Some(path) = receiving.complete(shard)? {
            // Taking it in was interrupted, or had not begun: then it may be out of date.
            if meta_of(&path)?.last_log_id > position(&*tables.view(), shard)?.0 {
                take_in(&*tables, shard, &path)?;
            }
            receiving.forget(shard)?;
        }
        Machine::without_copies(tables, shard)
    }

    /// The same where copies are never received into files.
    ///
    /// # Errors
    /// When the tables cannot be read.
    pub fn without_copies(tables: Arc<T>, shard: Shard) -> io::Result<Machine<T>> {
        let (applied, membership) = position(&*tables.view(), shard)?;
        Ok(Machine { tables, shard, applied, membership, alive: None })
    }

    /// How far the log has been applied.
    #[must_use]
    pub fn applied(&self) -> Option<LogId> {
        self.applied
    }

    /// Lets somebody wait until it writes to the tables no more.
    pub(crate) fn held_by(self, alive: Alive) -> Machine<T> {
        Machine { alive: Some(alive), ..self }
    }

    /// Hands an entry to the tables. Whoever proposed it is told by the thread that applies it, at
    /// once: whatever else has to wake up first would make them wait.
    fn hand_over(&mut self, entry: Entry, responder: Option<Responder>) -> io::Result<OnTheWay> {
        self.applied = Some(entry.log_id);
        let what = match &entry.payload {
            EntryPayload::Blank => Replicated::Nothing,
            EntryPayload::Normal(command) => decode_command(command)?,
            EntryPayload::Membership(membership) => {
                self.membership = StoredMembership::new(Some(entry.log_id), membership.clone());
                Replicated::Nothing
            }
        };
        let (sender, done) = oneshot::channel();
        let position = encode_position(self.applied, &self.membership);
        let done_with = Box::new(move |result: Result<Applied, StoreError>| {
            let result = result.map(|applied| {
                if let Some(responder) = responder {
                    responder.send(applied);
                }
            });
            // Nobody waits any more if this fails.
            let _ = sender.send(result);
        });
        self.tables.apply(self.shard, what, position, done_with);
        Ok(done)
    }
}

/// Waits until an entry has been applied.
async fn settle(done: OnTheWay) -> io::Result<()> {
    done.await.map_err(io::Error::other)?.map_err(failed)
}

impl<T: Tables> RaftStateMachine<Types> for Machine<T> {
    type SnapshotData = ShardCopy;
    type SnapshotBuilder = Builder<T>;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        Ok((self.applied, self.membership.clone()))
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> io::Result<()>
    where
        Strm: Stream<Item = Result<EntryResponder<Types>, io::Error>> + Unpin + OptionalSend,
    {
        let mut on_the_way = std::collections::VecDeque::new();
        while let Some(next) = entries.next().await {
            let (entry, responder) = next?;
            on_the_way.push_back(self.hand_over(entry, responder)?);
            if on_the_way.len() > ON_THE_WAY_MAX
                && let Some(first) = on_the_way.pop_front()
            {
                settle(first).await?;
            }
        }
        for rest in on_the_way {
            settle(rest).await?;
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Builder<T> {
        Builder { tables: self.tables.clone(), shard: self.shard }
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, copy: ShardCopy) -> io::Result<()> {
        let (tables, shard, alive) = (self.tables.clone(), self.shard, self.alive.clone());
        let position = encode_position(meta.last_log_id, &meta.last_membership);
        blocking(move || {
            let _alive = alive;
            match copy {
                ShardCopy::File(path) => take_in(&*tables, shard, &path),
                ShardCopy::View(from) => copy_rows(&*tables, &from, position),
            }
        })
        .await??;
        self.applied = meta.last_log_id;
        self.membership = meta.last_membership.clone();
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<SnapshotOf<Types, ShardCopy>>> {
        if self.applied.is_none() {
            return Ok(None);
        }
        durable_snapshot(&self.tables, self.shard).await.map(Some)
    }
}

/// The shard as it is now.
fn snapshot(tables: &dyn Tables, shard: Shard) -> io::Result<SnapshotOf<Types, ShardCopy>> {
    let view = tables.view();
    let (last_log_id, last_membership) = position(&*view, shard)?;
    let meta = SnapshotMeta { last_log_id, last_membership };
    Ok(SnapshotOf::<Types, ShardCopy> {
        meta,
        snapshot: ShardCopy::View(ShardView { view, shard }),
    })
}

/// The same, once the tables cannot lose it any more: whatever is in a snapshot that openraft knows of
/// may be purged from the log. That is also so for the one that it asks for at a start, when the
/// tables may show what a process before has written and nobody has synced.
async fn durable_snapshot<T: Tables>(
    tables: &Arc<T>,
    shard: Shard,
) -> io::Result<SnapshotOf<Types, ShardCopy>> {
    let built = snapshot(&**tables, shard)?;
    let tables = tables.clone();
    blocking(move || tables.persist()).await?.map_err(failed)?;
    Ok(built)
}

/// Builds snapshots of a shard.
pub struct Builder<T = DiskEngine> {
    tables: Arc<T>,
    shard: Shard,
}

impl<T: Tables> RaftSnapshotBuilder<Types> for Builder<T> {
    type SnapshotData = ShardCopy;

    async fn build_snapshot(&mut self) -> io::Result<SnapshotOf<Types, ShardCopy>> {
        durable_snapshot(&self.tables, self.shard).await
    }
}

#[cfg(test)]
mod tests {
    use bellwether_store::MemoryTables;
    use openraft::vote::RaftLeaderId;

    use super::*;

    fn entry(index: u64) -> Entry {
        let leader = <Types as openraft::RaftTypeConfig>::LeaderId::new(1, 1).to_committed();
        Entry { log_id: LogId::new(leader, index), payload: EntryPayload::Blank }
    }

    #[tokio::test]
    async fn r112_what_is_in_a_snapshot_is_not_lost_whoever_asked_for_it() {
        let tables = Arc::new(MemoryTables::default());
        let mut machine = Machine::without_copies(tables.clone(), 3).unwrap();
        for index in 1..=5 {
            machine.hand_over(entry(index), None).unwrap().await.unwrap().unwrap();
        }
        // Its process is killed: the tables still show all, but nobody has synced them.
        let mut machine = Machine::without_copies(tables.clone(), 3).unwrap();
        let snapshot = machine.get_current_snapshot().await.unwrap().unwrap();
        machine.hand_over(entry(6), None).unwrap().await.unwrap().unwrap();
        tables.crash(0);
        let (applied, _) = position(&*tables.view(), 3).unwrap();
        assert_eq!(applied, snapshot.meta.last_log_id, "openraft may have purged up to here");
        assert_eq!(applied.map(|id| id.index), Some(5));
    }
}
