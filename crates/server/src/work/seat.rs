//! What a worker offers, and how much of it is taken.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bellwether_core::turn::{Lane, Work};
use tokio::sync::mpsc;

use super::dispatch::Order;

/// What a worker takes at all.
#[derive(Clone, Debug, Default)]
pub struct Offer {
    /// The one namespace whose runs it may have; `None` for all.
    pub namespace: Option<String>,
    /// The queues it takes from; empty for all.
    pub queues: BTreeSet<String>,
    /// What it says about itself.
    pub labels: BTreeMap<String, String>,
    /// Whether it runs commands.
    pub commands: bool,
    /// Whether it makes requests.
    pub http: bool,
    /// The handlers it has.
    pub job_types: BTreeSet<String>,
}

impl Offer {
    /// Whether it takes runs of a lane, if it has room.
    #[must_use]
    pub fn serves(&self, lane: &Lane) -> bool {
        let can = match &lane.work {
            Work::Command => self.commands,
            Work::Http => self.http,
            Work::Handler(name) => self.job_types.contains(name),
        };
        let may = self.namespace.as_ref().is_none_or(|own| *own == lane.namespace);
        can && may
            && (self.queues.is_empty() || self.queues.contains(&lane.queue))
            && lane.requires.iter().all(|(name, value)| self.labels.get(name) == Some(value))
    }
}

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
            Room::Unlimited => None,
        }
    }

    /// How much is left of a kind of work.
    #[must_use]
    pub fn free(&mut self, work: &Work) -> usize {
        match self {
            Room::Unlimited => usize::MAX / 2,
            _ => self.counter(work).map_or(0, |free| *free),
        }
    }

    /// Takes so much, of which there must be as much.
    pub fn take(&mut self, work: &Work, count: usize) {
        if let Some(free) = self.counter(work) {
            *free = free.saturating_sub(count);
        }
    }

    /// Gives back what was taken.
    pub fn put(&mut self, work: &Work, count: usize) {
        if !matches!(self, Room::Asked(_))
            && let Some(free) = self.counter(work)
        {
            *free += count;
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
