//! What the tests of this crate share: attempts, quick execution, conditions to wait for.
#![allow(dead_code, missing_docs)]

pub mod brokers;
pub mod kafka;
pub mod server;
pub mod skipped;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{fs, io};

use bellwether_worker::{
    Attempt, CommandTarget, Control, Executor, ExecutorOptions, Finished, LiveOutput, SuccessRules,
    Target,
};

pub const OUTPUT_LIMIT: usize = 64 * 1024;

/// An attempt with usual settings and marks that no other attempt has.
pub fn attempt(target: Target) -> Attempt {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    Attempt {
        run_id: format!("run_{number}"),
        job_id: "job_1".into(),
        key: "nightly".into(),
        namespace: "default".into(),
        scheduled_at: "2026-01-02T03:04:05.000Z".into(),
        attempt: 1,
        fencing_token: 42,
        idempotency_key: format!("idem-{number}"),
        target,
        timeout: Some(Duration::from_secs(60)),
        grace: Duration::from_secs(5),
        success: SuccessRules::default(),
        instance: format!("test-{}", std::process::id()),
    }
}

pub fn shell(line: &str) -> Attempt {
    attempt(Target::Command(CommandTarget::shell(line)))
}

/// What everything in this process logs, of every library and at every level.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// From now on; once in a process.
    pub fn capture() -> Log {
        let log = Log::default();
        let writer = log.clone();
        tracing_subscriber::fmt()
            .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
            .with_writer(move || writer.clone())
            .init();
        log
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A certificate for this machine in files, and who has to be trusted for it.
pub struct Certificate {
    pub dir: tempfile::TempDir,
}

impl Certificate {
    pub fn new() -> Certificate {
        let ca_key = rcgen::KeyPair::generate().unwrap();
        let mut ca = rcgen::CertificateParams::new(vec![]).unwrap();
        ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let ca_pem = ca.self_signed(&ca_key).unwrap().pem();
        let issuer = rcgen::Issuer::new(ca, ca_key);
        let key = rcgen::KeyPair::generate().unwrap();
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let params = rcgen::CertificateParams::new(names).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("ca.pem"), ca_pem).unwrap();
        fs::write(dir.path().join("cert.pem"), certificate.pem()).unwrap();
        fs::write(dir.path().join("key.pem"), key.serialize_pem()).unwrap();
        Certificate { dir }
    }

    pub fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// An executor that trusts it.
    pub fn trusting(&self) -> Executor {
        let extra_ca_file = Some(self.dir.path().join("ca.pem"));
        Executor::new(ExecutorOptions { extra_ca_file, ..ExecutorOptions::default() }).unwrap()
    }
}

pub fn executor() -> Executor {
    Executor::new(ExecutorOptions::default()).unwrap()
}

pub async fn run(attempt: Attempt) -> Finished {
    executor().execute(attempt, Control::new(), LiveOutput::new(OUTPUT_LIMIT)).await
}

/// Starts an attempt and returns its handles at once.
pub fn start(attempt: Attempt) -> (Control, Arc<LiveOutput>, tokio::task::JoinHandle<Finished>) {
    let (control, output) = (Control::new(), LiveOutput::new(OUTPUT_LIMIT));
    let (executor, handle, sink) = (executor(), control.clone(), Arc::clone(&output));
    let task = tokio::spawn(async move { executor.execute(attempt, handle, sink).await });
    (control, output, task)
}

/// Waits until a condition gives a value; fails after ten seconds.
pub async fn until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut look = tokio::time::interval(Duration::from_millis(5));
    loop {
        look.tick().await;
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < deadline, "waited in vain until {what}");
    }
}

/// The same for a condition that takes its time, up to a minute.
pub async fn until_async<T>(what: &str, condition: impl AsyncFn() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut look = tokio::time::interval(Duration::from_millis(50));
    loop {
        look.tick().await;
        if let Some(value) = condition().await {
            return value;
        }
        assert!(Instant::now() < deadline, "waited in vain until {what}");
    }
}

/// The process ids a script has written to a file, one a line, once there are `count`.
pub async fn pids_in(file: &Path, count: usize) -> Vec<i32> {
    until("the process ids are written", || {
        let text = fs::read_to_string(file).ok()?;
        let complete = text.ends_with('\n');
        let pids: Vec<i32> = text.lines().filter_map(|line| line.parse().ok()).collect();
        (complete && pids.len() >= count).then_some(pids)
    })
    .await
}

/// Whether a process exists and is not merely waiting to be noticed as dead.
pub fn is_alive(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        let state = stat.rsplit(')').next().unwrap_or("").trim_start().chars().next();
        !matches!(state, Some('Z' | 'X') | None)
    })
}
