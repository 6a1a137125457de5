//! What is known of one worker, and what it holds.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use bellwether_core::id::RunId;
use bellwether_core::time::Time;
use bellwether_core::turn::{Lane, Offer, Report, Reported};
use bellwether_protocol::v1 as wire;
use tokio_util::sync::CancellationToken;

use super::Remotes;
use super::introduction::Capacity;
use super::polling::Orders;
use super::printed::Printed;

/// An attempt that a worker was sent.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) token: u64,
    /// For the room it takes.
    pub(super) lane: Lane,
    /// Somebody wants it to be stopped.
    pub(super) stop: bool,
    /// When it was handed out, or taken up again after a restart.
    pub(super) since: Instant,
    /// What came of its output, if its worker polls.
    pub(super) printed: Printed,
}

impl Held {
    pub(super) fn new(token: u64, lane: Lane, stop: bool) -> Held {
        Held { token, lane, stop, since: Instant::now(), printed: Printed::default() }
    }
}

/// What is known of a worker.
pub(super) struct Remote {
    /// Which process it is; `None` if it is known from the store alone.
    pub(super) instance: Option<String>,
    /// Counts its sessions.
    pub(super) session: u64,
    /// Ends the session that is open.
    pub(super) open: Option<CancellationToken>,
    pub(super) heard: Instant,
    pub(super) draining: bool,
    pub(super) offer: Offer,
    pub(super) capacity: Option<Capacity>,
    pub(super) version: String,
    pub(super) since: Option<Time>,
    pub(super) held: BTreeMap<RunId, Held>,
    /// Its orders, if it asks for work request by request.
    pub(super) polls: Option<Orders>,
}

impl Remote {
    /// One that is known from the store alone.
    pub(super) fn unseen() -> Remote {
        Remote {
            instance: None,
            session: 0,
            open: None,
            heard: Instant::now(),
            draining: false,
            offer: Offer::default(),
            capacity: None,
            version: String::new(),
            since: None,
            held: BTreeMap::new(),
            polls: None,
        }
    }

    /// Whether whoever has a token for this namespace, or for all, may speak for it. Of one that is
    /// known from the store alone, that goes by what it holds.
    pub(super) fn answers_to(&self, namespace: Option<&str>) -> bool {
        namespace.is_none_or(|own| match self.instance {
            Some(_) => self.offer.namespace.as_deref() == Some(own),
            None => self.held.values().all(|held| held.lane.namespace == own),
        })
    }

    /// Whether it was sent this attempt and has not reported its end.
    pub(super) fn holds(&self, run: RunId, token: u64) -> bool {
        self.held.get(&run).is_some_and(|held| held.token == token)
    }

    /// Compares what the worker holds with what it was sent. What it was sent and does not have is
    /// given back if it is the same process, which then never got it; else nobody knows what became
    /// of it. What it has and was not sent, or not under that token, is void.
    pub(super) fn reconcile(
        &mut self,
        says: &[wire::Held],
        same_process: bool,
        remotes: &Remotes,
    ) -> Vec<wire::Held> {
        let has: BTreeSet<(RunId, u64)> =
            says.iter().filter_map(|held| Some((held.run.parse().ok()?, held.token))).collect();
        let missing: Vec<(RunId, u64)> = self
            .held
            .iter()
            .map(|(run, held)| (*run, held.token))
            .filter(|held| !has.contains(held))
            .collect();
        for (run, token) in missing {
            if let Some(held) = self.held.remove(&run) {
                remotes.dispatch.give_back("", &held.lane, 1);
            }
            let shard = remotes.shards.get(usize::from(run.job.shard()));
            let Some(shard) = shard else { continue };
            if same_process {
                shard.report(vec![Report { run, token, what: Reported::HandedBack }]);
            } else {
                let detail = "its worker was started anew and knows nothing of it".to_owned();
                shard.lost(run, token, detail);
            }
        }
        let is_held = |held: &&wire::Held| {
            held.run.parse().is_ok_and(|run: RunId| self.holds(run, held.token))
        };
        says.iter().filter(|held| !is_held(held)).cloned().collect()
    }
}
