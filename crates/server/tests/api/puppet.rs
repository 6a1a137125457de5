//! A worker that does only what a test says, and servers for it.

use std::time::Duration;

use bellwether_api::Job;
use bellwether_protocol::v1 as wire;
use bellwether_protocol::v1::from_worker::Message as Said;
use bellwether_protocol::v1::to_worker::Message as Told;
use bellwether_protocol::v1::workers_client::WorkersClient;
use serde_json::json;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::world::World;

/// A worker that does only what a test says.
pub struct Puppet {
    pub say: mpsc::Sender<wire::FromWorker>,
    pub hear: Streaming<wire::ToWorker>,
    pub welcome: wire::Welcome,
    pub reports: u64,
    /// What it was given while it waited for something else.
    pub waiting: Vec<wire::Assignment>,
}

pub fn hello(name: &str, slots: u32) -> wire::Hello {
    wire::Hello {
        name: name.into(),
        instance: format!("{name}-1"),
        commands: true,
        capacity: Some(wire::Capacity { mode: Some(wire::capacity::Mode::Slots(slots)) }),
        ..Default::default()
    }
}

impl Puppet {
    pub async fn dial(world: &World, hello: wire::Hello) -> Result<Puppet, Status> {
        Puppet::dial_as(world, hello, None).await
    }

    /// With a token.
    pub async fn dial_as(
        world: &World,
        hello: wire::Hello,
        token: Option<&str>,
    ) -> Result<Puppet, Status> {
        let address = format!("http://{}", world.server.local_addr());
        let channel = tonic::transport::Endpoint::from_shared(address).unwrap();
        let mut client = WorkersClient::new(channel.connect().await.unwrap());
        let (say, said) = mpsc::channel(16);
        say.send(wire::FromWorker { message: Some(Said::Hello(hello)) }).await.unwrap();
        let mut request = tonic::Request::new(ReceiverStream::new(said));
        if let Some(token) = token {
            let value = format!("Bearer {token}").parse().unwrap();
            request.metadata_mut().insert("authorization", value);
        }
        let mut hear = client.work(request).await?.into_inner();
        let Some(Told::Welcome(welcome)) = hear.message().await?.unwrap().message else {
            panic!("no welcome");
        };
        Ok(Puppet { say, hear, welcome, reports: 0, waiting: Vec::new() })
    }

    pub async fn new(world: &World, name: &str, slots: u32) -> Puppet {
        Puppet::dial(world, hello(name, slots)).await.unwrap()
    }

    /// Makes itself heard from here on.
    pub fn beating(self) -> Puppet {
        let say = self.say.clone();
        tokio::spawn(async move {
            let mut interval = tokio::time::interval(Duration::from_millis(200));
            for number in 1.. {
                interval.tick().await;
                let message = Some(Said::Heartbeat(wire::Heartbeat { number }));
                if say.send(wire::FromWorker { message }).await.is_err() {
                    return;
                }
            }
        });
        self
    }

    pub async fn told(&mut self) -> Told {
        let next = tokio::time::timeout(Duration::from_secs(60), self.hear.message());
        next.await.expect("told in time").unwrap().expect("not the end").message.unwrap()
    }

    /// The next attempts it is given.
    pub async fn given(&mut self) -> Vec<wire::Assignment> {
        if !self.waiting.is_empty() {
            return std::mem::take(&mut self.waiting);
        }
        loop {
            if let Told::Assignments(given) = self.told().await {
                return given.assignments;
            }
        }
    }

    pub async fn say(&self, message: Said) {
        self.say.send(wire::FromWorker { message: Some(message) }).await.unwrap();
    }

    /// Says it and waits until it is stored.
    pub async fn report(&mut self, run: &wire::Assignment, what: wire::report::What) {
        self.reports += 1;
        let report = wire::Report { run: run.run.clone(), token: run.token, what: Some(what) };
        self.say(Said::Reports(wire::Reports { number: self.reports, reports: vec![report] }))
            .await;
        loop {
            match self.told().await {
                Told::ReportsStored(stored) => {
                    assert_eq!(stored.number, self.reports);
                    return;
                }
                Told::Assignments(given) => self.waiting.extend(given.assignments),
                _ => {}
            }
        }
    }

    pub async fn finish(&mut self, run: &wire::Assignment) {
        self.report(run, wire::report::What::Finished(succeeded("done\n"))).await;
    }
}

pub fn succeeded(output: &'static str) -> wire::Finished {
    wire::Finished {
        started_ms: Some(1),
        finished_ms: 2,
        ending: wire::Ending::Succeeded.into(),
        exit_code: Some(0),
        output: Some(chunk(0, output)),
        output_bytes: output.len() as u64,
        ..Default::default()
    }
}

pub fn chunk(sequence: u32, text: &'static str) -> wire::Output {
    let chunk = wire::Chunk { stream: 1, data: text.into(), dropped_before: 0 };
    wire::Output { sequence, chunks: vec![chunk] }
}

pub fn held(run: &wire::Assignment) -> wire::Held {
    wire::Held { run: run.run.clone(), token: run.token }
}

/// A server without a worker of its own, with leases that a test can wait for, and that do not end because a busy
/// machine stands still for a moment.
pub async fn world() -> World {
    World::with(|config| {
        config.worker = false;
        config.worker_heartbeat = Duration::from_millis(200);
        config.worker_lease = Duration::from_secs(5);
    })
    .await
}

/// The same, with leases that do not end during a test.
pub async fn patient() -> World {
    World::with(|config| config.worker = false).await
}

pub async fn add(world: &World, more: serde_json::Value) -> Job {
    let mut spec = json!({"schedule": {"delay": "0s"}, "command": "true"});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    world.add(spec).await
}

pub async fn post(world: &World, path: &str, body: serde_json::Value) -> serde_json::Value {
    let (status, answer) = world.send("POST", path, body.to_string()).await;
    assert_eq!(status, 200, "{path}: {answer}");
    answer
}
