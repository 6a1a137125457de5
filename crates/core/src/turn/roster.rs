//! The workers that are there: what each of them takes.
//!
//! The shell puts a picture of them into [`super::Memory`] before a turn, so that a tick that is
//! meant for every worker can be decided like any other: from the stored state, the memory, the
//! input and the time. It says nothing about room: a worker that is busy is there all the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Lane, Work};

/// What a worker takes at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// Whether a worker of this name and offer takes runs of a lane, if it has room.
    #[must_use]
    pub fn serves(&self, name: &str, lane: &Lane) -> bool {
        let can = match &lane.work {
            Work::Command => self.commands,
            Work::Http => self.http,
            Work::Handler(name) => self.job_types.contains(name),
        };
        let may = self.namespace.as_ref().is_none_or(|own| *own == lane.namespace);
        can && may
            && (lane.pinned.is_empty() || lane.pinned == name)
            && (self.queues.is_empty() || self.queues.contains(&lane.queue))
            && lane.requires.iter().all(|(name, value)| self.labels.get(name) == Some(value))
    }
}

/// The workers that are there, each of which may be meant by "all".
#[derive(Clone, Debug, Default)]
pub struct Roster {
    workers: BTreeMap<Arc<str>, Offer>,
}

impl Roster {
    /// The names of those that take runs of a lane.
    #[must_use]
    pub fn serving(&self, lane: &Lane) -> Vec<Arc<str>> {
        let serving = self.workers.iter().filter(|(name, offer)| offer.serves(name, lane));
        serving.map(|(name, _)| name.clone()).collect()
    }
}

impl FromIterator<(Arc<str>, Offer)> for Roster {
    fn from_iter<I: IntoIterator<Item = (Arc<str>, Offer)>>(workers: I) -> Roster {
        Roster { workers: workers.into_iter().collect() }
    }
}
