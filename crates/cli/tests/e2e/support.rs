//! A server process, and commands.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use serde_json::Value;

#[path = "../kill/address.rs"]
mod address;

/// How long anything may take before a test gives up.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// How long the machine is left to others before a test looks again.
pub const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The program, in an environment without settings.
pub fn bellwether(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bellwether"));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("BELLWETHER_") || name.starts_with("AWS_") {
            command.env_remove(name);
        }
    }
    command.env_remove("EDITOR").env_remove("VISUAL").env("TZ", "UTC").current_dir(directory);
    command
}

/// What a command said and how it ended.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Said {
    /// Its output, if it ended well.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:#?}");
        self.out
    }

    /// Its output as JSON, if it ended well.
    #[track_caller]
    pub fn json(self) -> Value {
        let out = self.ok();
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
    }

    /// Its output as lines of JSON, if it ended well.
    #[track_caller]
    pub fn json_lines(self) -> Vec<Value> {
        self.ok().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// What it complained about, if it ended with this code.
    #[track_caller]
    pub fn fails(self, code: i32) -> String {
        assert_eq!(self.code, code, "{self:#?}");
        self.err
    }
}

/// Runs a command to its end.
pub fn run(command: &mut Command, input: &str) -> Said {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that does not read is none the worse for it.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    Said {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A server that runs until it is dropped.
pub struct Server {
    child: Child,
    /// What it says on standard error.
    pub lines: Receiver<String>,
    /// What it has said so far.
    pub said: Vec<String>,
    pub address: String,
    pub directory: tempfile::TempDir,
}

impl Server {
    /// Starts one at an address of its own.
    pub fn start() -> Server {
        Server::start_with(&[])
    }

    /// Starts one with more flags.
    pub fn start_with(flags: &[&str]) -> Server {
        Server::start_in(tempfile::tempdir().unwrap(), flags)
    }

    /// Starts one in a directory, where a store may be already.
    pub fn start_in(directory: tempfile::TempDir, flags: &[&str]) -> Server {
        Server::start_at(&address::own_address(), directory, flags)
    }

    /// Starts one in a directory at an address, where there may have been one before.
    pub fn start_at(listen: &str, directory: tempfile::TempDir, flags: &[&str]) -> Server {
        Server::start_command(listen, directory, |command| {
            command.args(flags);
        })
    }

    /// Starts one whose command line or environment is changed.
    pub fn start_changed(
        directory: tempfile::TempDir,
        change: impl FnOnce(&mut Command),
    ) -> Server {
        Server::start_command(&address::own_address(), directory, change)
    }

    fn start_command(
        listen: &str,
        directory: tempfile::TempDir,
        change: impl FnOnce(&mut Command),
    ) -> Server {
        let mut command = bellwether(directory.path());
        command.args(["server", "--listen", listen, "--data-dir", "data", "--shards", "4"]);
        command.env("BELLWETHER_LOG_LEVEL", "warn");
        change(&mut command);
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut server =
            Server { child, lines, said: Vec::new(), address: String::new(), directory };
        let line = server.wait_for("listens on ");
        server.address = line.split("://").nth(1).unwrap().trim().to_owned();
        server
    }

    /// Waits until the server has said something.
    pub fn wait_for(&mut self, part: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    self.said.push(line.clone());
                    if line.contains(part) {
                        return line;
                    }
                }
                Err(error) => panic!("no '{part}' ({error}) in {:#?}", self.said),
            }
        }
    }

    /// Runs a command against this server.
    pub fn cli(&self, args: &[&str]) -> Said {
        self.cli_with(args, "")
    }

    /// Runs a command against this server, with something on its standard input.
    pub fn cli_with(&self, args: &[&str], input: &str) -> Said {
        run(&mut self.command(args), input)
    }

    /// A command against this server.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = bellwether(self.directory.path());
        command.env("BELLWETHER_SERVER", &self.address).args(args);
        command
    }

    /// Adds a job by flags; its JSON.
    #[track_caller]
    pub fn add(&self, flags: &[&str]) -> Value {
        let mut args = vec!["job", "add", "--json"];
        args.extend(flags);
        self.cli(&args).json()
    }

    /// Its process.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.pid()), signal).unwrap();
    }

    /// Whether the process has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for the process to end; how it did, and its directory.
    pub fn end(mut self) -> (ExitStatus, Vec<String>, tempfile::TempDir) {
        let status = self.child.wait().unwrap();
        self.said.extend(self.lines.iter());
        let directory = std::mem::replace(&mut self.directory, tempfile::tempdir().unwrap());
        (status, std::mem::take(&mut self.said), directory)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks until there is an answer.
#[track_caller]
pub fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < until, "{what} did not happen");
        std::thread::park_timeout(LOOK_EVERY);
    }
}
