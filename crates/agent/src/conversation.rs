//! One connection: hello, welcome, and what is said until it breaks or the worker has left.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bellwether_protocol::v1::workers_client::WorkersClient;
use bellwether_protocol::v1::{
    Assignment, FromWorker, HandedBack, Heartbeat, Held, Hello, Leaving, Report, Stop, StopReason,
    ToWorker, Welcome, assignment, from_worker, report, to_worker,
};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Request, Status, Streaming};

use crate::address::Address;
use crate::backoff::Backoff;
use crate::clock::boot_ms;
use crate::held::Verdict;
use crate::keeper::Keeper;
use crate::runner::{Runner, StopWhy};
use crate::session::{BACKLOG_BYTES_MAX, Session, Standing};

/// How long a server may take to answer a hello.
const WELCOME_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a server may take to end the stream of a worker that has left.
const GOODBYE_TIME_MAX: Duration = Duration::from_secs(2);
/// Messages that may wait to be sent; what comes meanwhile is gathered into fewer.
const SENDING_MAX: usize = 4;
/// Heartbeats whose answers are waited for.
const HEARTBEATS_MAX: usize = 64;
/// Messages of a server may be this long: hundreds of attempts.
const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How a conversation ended.
pub(crate) enum Ended {
    /// The worker has left, with nothing untold.
    Left,
    /// The server did not welcome it.
    Refused(Status),
    /// The connection broke, or the server ended it.
    Broken(String),
}

/// A conversation over one connection.
pub(crate) struct Conversation<'a> {
    session: &'a mut Session,
    keeper: &'a Arc<Keeper>,
    runner: &'a Arc<dyn Runner>,
    backoff: &'a mut Backoff,
    /// Numbers of heartbeats with when they were sent.
    heartbeats: VecDeque<(u64, u64)>,
    last_beat: u64,
    answered_ms: u64,
}

impl<'a> Conversation<'a> {
    pub(crate) fn new(
        session: &'a mut Session,
        keeper: &'a Arc<Keeper>,
        runner: &'a Arc<dyn Runner>,
        backoff: &'a mut Backoff,
    ) -> Conversation<'a> {
        let heartbeats = VecDeque::new();
        Conversation { session, keeper, runner, backoff, heartbeats, last_beat: 0, answered_ms: 0 }
    }

    /// Holds it to its end.
    pub(crate) async fn hold(
        mut self,
        channel: Channel,
        server: &Address,
    ) -> (Option<Welcome>, Ended) {
        let (sender, receiver) = mpsc::channel(SENDING_MAX);
        // What ended before this hello is in the outbox or held: nothing falls in between.
        self.session.take_reports(self.keeper);
        self.session.outbox.rewind();
        let held = self.keeper.holdings(|holdings| holdings.all());
        let hello = self.session.options.identity.hello(&self.session.instance, held);
        let sent_ms = boot_ms();
        let opened = timeout(WELCOME_TIME_MAX, self.greet(channel, hello, &sender, receiver)).await;
        let (welcome, inbound) = match opened {
            Ok(Ok(opened)) => opened,
            Ok(Err(status)) => return (None, Ended::Refused(status)),
            Err(_) => return (None, Ended::Broken("it does not answer".to_owned())),
        };
        self.welcomed(&welcome, sent_ms);
        self.session.say_connected(server, &welcome.server_version);
        let ended = self.talk(&welcome, sender, inbound).await;
        self.session.standing.send_replace(Standing::default());
        (Some(welcome), ended)
    }

    async fn greet(
        &self,
        channel: Channel,
        hello: Hello,
        sender: &mpsc::Sender<FromWorker>,
        receiver: mpsc::Receiver<FromWorker>,
    ) -> Result<(Welcome, Streaming<ToWorker>), Status> {
        let gone = || Status::unavailable("it ended the connection without a word");
        sender.send(said(from_worker::Message::Hello(hello))).await.map_err(|_| gone())?;
        let mut request = Request::new(ReceiverStream::new(receiver));
        if let Some(token) = &self.session.options.token {
            let value = MetadataValue::try_from(format!("Bearer {token}")).map_err(|_| {
                Status::unauthenticated("the token contains characters that a header cannot")
            })?;
            request.metadata_mut().insert("authorization", value);
        }
        let mut client = WorkersClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let mut inbound = client.work(request).await?.into_inner();
        match inbound.message().await?.and_then(|first| first.message) {
            Some(to_worker::Message::Welcome(welcome)) => Ok((welcome, inbound)),
            Some(_) => Err(Status::unimplemented("it does not welcome this worker")),
            None => Err(gone()),
        }
    }

    fn welcomed(&mut self, welcome: &Welcome, sent_ms: u64) {
        self.answered_ms = sent_ms;
        self.backoff.reset(welcome.lease_ms);
        self.runner.welcomed(welcome);
        for void in &welcome.void {
            self.keeper.holdings(|holdings| holdings.forget(void));
            self.session.outbox.forget(void);
            tracing::warn!(run = void.run, "stopped: the server knows nothing of this attempt");
            self.runner.stop(void, StopWhy::Void);
        }
        self.keeper.granted(sent_ms, welcome.lease_ms);
    }

    async fn talk(
        &mut self,
        welcome: &Welcome,
        sender: mpsc::Sender<FromWorker>,
        mut inbound: Streaming<ToWorker>,
    ) -> Ended {
        let mut heartbeat =
            tokio::time::interval(Duration::from_millis(welcome.heartbeat_ms.max(10)));
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        heartbeat.reset();
        let mut leave = self.session.leave.subscribe();
        let mut beat_due = false;
        let mut left = false;
        loop {
            self.tell_standing();
            if *leave.borrow_and_update() && !left {
                left = true;
                if sender.send(said(from_worker::Message::Leaving(Leaving {}))).await.is_err() {
                    return broken();
                }
            }
            if self.session.is_done(self.keeper) {
                return self.goodbye(sender, inbound).await;
            }
            tokio::select! {
                _ = heartbeat.tick() => {
                    if let Some(silent) = self.silence(welcome) {
                        return Ended::Broken(silent);
                    }
                    beat_due = true;
                }
                message = inbound.message() => match message {
                    Ok(Some(message)) => self.hear(message),
                    Ok(None) => return Ended::Broken("the server ended the connection".to_owned()),
                    Err(status) => return Ended::Broken(words(&status)),
                },
                permit = sender.reserve(), if beat_due || self.session.outbox.has_waiting() => {
                    let Ok(permit) = permit else { return broken() };
                    if std::mem::take(&mut beat_due) {
                        permit.send(self.heartbeat());
                    } else if let Some(reports) = self.session.outbox.next() {
                        permit.send(said(from_worker::Message::Reports(reports)));
                    }
                }
                report = self.session.reports.recv() => {
                    if let Some(report) = report {
                        self.session.take_report(report, self.keeper);
                        self.session.take_reports(self.keeper);
                    }
                }
                _ = leave.changed(), if !left => {}
            }
        }
    }

    /// The next heartbeat, sent now.
    fn heartbeat(&mut self) -> FromWorker {
        self.last_beat += 1;
        let number = self.last_beat;
        self.heartbeats.push_back((number, boot_ms()));
        if self.heartbeats.len() > HEARTBEATS_MAX {
            self.heartbeats.pop_front();
        }
        said(from_worker::Message::Heartbeat(Heartbeat { number }))
    }

    /// Says so if the server has answered nothing for too long.
    fn silence(&self, welcome: &Welcome) -> Option<String> {
        let silent_ms = boot_ms().saturating_sub(self.answered_ms);
        let most_ms = (welcome.lease_ms / 2).max(welcome.heartbeat_ms.saturating_mul(2));
        (silent_ms > most_ms).then(|| format!("no answer for {silent_ms} ms"))
    }

    fn tell_standing(&self) {
        let room = self.session.outbox.bytes() < BACKLOG_BYTES_MAX;
        let now = Standing { connected: true, room };
        self.session.standing.send_if_modified(|standing| {
            let changed = *standing != now;
            *standing = now;
            changed
        });
    }

    fn hear(&mut self, message: ToWorker) {
        match message.message {
            Some(to_worker::Message::HeartbeatHeard(heard)) => self.heard(heard.number),
            Some(to_worker::Message::ReportsStored(stored)) => {
                for held in self.session.outbox.stored(stored.number) {
                    self.keeper.holdings(|holdings| holdings.forget(&held));
                    self.runner.stored(&held);
                }
            }
            Some(to_worker::Message::Assignments(assignments)) => {
                for assignment in assignments.assignments {
                    self.assign(assignment);
                }
            }
            Some(to_worker::Message::Stops(stops)) => {
                for stop in stops.stops {
                    self.stop(stop);
                }
            }
            Some(to_worker::Message::Drain(_)) => {
                if !self.session.leave.send_replace(true) {
                    tracing::info!("the server asks this worker to finish and end");
                }
            }
            // A second welcome means nothing, and what is newer than this worker is not for it.
            Some(to_worker::Message::Welcome(_)) | None => {}
        }
    }

    fn heard(&mut self, number: u64) {
        while let Some((earlier, sent_ms)) = self.heartbeats.pop_front() {
            if earlier == number {
                self.answered_ms = sent_ms;
                self.keeper.renewed(sent_ms);
                return;
            }
            if earlier > number {
                self.heartbeats.push_front((earlier, sent_ms));
                return;
            }
        }
    }

    fn assign(&mut self, assignment: Assignment) {
        let held = Held { run: assignment.run.clone(), token: assignment.token };
        let identity = &self.session.options.identity;
        let able = match &assignment.target {
            Some(assignment::Target::Command(_)) => identity.commands,
            Some(assignment::Target::Http(_) | assignment::Target::Publish(_)) => identity.http,
            Some(assignment::Target::Handler(handler)) => {
                identity.job_types.contains(&handler.job_type)
            }
            None => false,
        };
        let leaving = *self.session.leave.borrow();
        let verdict = self.keeper.holdings(|holdings| {
            if able && !leaving {
                return holdings.take(held.clone(), &identity.capacity);
            }
            holdings.refuse(held.clone());
            Verdict::Refuse
        });
        match verdict {
            Verdict::Start => self.runner.start(assignment),
            Verdict::Known => {}
            Verdict::Refuse => {
                let what = Some(report::What::HandedBack(HandedBack {}));
                self.session.outbox.push(Report { run: held.run, token: held.token, what });
            }
        }
    }

    fn stop(&self, stop: Stop) {
        let why = match stop.reason() {
            StopReason::LeaseLost => StopWhy::LeaseLost { within: Duration::ZERO },
            StopReason::Canceled | StopReason::Unspecified => StopWhy::Canceled,
        };
        self.runner.stop(&Held { run: stop.run, token: stop.token }, why);
    }

    /// Ends the stream and lets the server end its side.
    async fn goodbye(
        &self,
        sender: mpsc::Sender<FromWorker>,
        mut inbound: Streaming<ToWorker>,
    ) -> Ended {
        drop(sender);
        let rest = async { while let Ok(Some(_)) = inbound.message().await {} };
        let _ = timeout(GOODBYE_TIME_MAX, rest).await;
        Ended::Left
    }
}

fn said(message: from_worker::Message) -> FromWorker {
    FromWorker { message: Some(message) }
}

fn broken() -> Ended {
    Ended::Broken("the connection broke".to_owned())
}

/// What a status says, for people.
fn words(status: &Status) -> String {
    match status.message() {
        "" => status.code().description().to_owned(),
        message => message.to_owned(),
    }
}
