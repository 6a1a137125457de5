//! The server under test: a real process.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bellwether_client::Client;

use crate::address::own_address;

/// A server that can be killed.
pub struct Server {
    process: Child,
    /// How to talk to it.
    pub client: Client,
}

/// How long it may take to be ready, on a machine that is busy with other tests.
const READY_MAX: Duration = Duration::from_secs(120);

impl Server {
    /// Starts a server on the directory's data and waits until it is ready.
    pub async fn start(dir: &Path) -> Server {
        Server::start_with(dir, &[]).await
    }

    /// The same with further flags.
    pub async fn start_with(dir: &Path, flags: &[&str]) -> Server {
        let address = own_address();
        let log =
            std::fs::OpenOptions::new().create(true).append(true).open(log_path(dir)).unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_bellwether"))
            .args(["server", "--listen", &address, "--worker-slots", "16", "--data-dir"])
            .arg(dir.join("data"))
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let client = Client::new(&address).unwrap();
        let begun = Instant::now();
        let mut look = tokio::time::interval(Duration::from_millis(10));
        while !client.health().await.is_ok_and(|health| health.ready) {
            let ended = process.try_wait().unwrap();
            let log = || std::fs::read_to_string(log_path(dir)).unwrap_or_default();
            assert!(ended.is_none(), "the server ended ({ended:?}): {}", log());
            assert!(begun.elapsed() < READY_MAX, "the server is not ready: {}", log());
            look.tick().await;
        }
        Server { process, client }
    }

    /// Pulls the plug.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn log_path(dir: &Path) -> PathBuf {
    dir.join("server.log")
}
