//! Workers that ask for work, request by request, instead of keeping a stream.
//!
//! Between two requests such a worker has no room, so nothing is promised to it. What was on its
//! way when a request ended waits for the next; if none comes before the lease ends it is given
//! back, since it was never handed out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bellwether_core::id::RunId;
use bellwether_core::record::OutputChunk;
use bellwether_core::turn::{Assignment, Offer, Report, Reported};
use bellwether_core::waist::Shard;
use futures::future::join_all;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Remotes;
use super::printed::Admitted;
use super::registry::{NotLetIn, ended_of};
use crate::work::dispatch::Order;
use crate::work::seat::Room;

/// What a worker asks for.
#[derive(Clone, Debug)]
pub struct Polling {
    /// Its name.
    pub worker: String,
    /// The one namespace that it gets runs of; `None` for all.
    pub namespace: Option<String>,
    /// The queue.
    pub queue: String,
    /// Whether it runs commands.
    pub commands: bool,
    /// The handlers it has.
    pub job_types: BTreeSet<String>,
    /// What it says about itself.
    pub labels: BTreeMap<String, String>,
    /// How many runs at most.
    pub max: usize,
    /// How long it waits.
    pub wait: Duration,
}

/// Something that an attempt has printed.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The run.
    pub run: RunId,
    /// The attempt's token.
    pub token: u64,
    /// Which piece it is.
    pub sequence: u32,
    /// What.
    pub text: String,
}

/// The orders of a worker that polls; one request at a time has them.
pub(super) type Orders = Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<Order>>>;

impl Remotes {
    /// Waits for work and hands it out.
    ///
    /// # Errors
    /// When the worker's name is taken, or what it says makes no sense.
    pub async fn poll(&self, polling: Polling) -> Result<Vec<Assignment>, NotLetIn> {
        let worker = polling.worker.clone();
        let until = Instant::now() + polling.wait;
        let offer = Offer {
            namespace: polling.namespace,
            queues: BTreeSet::from([polling.queue]),
            labels: polling.labels,
            commands: polling.commands,
            http: false,
            job_types: polling.job_types,
        };
        let orders = self.polled(&worker, &offer)?;
        let Ok(mut orders) = tokio::time::timeout_at(until, orders.lock()).await else {
            return Ok(Vec::new());
        };
        // What was on its way when the last request ended comes first.
        let mut found = Vec::new();
        self.drain_into(&worker, &mut orders, &mut found);
        if found.len() < polling.max {
            let _open = Open { remotes: self, worker: &worker };
            // A seat that is closed gets nothing, whatever its room.
            let room = Room::Asked(polling.max - found.len());
            self.dispatch.set_seat(&worker, offer, room);
            self.wait_for(&worker, &mut orders, &mut found, until).await;
        }
        self.heard_by_name(&worker);
        Ok(found)
    }

    /// Waits for the first work there is, and takes all that is there with it.
    async fn wait_for(
        &self,
        worker: &str,
        orders: &mut mpsc::UnboundedReceiver<Order>,
        found: &mut Vec<Assignment>,
        until: Instant,
    ) {
        // A worker that is to stop something more, or to leave, is told at once.
        let news = |remotes: &Remotes| (remotes.is_draining(worker), remotes.to_stop(worker));
        let known = news(self);
        while found.is_empty() && news(self) == known {
            // A worker that waits is there.
            self.heard_by_name(worker);
            let slice = (Instant::now() + self.settings.heartbeat).min(until);
            tokio::select! {
                () = self.stop.cancelled() => return,
                order = tokio::time::timeout_at(slice, orders.recv()) => match order {
                    Ok(Some(order)) => self.take_order(worker, order, found),
                    Ok(None) => return,
                    Err(_) if slice == until => return,
                    Err(_) => {}
                },
            }
        }
        self.drain_into(worker, orders, found);
    }

    fn drain_into(
        &self,
        worker: &str,
        orders: &mut mpsc::UnboundedReceiver<Order>,
        found: &mut Vec<Assignment>,
    ) {
        while let Ok(order) = orders.try_recv() {
            self.take_order(worker, order, found);
        }
    }

    fn take_order(&self, worker: &str, order: Order, found: &mut Vec<Assignment>) {
        match order {
            Order::Run(assignments, _) => {
                // From here on it counts as held, so that a stop right behind it finds it.
                let held = assignments.iter();
                let held = held.map(|a| (a.run, a.token, a.lane()));
                self.sent(worker, held);
                found.extend(assignments);
            }
            Order::Stop(run, token) => self.stop_later(worker, run, token),
            Order::Drain => {}
            Order::Flush(answer) => {
                let _ = answer.send(());
            }
        }
    }

    /// A worker that polls is still there: of what it is at, which it has lost, and which it is to
    /// stop.
    ///
    /// # Errors
    /// When there is no worker of this name, and so nothing that it could hold.
    pub fn beat(&self, worker: &str, at: &[(RunId, u64)]) -> Option<(Vec<RunId>, Vec<RunId>)> {
        self.collect_stops(worker);
        if !self.heard_by_name(worker) {
            return None;
        }
        self.lose_unnamed(worker, at);
        Some(self.lost_and_stopped(worker, at))
    }

    /// Stores what the attempts of a worker have printed, as far as it holds them. Of which no more
    /// is taken; the answer comes once the rest is durable.
    ///
    /// # Errors
    /// The first piece that has one missing before it; `None` if the server stops.
    pub async fn print(
        &self,
        worker: &str,
        pieces: Vec<Piece>,
    ) -> Result<Vec<RunId>, Option<Piece>> {
        let mut full = Vec::new();
        let mut by_shard: BTreeMap<Shard, Vec<Report>> = BTreeMap::new();
        let mut gap = None;
        for piece in pieces {
            let Piece { run, token, sequence, .. } = piece;
            match self.admit(worker, run, token, (sequence, piece.text.len())) {
                None | Some(Admitted::Known) => {}
                Some(Admitted::Full) => full.push(run),
                Some(Admitted::Gap) => gap = gap.or(Some(piece)),
                Some(Admitted::Yes) => {
                    let data = piece.text.into();
                    let chunks = vec![OutputChunk { stream: 1, data, dropped_before: 0 }];
                    let what = Reported::Output { sequence, chunks };
                    let report = Report { run, token, what };
                    by_shard.entry(run.job.shard()).or_default().push(report);
                }
            }
        }
        let stored = by_shard.into_iter().filter_map(|(shard, reports)| {
            Some(self.shards.get(usize::from(shard))?.report_durably(reports))
        });
        let stored = join_all(stored).await.iter().all(Result::is_ok);
        match gap {
            Some(piece) => Err(Some(piece)),
            None if !stored => Err(None),
            None => Ok(full),
        }
    }

    /// Stops that wait among the orders of a worker that polls.
    fn collect_stops(&self, worker: &str) {
        let Some(orders) = self.orders_of(worker) else { return };
        let Ok(mut orders) = orders.try_lock() else { return };
        let mut later = Vec::new();
        self.drain_into(worker, &mut orders, &mut later);
        // Nobody asked for work: it was never handed out, so it is given back.
        self.forget(worker, &later);
        self.hand_back(&later);
    }

    /// Frees what reports end; they still have to be decided.
    pub fn reported(&self, worker: &str, reports: &[Report]) {
        self.heard_by_name(worker);
        self.take_up(worker, &ended_of(reports));
    }
}

/// While this is there, the worker has room.
struct Open<'a> {
    remotes: &'a Remotes,
    worker: &'a str,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.remotes.dispatch.set_room(self.worker, Room::Asked(0));
    }
}
