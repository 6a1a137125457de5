//! A server that does what a test says, and a runner that remembers what it was told.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bellwether_agent::protocol::workers_server::{Workers, WorkersServer};
use bellwether_agent::protocol::{
    Assignment, Assignments, Command, FromWorker, HeartbeatHeard, Held, Hello, Reports,
    ReportsStored, ToWorker, Welcome, assignment, capacity, from_worker, to_worker,
};
use bellwether_agent::{Address, Handle, Identity, Lease, Options, Runner, Session, StopWhy};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming};

/// How long anything may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(30);

/// The next of what is waited for.
pub async fn next<T>(from: &mut UnboundedReceiver<T>) -> T {
    tokio::time::timeout(PATIENCE, from.recv()).await.expect("in time").expect("something")
}

/// A worker that dialled in.
pub struct Visit {
    pub hello: Hello,
    pub reports: UnboundedReceiver<Reports>,
    pub left: UnboundedReceiver<()>,
    pub say: mpsc::Sender<Result<ToWorker, Status>>,
}

impl Visit {
    pub async fn say(&self, message: to_worker::Message) {
        self.say.send(Ok(ToWorker { message: Some(message) })).await.unwrap();
    }

    pub async fn assign(&self, run: &str, token: u64) {
        let target = Some(assignment::Target::Command(Command::default()));
        let assignment = Assignment { run: run.to_owned(), token, target, ..Default::default() };
        let assignments = vec![assignment];
        self.say(to_worker::Message::Assignments(Assignments { assignments })).await;
    }

    pub async fn stored(&self, number: u64) {
        self.say(to_worker::Message::ReportsStored(ReportsStored { number })).await;
    }
}

/// How a fake server behaves.
#[derive(Clone)]
pub struct Manners {
    pub welcome: Welcome,
    /// Whether heartbeats are answered.
    pub answers: bool,
    /// What is said instead of a welcome.
    pub refusal: Option<Status>,
}

/// A welcome with short times.
pub fn manners(lease_ms: u64) -> Manners {
    let welcome = Welcome { heartbeat_ms: 100, lease_ms, sole: true, ..Default::default() };
    Manners { welcome, answers: true, refusal: None }
}

struct Service {
    manners: Manners,
    visits: UnboundedSender<Visit>,
}

#[tonic::async_trait]
impl Workers for Service {
    type WorkStream = ReceiverStream<Result<ToWorker, Status>>;

    async fn work(
        &self,
        request: Request<Streaming<FromWorker>>,
    ) -> Result<Response<Self::WorkStream>, Status> {
        if let Some(refusal) = &self.manners.refusal {
            return Err(refusal.clone());
        }
        let mut inbound = request.into_inner();
        let first = inbound.next().await.unwrap()?.message;
        let Some(from_worker::Message::Hello(hello)) = first else { panic!("no hello") };
        let (say, receiver) = mpsc::channel(64);
        let (report, reports) = mpsc::unbounded_channel();
        let (leave, left) = mpsc::unbounded_channel();
        let visit = Visit { hello, reports, left, say: say.clone() };
        visit.say(to_worker::Message::Welcome(self.manners.welcome.clone())).await;
        let _ = self.visits.send(visit);
        let answers = self.manners.answers;
        tokio::spawn(async move {
            while let Some(Ok(message)) = inbound.next().await {
                match message.message {
                    Some(from_worker::Message::Heartbeat(beat)) if answers => {
                        let heard = HeartbeatHeard { number: beat.number };
                        let message = Some(to_worker::Message::HeartbeatHeard(heard));
                        let _ = say.send(Ok(ToWorker { message })).await;
                    }
                    Some(from_worker::Message::Reports(reports)) => {
                        let _ = report.send(reports);
                    }
                    Some(from_worker::Message::Leaving(_)) => {
                        let _ = leave.send(());
                    }
                    _ => {}
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}

/// A server that can be ended at one stroke.
pub struct FakeServer {
    runtime: Option<tokio::runtime::Runtime>,
    pub address: SocketAddr,
    pub visits: UnboundedReceiver<Visit>,
}

impl FakeServer {
    pub fn start(manners: Manners) -> FakeServer {
        FakeServer::start_at("127.0.0.1:0".parse().unwrap(), manners)
    }

    pub fn start_at(address: SocketAddr, manners: Manners) -> FakeServer {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listener = std::net::TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (visitor, visits) = mpsc::unbounded_channel();
        let service = WorkersServer::new(Service { manners, visits: visitor });
        runtime.spawn(async move {
            let incoming = TcpListenerStream::new(TcpListener::from_std(listener).unwrap());
            let server = tonic::transport::Server::builder().add_service(service);
            server.serve_with_incoming(incoming).await.unwrap();
        });
        FakeServer { runtime: Some(runtime), address, visits }
    }

    /// Ends it: its connections break, and nobody listens any more.
    pub fn kill(mut self) -> SocketAddr {
        self.end();
        self.address
    }

    fn end(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // On a thread of its own, since a test may not block.
            std::thread::spawn(move || drop(runtime)).join().unwrap();
        }
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.end();
    }
}

/// What a runner was told.
#[derive(Clone, PartialEq, Debug)]
pub enum Told {
    Start(Held),
    Stop(Held, StopWhy),
    Stored(Held),
}

/// Remembers.
pub struct Memory {
    told: UnboundedSender<Told>,
    held: Vec<Held>,
}

impl Runner for Memory {
    fn held(&self) -> Vec<Held> {
        self.held.clone()
    }

    fn leased(&self, _: &Lease) {}

    fn start(&self, assignment: Assignment) {
        let held = Held { run: assignment.run, token: assignment.token };
        self.told.send(Told::Start(held)).unwrap();
    }

    fn stop(&self, held: &Held, why: StopWhy) {
        self.told.send(Told::Stop(held.clone(), why)).unwrap();
    }

    fn stored(&self, held: &Held) {
        self.told.send(Told::Stored(held.clone())).unwrap();
    }
}

/// A worker under test.
pub struct Worker {
    pub handle: Handle,
    pub told: UnboundedReceiver<Told>,
    pub session: tokio::task::JoinHandle<Result<(), bellwether_agent::SessionError>>,
}

/// Options for a worker with two slots.
pub fn options(address: &str) -> Options {
    let identity = Identity {
        name: "w".to_owned(),
        version: "1".to_owned(),
        queues: vec!["q".to_owned()],
        labels: Default::default(),
        capacity: capacity::Mode::Slots(2),
        commands: true,
        http: false,
        job_types: Vec::new(),
    };
    Options::new(vec![address.parse::<Address>().unwrap()], identity)
}

impl Worker {
    pub fn start(options: Options, held: Vec<Held>) -> Worker {
        let (session, handle) = Session::new(options).unwrap();
        let (sender, told) = mpsc::unbounded_channel();
        let runner = Arc::new(Memory { told: sender, held });
        let session = tokio::spawn(session.run(runner));
        Worker { handle, told, session }
    }

    pub async fn ends(self) -> Result<(), bellwether_agent::SessionError> {
        tokio::time::timeout(PATIENCE, self.session).await.expect("in time").unwrap()
    }
}
