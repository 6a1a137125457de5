//! What a worker offers, and how much of it is taken.

use std::collections::BTreeMap;
use std::sync::Arc;

use bellwether_core::turn::{Demand, Lane, Offer, Work};
use tokio::sync::mpsc;

use super::budget::Budget;
use super::dispatch::Order;

/// How many attempts a worker can still take.
#[derive(Clone, Debug)]
pub enum Room {
    /// A number of its own for each kind of work.
    ByKind {
        /// Commands.
        command: usize,
        /// Requests.
        http: usize,
        /// Handlers, each with a number of its own.
        handlers: BTreeMap<String, usize>,
    },
    /// One number for all kinds.
    Shared(usize),
    /// As many as the worker has asked for this time: what has ended frees nothing.
    Asked(usize),
    /// As many as there are.
    Unlimited,
    /// What attempts may use together, as their jobs declare it.
    Resources(Budget),
}

impl Room {
    fn counter(&mut self, work: &Work) -> Option<&mut usize> {
        match self {
            Room::ByKind { command, http, handlers } => match work {
                Work::Command => Some(command),
                Work::Http => Some(http),
                Work::Handler(name) => handlers.get_mut(name),
            },
            Room::Shared(free) | Room::Asked(free) => Some(free),
            Room::Unlimited | Room::Resources(_) => None,
        }
    }

    /// How many runs of a lane it has room for.
    #[must_use]
    pub fn free(&mut self, lane: &Lane) -> usize {
        match self {
            Room::Unlimited => usize::MAX / 2,
            Room::Resources(budget) => budget.free(lane.demand, Demand::NONE),
            _ => self.counter(&lane.work).map_or(0, |free| *free),
        }
    }

    /// Takes so many runs of a lane, for which there must be room.
    pub fn take(&mut self, lane: &Lane, count: usize) {
        if let Room::Resources(budget) = self {
            budget.take(lane.demand, count);
        } else if let Some(free) = self.counter(&lane.work) {
            *free = free.saturating_sub(count);
        }
    }

    /// Gives back what was taken.
    pub fn put(&mut self, lane: &Lane, count: usize) {
        if let Room::Resources(budget) = self {
            budget.put(lane.demand, count);
        } else if !matches!(self, Room::Asked(_))
            && let Some(free) = self.counter(&lane.work)
        {
            *free += count;
        }
    }

    /// Whether it had room for a run of a lane if nothing else were there.
    #[must_use]
    pub fn could_take(&self, lane: &Lane) -> bool {
        match self {
            Room::Resources(budget) => budget.could_take(lane.demand),
            _ => true,
        }
    }
}

/// A worker's place at the table.
pub struct Seat {
    /// Its name.
    pub name: Arc<str>,
    /// What it takes.
    pub offer: Offer,
    /// How much more it can take.
    pub room: Room,
    /// Whether it gets nothing more for now: it leaves, or nobody knows where it is.
    pub closed: bool,
    /// Where its orders go.
    pub orders: mpsc::UnboundedSender<Order>,
}

impl Seat {
    /// Whether it takes runs of a lane, however large they are.
    #[must_use]
    pub fn serves(&self, lane: &Lane) -> bool {
        self.offer.serves(&self.name, lane)
    }

    /// Whether it takes runs of a lane, when it is open and has room.
    #[must_use]
    pub fn could_take(&self, lane: &Lane) -> bool {
        self.serves(lane) && self.room.could_take(lane)
    }

    /// Whether it takes runs of a lane now, if it has room.
    #[must_use]
    pub fn takes(&self, lane: &Lane) -> bool {
        !self.closed && self.could_take(lane)
    }
}
