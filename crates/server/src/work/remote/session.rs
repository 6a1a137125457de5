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
use super::registry::ended_of;
use crate::work::dispatch::Order;
use crate::work::wire::{assignment_of, report_of};

/// Attempts in one message.
const BATCH: usize = 1_000;

/// A worker that has been let in.
pub struct Session {
    pub(super) remotes: Arc<Remotes>,
    pub(super) name: String,
    /// The one namespace that it gets runs of; `None` for all.
    pub(super) namespace: Option<String>,
    pub(super) number: u64,
    /// Cancelled when the worker has dialled in again, or has been given up.
    pub(super) ended: CancellationToken,
    pub(super) orders: mpsc::UnboundedReceiver<Order>,
    /// What was taken from the orders and is about to be sent. The worker may not be reading, and
    /// the conversation may end while it does not.
    pub(super) sending: Vec<Assignment>,
    /// The order that was taken behind it.
    pub(super) behind: Option<Order>,
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
        // First, since a worker that does not read does not take the last word either.
        self.wind_up();
        if let Some(status) = last {
            let _ = out.send(Err(status)).await;
        }
    }

    /// Gives back what was not sent, and keeps what is to be stopped.
    fn wind_up(&mut self) {
        self.orders.close();
        self.remotes.hand_back(&std::mem::take(&mut self.sending));
        while let Some(order) = self.behind.take().or_else(|| self.orders.try_recv().ok()) {
            match order {
                Order::Run(assignments, _) => self.remotes.hand_back(&assignments),
                Order::Stop(run, token) => self.note_stop(run, token),
                Order::Drain | Order::Flush(_) => {}
            }
        }
        self.remotes.gone(&self.name, self.number);
    }

    fn note_stop(&self, run: RunId, token: u64) {
        self.remotes.stop_by(self.number, &self.name, run, token);
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
            sole: self.remotes.is_sole(),
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
                // A leader that does not know that the worker is here gives it up.
                if !self.remotes.is_in_touch(&self.name) {
                    return Some(());
                }
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
        let reports = self.remotes.its_own(&self.name, self.namespace.as_deref(), reports);
        let ended = ended_of(&reports);
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
        // Only now: whoever asks what the worker holds must not find that it has nothing before its
        // shard has been told why.
        self.remotes.take_up(&self.name, &ended);
        tokio::spawn(async move {
            // A shard that has stopped says nothing, and then nothing is acknowledged.
            if join_all(stored).await.iter().all(Result::is_ok) {
                tell(&out, Told::ReportsStored(wire::ReportsStored { number })).await;
            }
        });
    }

    /// What the worker is told, with all that waits behind it. May be cancelled: whatever has been
    /// taken from the orders and not been passed on is where [`Session::wind_up`] finds it.
    async fn pass_on(&mut self, order: Order, out: &Out) -> Option<()> {
        self.behind = Some(order);
        while let Some(order) = self.behind.take() {
            match order {
                Order::Run(assignments, _) => {
                    self.sending = assignments;
                    while self.sending.len() < BATCH {
                        match self.orders.try_recv() {
                            Ok(Order::Run(more, _)) => self.sending.extend(more),
                            Ok(other) => {
                                self.behind = Some(other);
                                break;
                            }
                            Err(_) => break,
                        }
                    }
                    self.send(out).await?;
                }
                Order::Stop(run, token) => {
                    self.note_stop(run, token);
                    tell(out, stops_of(&[(run, token)])).await?;
                }
                Order::Drain => tell(out, Told::Drain(wire::Drain {})).await?,
                Order::Flush(answer) => {
                    let _ = answer.send(());
                }
            }
        }
        Some(())
    }

    /// Once it is on its way it counts as held: whether it arrived, nobody knows.
    async fn send(&mut self, out: &Out) -> Option<()> {
        let permit = out.reserve().await.ok()?;
        let assignments = std::mem::take(&mut self.sending);
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

#[cfg(test)]
mod tests {
    use bellwether_core::id::JobId;
    use bellwether_core::record::Definition;
    use bellwether_core::time::Time;
    use bellwether_core::turn::{Lane, Reported, Turnstile};
    use futures::FutureExt;

    use super::*;
    use crate::work::Dispatch;
    use crate::work::remote::LeaseSettings;

    fn run(n: u32) -> RunId {
        RunId { job: JobId(1), n }
    }

    fn lane() -> Lane {
        Lane::of(&Definition::default(), "")
    }

    fn assignment(n: u32) -> Assignment {
        Assignment {
            run: run(n),
            attempt: 1,
            token: u64::from(n),
            worker: "w".to_owned(),
            scheduled: Time(1),
            due: Time(1),
            pinned: String::new(),
            definition: Definition::default(),
        }
    }

    fn remotes() -> Arc<Remotes> {
        let hour = std::time::Duration::from_secs(3_600);
        let settings = LeaseSettings { heartbeat: hour, lease: hour };
        Remotes::new(Arc::default(), Vec::new(), settings, String::new())
    }

    /// A worker with two slots, which says that it holds so much.
    fn dial(remotes: &Arc<Remotes>, held: &[u32]) -> Session {
        let slots = wire::capacity::Mode::Slots(2);
        let held = held.iter().map(|n| wire::Held { run: run(*n).to_string(), token: (*n).into() });
        let hello = wire::Hello {
            name: "w".to_owned(),
            instance: "w-1".to_owned(),
            commands: true,
            capacity: Some(wire::Capacity { mode: Some(slots) }),
            held: held.collect(),
            ..Default::default()
        };
        remotes.hello(hello, None).ok().unwrap()
    }

    fn granted(dispatch: &Dispatch) -> usize {
        let first = Turnstile { rank: 0, scheduled: Time(1), run: run(1) };
        dispatch.reserve(0, &lane(), first, 10).map_or(0, |reserved| reserved.slots)
    }

    /// The way to a worker that does not read.
    fn clogged() -> (Out, mpsc::Receiver<Result<wire::ToWorker, Status>>) {
        let (out, told) = mpsc::channel(1);
        out.try_send(Ok(message(Told::Drain(wire::Drain {})))).unwrap();
        (out, told)
    }

    #[tokio::test]
    async fn what_was_about_to_be_sent_when_a_session_ends_is_given_back() {
        let remotes = remotes();
        let mut session = dial(&remotes, &[]);
        assert_eq!(granted(&remotes.dispatch), 2);
        let (out, _told) = clogged();
        remotes.dispatch.hand_over(vec![assignment(2)], 0);
        let passing = session.pass_on(Order::Run(vec![assignment(1)], 0), &out).now_or_never();
        assert_eq!(passing, None, "it waits for the worker");
        let _newer = dial(&remotes, &[]);
        assert_eq!(granted(&remotes.dispatch), 0, "nobody knows yet that they did not get there");
        session.wind_up();
        assert_eq!(granted(&remotes.dispatch), 2);
    }

    #[tokio::test]
    async fn a_stop_that_a_session_could_not_tell_is_told_by_the_next() {
        let remotes = remotes();
        let mut session = dial(&remotes, &[]);
        let (out, _told) = clogged();
        remotes.sent("w", [(run(1), 1, lane()), (run(2), 2, lane())].into_iter());
        // Behind what is being sent, and behind that.
        for n in [1, 2] {
            assert!(remotes.dispatch.stop("w", run(n), u64::from(n)));
        }
        let passing = session.pass_on(Order::Run(vec![assignment(3)], 0), &out).now_or_never();
        assert_eq!(passing, None);
        assert_eq!(remotes.to_stop("w"), []);
        let mut newer = dial(&remotes, &[1, 2]);
        assert_eq!(newer.stops, []);
        session.wind_up();
        for n in [1, 2] {
            let order = newer.orders.try_recv();
            assert!(matches!(order, Ok(Order::Stop(of, _)) if of == run(n)));
        }
        newer.wind_up();
        assert_eq!(dial(&remotes, &[1, 2]).stops, [(run(1), 1), (run(2), 2)]);
    }

    #[tokio::test]
    async fn r42_a_worker_of_one_namespace_that_nobody_knows_says_nothing_that_counts() {
        let remotes = remotes();
        let says = || vec![Report { run: run(1), token: 1, what: Reported::HandedBack }];
        assert_eq!(remotes.its_own("w", Some("team"), says()).len(), 0);
        assert_eq!(remotes.its_own("w", None, says()).len(), 1, "its token is looked at instead");
    }
}
