//! One conversation with a worker.

use std::collections::BTreeMap;
use std::sync::Arc;

use bellwether_core::id::RunId;
use bellwether_core::turn::{Assignment, Report};
use bellwether_core::waist::Shard;
use bellwether_protocol::v1 as wire;
use bellwether_protocol::v1::from_worker::Message as Said;
use bellwether_protocol::v1::to_worker::Message as Told;
use futures::future::join_all;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::Remotes;
use crate::work::dispatch::Order;
use crate::work::wire::{assignment_of, report_of};

/// Attempts in one message.
const BATCH: usize = 1_000;

/// A worker that has been let in.
pub struct Session {
    pub(super) remotes: Arc<Remotes>,
    pub(super) name: String,
    pub(super) number: u64,
    /// Cancelled when the worker has dialled in again, or has been given up.
    pub(super) ended: CancellationToken,
    pub(super) orders: mpsc::UnboundedReceiver<Order>,
    /// What it holds and is to stop.
    pub(super) stops: Vec<(RunId, u64)>,
    /// What it believes to hold and does not.
    pub(super) void: Vec<wire::Held>,
}

/// Where messages to the worker go.
type Out = mpsc::Sender<Result<wire::ToWorker, Status>>;

impl Session {
    /// Talks until either side ends it. What was promised and not sent is given back.
    pub async fn run(mut self, mut said: tonic::Streaming<wire::FromWorker>, out: Out) {
        let stop = self.remotes.stop.clone();
        let ended = self.ended.clone();
        let last = tokio::select! {
            biased;
            () = stop.cancelled() => Some(Status::unavailable("stopping")),
            () = ended.cancelled() => Some(Status::aborted(
                "the worker has dialled in again, or was not heard for too long",
            )),
            status = self.talk(&mut said, &out) => status,
        };
        if let Some(status) = last {
            let _ = out.send(Err(status)).await;
        }
        self.orders.close();
        while let Ok(order) = self.orders.try_recv() {
            if let Order::Run(assignments) = order {
                self.remotes.hand_back(&assignments);
            }
        }
        self.remotes.gone(&self.name, self.number);
    }

    async fn talk(
        &mut self,
        said: &mut tonic::Streaming<wire::FromWorker>,
        out: &Out,
    ) -> Option<Status> {
        let settings = self.remotes.settings;
        let welcome = wire::Welcome {
            heartbeat_ms: settings.heartbeat.as_millis() as u64,
            lease_ms: settings.lease.as_millis() as u64,
            server_version: env!("CARGO_PKG_VERSION").to_owned(),
            store: self.remotes.store.clone(),
            sole: true,
            void: std::mem::take(&mut self.void),
        };
        tell(out, Told::Welcome(welcome)).await?;
        let stops = std::mem::take(&mut self.stops);
        if !stops.is_empty() {
            tell(out, stops_of(&stops)).await?;
        }
        loop {
            tokio::select! {
                message = said.message() => match message {
                    Ok(Some(message)) => self.take_up(message, out).await?,
                    Ok(None) => return None,
                    Err(status) => {
                        tracing::debug!(worker = self.name, %status, "a worker's stream broke");
                        return None;
                    }
                },
                order = self.orders.recv() => self.pass_on(order?, out).await?,
            }
        }
    }

    /// What the worker says.
    async fn take_up(&self, message: wire::FromWorker, out: &Out) -> Option<()> {
        if !self.remotes.heard(&self.name, self.number) {
            return None;
        }
        match message.message? {
            Said::Hello(_) => None,
            Said::Heartbeat(heartbeat) => {
                let heard = wire::HeartbeatHeard { number: heartbeat.number };
                tell(out, Told::HeartbeatHeard(heard)).await
            }
            Said::Reports(reports) => {
                self.store(reports, out.clone());
                Some(())
            }
            Said::Leaving(_) => {
                self.remotes.drain(&self.name);
                Some(())
            }
        }
    }

    /// Passes reports on, and says so to the worker once they are durable. Reports are handed to
    /// their shards here and now, so they are stored in the order in which they came.
    fn store(&self, reports: wire::Reports, out: Out) {
        let number = reports.number;
        let reports: Vec<Report> = reports.reports.into_iter().filter_map(report_of).collect();
        let reports = self.remotes.its_own(&self.name, reports);
        self.remotes.take_up(&self.name, &reports);
        let mut by_shard: BTreeMap<Shard, Vec<Report>> = BTreeMap::new();
        for report in reports {
            by_shard.entry(report.run.job.shard()).or_default().push(report);
        }
        let shards = &self.remotes.shards;
        let stored: Vec<_> = by_shard
            .into_iter()
            .filter_map(|(shard, reports)| {
                Some(shards.get(usize::from(shard))?.report_durably(reports))
            })
            .collect();
        tokio::spawn(async move {
            // A shard that has stopped says nothing, and then nothing is acknowledged.
            if join_all(stored).await.iter().all(Result::is_ok) {
                tell(&out, Told::ReportsStored(wire::ReportsStored { number })).await;
            }
        });
    }

    /// What the worker is told, with all that waits behind it.
    async fn pass_on(&mut self, order: Order, out: &Out) -> Option<()> {
        let mut next = Some(order);
        while let Some(order) = next.take() {
            match order {
                Order::Run(mut assignments) => {
                    while assignments.len() < BATCH {
                        match self.orders.try_recv() {
                            Ok(Order::Run(more)) => assignments.extend(more),
                            Ok(other) => {
                                next = Some(other);
                                break;
                            }
                            Err(_) => break,
                        }
                    }
                    self.send(&assignments, out).await?;
                }
                Order::Stop(run, token) => tell(out, stops_of(&[(run, token)])).await?,
                Order::Drain => tell(out, Told::Drain(wire::Drain {})).await?,
                Order::Flush(answer) => {
                    let _ = answer.send(());
                }
            }
        }
        Some(())
    }

    /// Once it is on its way it counts as held: whether it arrived, nobody knows.
    async fn send(&self, assignments: &[Assignment], out: &Out) -> Option<()> {
        let Ok(permit) = out.reserve().await else {
            self.remotes.hand_back(assignments);
            return None;
        };
        let held = assignments.iter().map(|a| (a.run, a.token, a.lane()));
        self.remotes.sent(&self.name, held);
        let assignments = assignments.iter().map(assignment_of).collect();
        permit.send(Ok(message(Told::Assignments(wire::Assignments { assignments }))));
        Some(())
    }
}

fn stops_of(stops: &[(RunId, u64)]) -> Told {
    let stop = |(run, token): &(RunId, u64)| wire::Stop {
        run: run.to_string(),
        token: *token,
        reason: wire::StopReason::Canceled.into(),
    };
    Told::Stops(wire::Stops { stops: stops.iter().map(stop).collect() })
}

fn message(told: Told) -> wire::ToWorker {
    wire::ToWorker { message: Some(told) }
}

async fn tell(out: &Out, told: Told) -> Option<()> {
    out.send(Ok(message(told))).await.ok()
}
