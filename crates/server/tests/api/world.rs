//! A server for a test, and how to talk to it.

use std::time::{Duration, Instant};

use bellwether_api::{Job, JobSpec, Run, RunStatus};
use bellwether_client::{Client, PageFilter};
use bellwether_server::{Config, RunningServer};
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long a condition may take to come true, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server and its directory.
pub struct World {
    /// The server.
    pub server: RunningServer,
    /// A client of it.
    pub client: Client,
    /// Where its data is.
    pub dir: TempDir,
}

/// Settings for tests: any port, few shards, quick to stop.
pub fn config(dir: &TempDir) -> Config {
    Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        data_dir: dir.path().join("data"),
        shards: Some(4),
        shutdown_grace: Duration::from_secs(5),
        ..Config::default()
    }
}

impl World {
    /// A new server.
    pub async fn new() -> World {
        World::with(|_| {}).await
    }

    /// A new server with other settings.
    pub async fn with(change: impl FnOnce(&mut Config)) -> World {
        let dir = tempfile::tempdir().unwrap();
        let mut config = config(&dir);
        change(&mut config);
        let server = bellwether_server::start(config).await.unwrap();
        let client = Client::new(&server.local_addr().to_string()).unwrap();
        World { server, client, dir }
    }

    /// Stops the server and starts another on the same data.
    pub async fn restart(self) -> World {
        let dir = self.dir;
        self.server.shutdown().await.unwrap();
        let server = bellwether_server::start(config(&dir)).await.unwrap();
        let client = Client::new(&server.local_addr().to_string()).unwrap();
        World { server, client, dir }
    }

    /// Creates a job from JSON.
    pub async fn add(&self, spec: Value) -> Job {
        self.client.create_job(spec_of(spec)).await.unwrap().job
    }

    /// Sends a request as it stands: status and body.
    pub async fn send(&self, method: &str, path: &str, body: impl Into<String>) -> (u16, Value) {
        self.send_as(None, method, path, body).await
    }

    /// The same, with a token.
    pub async fn send_as(
        &self,
        token: Option<&str>,
        method: &str,
        path: &str,
        body: impl Into<String>,
    ) -> (u16, Value) {
        let url = format!("http://{}{path}", self.server.local_addr());
        let mut request = http_client().request(method.parse().unwrap(), url);
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let answer = request.body(body.into()).send().await.unwrap();
        let status = answer.status().as_u16();
        let text = answer.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// Waits until the first run of a job has ended, and returns it.
    pub async fn first_run(&self, job: &Job) -> Run {
        self.run_when(job, 1, |run| ended(run.status)).await
    }

    /// Waits until the n-th run of a job is as wanted, and returns it.
    pub async fn run_when(&self, job: &Job, n: u32, wanted: impl Fn(&Run) -> bool) -> Run {
        let id = format!("{}-{n}", job.info.id.replacen("job_", "run_", 1));
        let mut last = None;
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Ok(run) = self.client.run(&id).await {
                if wanted(&run) {
                    return run;
                }
                last = Some(run);
            }
            pause().await;
        }
        panic!("{id} did not get there; last seen: {last:#?}");
    }

    /// Waits until something holds.
    pub async fn until(&self, what: &str, mut holds: impl AsyncFnMut() -> bool) {
        let begun = Instant::now();
        while !holds().await {
            assert!(begun.elapsed() < PATIENCE, "waited too long: {what}");
            pause().await;
        }
    }

    /// How many runs a job has.
    pub async fn runs(&self, job: &Job) -> Vec<Run> {
        self.client.job_runs(&job.info.id, &PageFilter::default()).await.unwrap().items
    }
}

/// Lets a little time pass between two looks at a condition.
pub async fn pause() {
    let mut interval = tokio::time::interval(Duration::from_millis(10));
    interval.tick().await;
    interval.tick().await;
}

/// Whether a run has ended.
pub fn ended(status: RunStatus) -> bool {
    matches!(
        status,
        RunStatus::Succeeded
            | RunStatus::Failed
            | RunStatus::Canceled
            | RunStatus::Lost
            | RunStatus::Skipped
    )
}

/// A job from JSON.
pub fn spec_of(value: Value) -> JobSpec {
    serde_json::from_value(value).unwrap()
}

/// A job that runs a command at once.
pub fn now(command: &str) -> Value {
    json!({ "schedule": { "delay": "0s" }, "command": command })
}

/// A client for requests that the typed one would not make.
pub fn http_client() -> reqwest::Client {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    reqwest::Client::builder().tls_backend_preconfigured(tls).no_proxy().build().unwrap()
}
