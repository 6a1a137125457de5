//! Real brokers for tests: started on loopback at free ports, ended by their process ids.
#![allow(dead_code, missing_docs)]

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tempfile::TempDir;

/// A server of another project, in a process group of its own.
pub struct Broker {
    children: Vec<Child>,
    command: Box<dyn Fn() -> Vec<Command> + Send + Sync>,
    /// What it writes into its log once it takes connections.
    ready: &'static str,
    pub port: u16,
    dir: TempDir,
}

/// A port that nobody uses at the moment.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

impl Broker {
    async fn start(
        dir: TempDir,
        port: u16,
        ready: &'static str,
        command: impl Fn() -> Vec<Command> + Send + Sync + 'static,
    ) -> Broker {
        let (children, command) = (Vec::new(), Box::new(command));
        let mut broker = Broker { children, command, ready, port, dir };
        broker.restart().await;
        broker
    }

    /// Starts it again at the same port with the same data.
    pub async fn restart(&mut self) {
        let before = self.log().len();
        for mut command in (self.command)() {
            let log = fs::File::options()
                .create(true)
                .append(true)
                .open(self.dir.path().join("log"))
                .unwrap();
            command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
            let program = command.get_program().to_string_lossy().into_owned();
            let child = command.process_group(0).spawn().unwrap_or_else(|error| {
                panic!("{program} cannot be started ({error}): scripts/tools.sh installs it")
            });
            self.children.push(child);
        }
        let deadline = Instant::now() + Duration::from_secs(120);
        let mut look = tokio::time::interval(Duration::from_millis(20));
        // A port that can be connected to is not enough: it may take connections and drop them.
        while !self.log()[before..].contains(self.ready) {
            let ended = self.children.iter_mut().any(|child| child.try_wait().unwrap().is_some());
            assert!(!ended && Instant::now() < deadline, "a broker is not ready: {}", self.log());
            look.tick().await;
        }
    }

    /// Kills it, as a crash would.
    pub fn kill(&mut self) {
        for mut child in self.children.drain(..).rev() {
            let _ = killpg(Pid::from_raw(child.id().cast_signed()), Signal::SIGKILL);
            let _ = child.wait();
        }
    }

    fn log(&self) -> String {
        let log = fs::read(self.dir.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// NATS with JetStream, and with a password if one is given.
pub async fn nats(password: Option<&str>) -> Broker {
    // A machine with much to do may take longer to log in than the second or two that are usual.
    let login = password.map(|password| {
        format!("authorization {{ user: ana, password: \"{password}\", timeout: 60 }}\n")
    });
    nats_with(&login.unwrap_or_default()).await
}

/// NATS with JetStream and further settings.
pub async fn nats_with(settings: &str) -> Broker {
    let (dir, port) = (tempfile::tempdir().unwrap(), free_port());
    let config = dir.path().join("nats.conf");
    let text = format!(
        "listen: \"127.0.0.1:{port}\"\njetstream {{ store_dir: \"{}\" }}\n{settings}",
        dir.path().join("jetstream").display(),
    );
    fs::write(&config, text).unwrap();
    Broker::start(dir, port, "Server is ready", move || {
        let mut command = Command::new("nats-server");
        command.arg("-c").arg(&config);
        vec![command]
    })
    .await
}

/// RabbitMQ, with its user `guest`. Brings its own name service, which would outlive it otherwise.
pub async fn rabbitmq() -> Broker {
    rabbitmq_with("").await
}

/// The same with further settings.
pub async fn rabbitmq_with(settings: &str) -> Broker {
    let (dir, port, names, own) =
        (tempfile::tempdir().unwrap(), free_port(), free_port(), free_port());
    let home = dir.path().to_owned();
    fs::write(home.join("plugins"), "").unwrap();
    fs::write(home.join("rabbitmq.conf"), settings).unwrap();
    Broker::start(dir, port, "Server startup complete", move || {
        let mut epmd = Command::new("epmd");
        epmd.args(["-port", &names.to_string(), "-address", "127.0.0.1"]);
        let mut rabbit = Command::new("/usr/lib/rabbitmq/bin/rabbitmq-server");
        rabbit
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("LANG", "C.UTF-8")
            .env("HOME", &home)
            .env("ERL_EPMD_PORT", names.to_string())
            .env("RABBITMQ_NODENAME", format!("test{port}@localhost"))
            .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
            .env("RABBITMQ_NODE_PORT", port.to_string())
            .env("RABBITMQ_DIST_PORT", own.to_string())
            .env("RABBITMQ_MNESIA_BASE", &home)
            .env("RABBITMQ_LOG_BASE", &home)
            .env("RABBITMQ_LOGS", "-")
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", home.join("plugins"))
            .env("RABBITMQ_CONF_ENV_FILE", home.join("none"))
            .env("RABBITMQ_CONFIG_FILE", home.join("rabbitmq.conf"));
        vec![epmd, rabbit]
    })
    .await
}
