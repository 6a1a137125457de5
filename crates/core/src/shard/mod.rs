//! What the leader of a shard does, but for waiting, committing and performing.
//!
//! ```text
//!            ┌──────────────────────── Leading ─────────────────────────┐
//!  messages ─┤ begin ─► Step: decide, decide, … ─► finish ─► Decided ───┼─► commit them, then
//!  due      ─┤   due entries, cursor               due, prune, claims   │   committed(effects)
//!            └──────────────────────────────────────────────────────────┘   and perform the rest
//! ```
//! Time, the view and the slots of workers are arguments, so that a server on a thread and a
//! simulation in virtual time run the same code. Whoever drives it keeps the order: nothing that was
//! decided is let out before it is committed, and if the commit fails, all of this is void.
//!
//! Not here: taking over. That is [`crate::turn::load`] after a term has been acquired, then
//! [`recover()`] chunk by chunk, each committed, and then [`Leading::new`].

mod claim;
mod recover;

use std::sync::Arc;

use bytes::Bytes;

use crate::agenda::Agenda;
use crate::bounds::{Ask, Shares};
use crate::key::DueKey;
use crate::time::{MINUTE_MS, Time};
use crate::turn::{Decided, Effect, Halt, Input, Lane, Memory, Reply, Roster, Turn, Turnstile};
use crate::waist::{Shard, StoreError, View};

pub use recover::{Recovered, StillHeld, recover, with_workers};

/// Entries of the due index a shard holds in memory.
const AGENDA_ENTRIES_MAX: usize = 32_768;
/// Due entries dealt with in one turn, and messages that are worth gathering for one.
pub const TURN_INPUTS_MAX: usize = 1_024;
/// Keys after which a turn takes no more inputs. What is left waits for the next turn.
const TURN_WRITES_MAX: usize = 8_192;
/// The same in bytes, also for what is due. One commit is one record of the log and one message to
/// each replica, which may be eight times as large; whatever is decided last may be as large as a
/// request.
const TURN_BYTES_MAX: usize = 32 << 20;
/// The longest a shard rests. It wakes for work; this only bounds the effect of a clock that was set.
const REST_MS_MAX: u64 = MINUTE_MS;
/// How often old history is looked for.
const PRUNE_EVERY_MS: u64 = MINUTE_MS;

/// Slots of a worker that were set aside.
pub struct Reserved {
    /// Whose.
    pub worker: Arc<str>,
    /// How many.
    pub slots: usize,
    /// How many other workers have room for the same.
    pub others: usize,
}

/// Whoever knows the workers and how much room they have.
pub trait Slots {
    /// The workers that are there, for ticks that are meant for all of them.
    fn roster(&self) -> Arc<Roster>;

    /// Reserves up to `want` slots for the first runs of a lane in a shard, if there are any.
    fn reserve(&self, shard: Shard, lane: &Lane, first: Turnstile, want: usize)
    -> Option<Reserved>;

    /// Returns slots that were reserved and not used.
    fn put_back(&self, worker: &str, lane: &Lane, slots: usize);

    /// Whether there is a worker that takes runs of a lane, when it has room.
    fn serves(&self, lane: &Lane) -> bool {
        let _ = lane;
        true
    }

    /// Notes what still waits in a shard.
    fn declare(&self, shard: Shard, heads: Vec<(Lane, Turnstile, usize)>);
}

/// A shard as its leader has it, between two turns.
#[derive(Debug)]
pub struct Leading {
    memory: Memory,
    agenda: Agenda,
    unfinished: Unfinished,
}

/// What the last turn has left for the next.
#[derive(Debug)]
struct Unfinished {
    /// Whether runs wait that could have been claimed, had the turn not been full.
    more_to_claim: bool,
    /// When old history was last looked for.
    pruned: Time,
    /// Whether there is more of it.
    more_to_prune: bool,
}

impl Unfinished {
    /// How long it is until old history is to be looked for. A clock that was set back means now.
    fn prune_in_ms(&self, now: Time) -> u64 {
        if now < self.pruned {
            return 0;
        }
        PRUNE_EVERY_MS.saturating_sub(now.since_ms(self.pruned))
    }
}

impl Leading {
    /// A shard whose memory has been loaded, and whose open runs have been looked at.
    #[must_use]
    pub fn new(mut memory: Memory, now: Time) -> Leading {
        memory.acts_since = now;
        let from = Time(memory.row.due_from_ms);
        let agenda = Agenda::new(memory.shard, from, now, AGENDA_ENTRIES_MAX);
        let unfinished = Unfinished { more_to_claim: false, pruned: now, more_to_prune: false };
        Leading { memory, agenda, unfinished }
    }

    /// What it keeps in memory.
    #[must_use]
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Entries of the due index that it has in memory.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.agenda.len()
    }

    /// What waits for workers and may be launched: lanes with their first runs, and how many.
    #[must_use]
    pub fn heads(&self) -> Vec<(Lane, Turnstile, usize)> {
        self.memory.open_heads()
    }

    /// What it may have of queues with bounds.
    pub fn shares(&mut self) -> &mut Shares {
        &mut self.memory.shares
    }

    /// What there is to say to whoever keeps the bounds of queues, once everything that was decided
    /// has been committed.
    pub fn tell(&mut self, now: Time, slots: &dyn Slots) -> Vec<Ask> {
        let Memory { shard, term, ready, shares, .. } = &mut self.memory;
        shares.tell((*shard, *term), ready, now, &|lane| slots.serves(lane))
    }

    /// How long there is nothing to do, unless somebody asks for something.
    #[must_use]
    pub fn rest_ms(&self, now: Time) -> u64 {
        let Unfinished { more_to_claim, more_to_prune, .. } = self.unfinished;
        if more_to_claim || more_to_prune || self.agenda.wants_load(now) {
            return 0;
        }
        let wake = self.agenda.next_wake().map_or(REST_MS_MAX, |wake| wake.since_ms(now));
        let prune = if self.memory.row.classes.is_empty() {
            REST_MS_MAX
        } else {
            self.unfinished.prune_in_ms(now)
        };
        let look = self.memory.shares.next_look();
        let look = look.map_or(REST_MS_MAX, |look| look.since_ms(now));
        wake.min(prune).min(look).min(REST_MS_MAX)
    }

    /// Begins a turn over the newest view. One that is stopping takes nothing more that is due.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn begin<'a>(
        &'a mut self,
        view: &'a dyn View,
        now: Time,
        slots: &dyn Slots,
        stopping: bool,
    ) -> Result<Step<'a>, StoreError> {
        let Leading { memory, agenda, unfinished } = self;
        if agenda.wants_load(now) {
            agenda.load(view, now)?;
        }
        let due = if stopping { Vec::new() } else { agenda.take_due(now, TURN_INPUTS_MAX) };
        let prune = unfinished.more_to_prune
            || (unfinished.prune_in_ms(now) == 0 && !memory.row.classes.is_empty());
        let earliest = due.first().map_or_else(|| agenda.earliest(now), |(entry, _)| entry.time);
        memory.advance_cursor(earliest);
        memory.workers = slots.roster();
        let shard = memory.shard;
        let turn = Turn::new(view, memory, now);
        Ok(Step { turn, agenda, shard, now, due, prune, unfinished })
    }

    /// Takes note of the effects of a turn that has been committed. What is returned is to be
    /// performed outside.
    #[must_use]
    pub fn committed(&mut self, effects: Vec<Effect>) -> Vec<Effect> {
        let outside = effects.into_iter().filter_map(|effect| match effect {
            Effect::Plan(entry, value) => {
                self.agenda.plan(entry, value);
                None
            }
            Effect::Unplan(entry) => {
                self.agenda.unplan(entry);
                None
            }
            other => Some(other),
        });
        outside.collect()
    }
}

/// A turn of a shard that has begun.
pub struct Step<'a> {
    turn: Turn<'a>,
    agenda: &'a mut Agenda,
    shard: Shard,
    now: Time,
    due: Vec<(DueKey, Bytes)>,
    prune: bool,
    unfinished: &'a mut Unfinished,
}

impl Step<'_> {
    /// Whether it takes more inputs.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.turn.size() < TURN_WRITES_MAX && self.turn.bytes() < TURN_BYTES_MAX
    }

    /// Decides about something that somebody asked for.
    ///
    /// # Errors
    /// A rejection changes nothing; after a store error the turn is over.
    pub fn decide(&mut self, input: Input) -> Result<Reply, Halt> {
        self.turn.decide(input)
    }

    /// Decides about something of which nobody wants to know whether it was rejected.
    ///
    /// # Errors
    /// When the store fails.
    pub fn take_note(&mut self, input: Input) -> Result<Option<Reply>, StoreError> {
        match self.turn.decide(input) {
            Ok(reply) => Ok(Some(reply)),
            Err(Halt::Rejected(_)) => Ok(None),
            Err(Halt::Store(error)) => Err(error),
        }
    }

    /// Claims the first runs of a lane for a worker whose slots have been set aside by whoever asks:
    /// as many as its queue may have.
    ///
    /// # Errors
    /// When the store fails.
    pub fn claim_for(
        &mut self,
        lane: &Lane,
        worker: &str,
        slots: usize,
        others: bool,
    ) -> Result<usize, StoreError> {
        let slots = slots.min(self.turn.room(lane));
        Ok(self.turn.claim(lane, worker, slots, others)?.claimed)
    }

    /// Says whether anybody wants notices from here on.
    pub fn set_notices(&mut self, on: bool) {
        self.turn.set_notices(on);
    }

    /// Decides about what is due and old, claims what can be claimed, and ends the turn. One that is
    /// stopping claims nothing more.
    ///
    /// # Errors
    /// When the store fails.
    pub fn finish(mut self, slots: &dyn Slots, stopping: bool) -> Result<Decided, StoreError> {
        let mut due = std::mem::take(&mut self.due).into_iter();
        while self.turn.bytes() < TURN_BYTES_MAX
            && let Some((entry, value)) = due.next()
        {
            self.take_note(Input::Due { entry, value })?;
        }
        self.agenda.put_back(due);
        if self.prune {
            self.unfinished.pruned = self.now;
            let more = self.take_note(Input::Prune)? == Some(Reply::More(true));
            self.unfinished.more_to_prune = more;
        }
        let Step { mut turn, shard, unfinished, .. } = self;
        unfinished.more_to_claim = !stopping && claim::claim(&mut turn, shard, slots)?;
        Ok(turn.finish())
    }
}
