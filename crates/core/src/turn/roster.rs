//! The workers that are there: what each of them takes.
//!
//! The shell puts a picture of them into [`super::Memory`] before a turn, so that a tick that is
//! meant for every worker can be decided like any other: from the stored state, the memory, the
//! input and the time. It says nothing about room: a worker that is busy is there all the same. One
//! that is too small for a run whatever else it does is not: the run would wait for ever.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Demand, Lane, Work};

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
    /// What each takes, and how much one run may ask for.
    workers: BTreeMap<Arc<str>, (Offer, Demand)>,
}

impl Roster {
    /// The names of those that take runs of a lane and are large enough for one.
    #[must_use]
    pub fn serving(&self, lane: &Lane) -> Vec<Arc<str>> {
        let serving = self.workers.iter().filter(|(name, (offer, most))| {
            offer.serves(name, lane) && lane.demand.fits_into(*most)
        });
        serving.map(|(name, _)| name.clone()).collect()
    }
}

/// Of each: its name, what it takes, and how much one run may ask for ([`Demand::MOST`] if it does
/// not count that).
impl FromIterator<(Arc<str>, Offer, Demand)> for Roster {
    fn from_iter<I: IntoIterator<Item = (Arc<str>, Offer, Demand)>>(workers: I) -> Roster {
        let workers = workers.into_iter().map(|(name, offer, most)| (name, (offer, most)));
        Roster { workers: workers.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Definition, Resources};

    #[test]
    fn r49_a_worker_that_is_too_small_for_a_run_is_not_meant() {
        let offer = Offer { commands: true, ..Offer::default() };
        let worker = |name: &str, cpu_milli, memory_bytes| {
            (name.into(), offer.clone(), Demand { cpu_milli, memory_bytes })
        };
        let roster: Roster = [
            worker("any", u64::MAX, u64::MAX),
            worker("enough", 2_000, 100),
            worker("little cpu", 1_999, 100),
            worker("little memory", u64::MAX, 99),
        ]
        .into_iter()
        .collect();
        let serving = |cpu_milli, memory_bytes| {
            let resources = Some(Resources { cpu_milli, memory_bytes });
            roster.serving(&Lane::of(&Definition { resources, ..Definition::default() }, "")).len()
        };
        assert_eq!(serving(Some(2_000), Some(100)), 2);
        assert_eq!(serving(Some(2_001), Some(100)), 1);
        assert_eq!(serving(Some(2_000), Some(99)), 3);
        assert_eq!(serving(None, None), 4);
    }
}
