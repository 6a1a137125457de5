//! The session: dials, talks, and dials again, until the worker leaves.

use std::sync::Arc;
use std::time::Instant;

use bellwether_protocol::v1::Report;
use tokio::sync::{mpsc, watch};
use tonic::{Code, Status};

use crate::address::Address;
use crate::backoff::Backoff;
use crate::clock::boot_ms;
use crate::conversation::{Conversation, Ended};
use crate::dial::{DialError, Dialer};
use crate::error::SessionError;
use crate::keeper::Keeper;
use crate::options::Options;
use crate::outbox::Outbox;
use crate::runner::Runner;

/// Above this many unconfirmed bytes, [`Handle::room`] waits.
pub(crate) const BACKLOG_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How a session stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Standing {
    /// Whether a server has welcomed the worker and the connection holds.
    pub(crate) connected: bool,
    /// Whether there is room for output.
    pub(crate) room: bool,
}

/// What the world outside does with a session. Clones are the same handle.
#[derive(Clone, Debug)]
pub struct Handle {
    reports: mpsc::UnboundedSender<Report>,
    leave: Arc<watch::Sender<bool>>,
    standing: watch::Receiver<Standing>,
}

impl Handle {
    /// Reports something about an attempt. It is kept until the server has stored it; reports about
    /// attempts that are not held are dropped.
    pub fn report(&self, report: Report) {
        // Fails only if the session is over, and then nobody waits for it.
        let _ = self.reports.send(report);
    }

    /// Waits until the server can be told more. Wait here before reporting output, so that a server
    /// that is away or slow does not fill this machine's memory. Never ends if the session does.
    pub async fn room(&self) {
        let mut standing = self.standing.clone();
        if standing.wait_for(|standing| standing.connected && standing.room).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Whether [`Handle::room`] would not wait.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let standing = *self.standing.borrow();
        standing.connected && standing.room
    }

    /// Whether there is a connection.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.standing.borrow().connected
    }

    /// Takes nothing more, finishes what there is, and ends the session.
    pub fn leave(&self) {
        self.leave.send_replace(true);
    }
}

/// A worker's conversation with a server, over any number of connections.
pub struct Session {
    pub(crate) options: Options,
    pub(crate) instance: String,
    pub(crate) reports: mpsc::UnboundedReceiver<Report>,
    pub(crate) outbox: Outbox,
    pub(crate) leave: Arc<watch::Sender<bool>>,
    pub(crate) standing: watch::Sender<Standing>,
    dialer: Dialer,
    /// The server that welcomed the worker last, if it is the only one.
    sole: Option<Address>,
    welcomed: bool,
    said: String,
}

impl Session {
    /// A session that has not dialled yet, and its handle.
    ///
    /// # Errors
    /// If there is no server to dial or the certificate authorities cannot be read.
    pub fn new(options: Options) -> Result<(Session, Handle), SessionError> {
        if options.servers.is_empty() {
            return Err(SessionError::Invalid("there is no server to dial".to_owned()));
        }
        let dialer = Dialer::new(&options.servers, options.ca_file.as_deref())?;
        let (sender, reports) = mpsc::unbounded_channel();
        let leave = Arc::new(watch::Sender::new(false));
        let (standing, receiver) = watch::channel(Standing::default());
        let handle = Handle { reports: sender, leave: leave.clone(), standing: receiver };
        let session = Session {
            options,
            instance: format!("{:032x}", rand::random::<u128>()),
            reports,
            outbox: Outbox::default(),
            leave,
            standing,
            dialer,
            sole: None,
            welcomed: false,
            said: String::new(),
        };
        Ok((session, handle))
    }

    /// Works until the worker has left: it was told to by [`Handle::leave`] or by the server, and
    /// everything it had is done and stored.
    ///
    /// # Errors
    /// If the server does not want this worker. Once one has welcomed it, whatever happens later
    /// may pass, and is tried again.
    pub async fn run(mut self, runner: Arc<dyn Runner>) -> Result<(), SessionError> {
        let keeper = Keeper::new(runner.clone());
        let keeping = tokio::spawn(keeper.clone().keep());
        let outcome = self.dial_on(&keeper, &runner).await;
        keeping.abort();
        outcome
    }

    async fn dial_on(
        &mut self,
        keeper: &Arc<Keeper>,
        runner: &Arc<dyn Runner>,
    ) -> Result<(), SessionError> {
        let mut backoff = Backoff::new();
        let begun = Instant::now();
        for server in self.options.servers.clone().iter().cycle() {
            if self.is_done(keeper) {
                return Ok(());
            }
            let dialed_ms = boot_ms();
            match self.dialer.dial(server).await {
                Ok(channel) => {
                    let talk = Conversation::new(self, keeper, runner, &mut backoff);
                    let (welcome, ended) = talk.hold(channel, server).await;
                    if let Some(welcome) = welcome {
                        self.welcomed = true;
                        self.sole = welcome.sole.then(|| server.clone());
                    }
                    match ended {
                        Ended::Left => return Ok(()),
                        Ended::Refused(status) => {
                            self.check(server, &status, begun)?;
                            self.say(format!("{server}: {}", status.message()));
                        }
                        Ended::Broken(why) => self.say(format!("{server}: {why}")),
                    }
                }
                Err(DialError::Refused) => {
                    if self.sole.as_ref() == Some(server) && !self.options.strict_lease {
                        keeper.refused(dialed_ms, boot_ms());
                    }
                    self.say(format!("{server} is down: nobody listens there"));
                }
                Err(DialError::Tls(reason)) if !self.welcomed => {
                    return Err(SessionError::Tls { server: server.to_string(), reason });
                }
                Err(DialError::Tls(why) | DialError::Failed(why)) => {
                    self.say(format!("{server}: {why}"));
                }
            }
            tokio::time::sleep(backoff.pause(rand::random())).await;
        }
        Ok(())
    }

    /// Whether a worker that is leaving has nothing left to tell.
    pub(crate) fn is_done(&mut self, keeper: &Keeper) -> bool {
        self.take_reports(keeper);
        let leaving = *self.leave.borrow();
        leaving && self.outbox.is_empty() && keeper.holdings(|held| held.is_empty())
    }

    /// Moves reports into the outbox: those about attempts that are held.
    pub(crate) fn take_reports(&mut self, keeper: &Keeper) {
        while let Ok(report) = self.reports.try_recv() {
            self.take_report(report, keeper);
        }
    }

    pub(crate) fn take_report(&mut self, report: Report, keeper: &Keeper) {
        let held = bellwether_protocol::v1::Held { run: report.run.clone(), token: report.token };
        let is_end = crate::outbox::is_end(&report);
        let wanted = keeper.holdings(|holdings| {
            let wanted = holdings.holds(&held);
            if is_end {
                holdings.ended(&held);
            }
            wanted
        });
        if wanted {
            self.outbox.push(report);
        }
    }

    /// Says what changed; what is said already is not repeated.
    pub(crate) fn say(&mut self, text: String) {
        if self.said != text {
            tracing::warn!("no connection: {text}; trying again");
            self.said = text;
        }
    }

    /// Says that there is a connection.
    pub(crate) fn say_connected(&mut self, server: &Address, version: &str) {
        tracing::info!(%server, server_version = version, "connected");
        self.said.clear();
    }

    /// Whether a refusal is for good.
    fn check(&self, server: &Address, status: &Status, begun: Instant) -> Result<(), SessionError> {
        if self.welcomed {
            return Ok(());
        }
        let message = match status.message() {
            // Whoever stands before the service does not know how to refuse a worker.
            told if told.is_empty() || told.starts_with("grpc-status header missing") => {
                match status.code() {
                    Code::Unauthenticated => "the token is missing or not valid",
                    Code::Unimplemented => "it does not know what workers are",
                    code => code.description(),
                }
            }
            told => told,
        };
        let message = message.to_owned();
        match status.code() {
            Code::Unauthenticated | Code::PermissionDenied => {
                Err(SessionError::NotAllowed(message))
            }
            Code::AlreadyExists if begun.elapsed() >= self.options.name_patience => {
                Err(SessionError::NameTaken(message))
            }
            Code::InvalidArgument | Code::FailedPrecondition => Err(SessionError::Invalid(message)),
            Code::Unimplemented => {
                let server = server.to_string();
                Err(SessionError::NotAServer { server, reason: message })
            }
            _ => Ok(()),
        }
    }
}
