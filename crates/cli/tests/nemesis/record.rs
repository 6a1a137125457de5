//! What jobs really did, written down outside of the cluster as it happens.
//!
//! Commands append to a file that no node knows of; requests come to this process, which appends to the
//! same file. A line says that an attempt begins, goes on or ends, and the file has them in the order in
//! which they happened: a single small write to a file that is opened for appending is neither torn nor
//! overtaken. Whoever is killed writes nothing, so only attempts that say again and again that they go
//! on can tell how long they were there.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Where effects are written down.
pub struct Record {
    file: PathBuf,
    url: String,
}

/// How far the record was at some moment.
#[derive(Clone, Copy)]
pub struct Mark(usize);

/// What an attempt can say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    Begins,
    GoesOn,
    Ends,
}

/// Something that an attempt did.
#[derive(Clone, Debug)]
pub struct Effect {
    pub what: What,
    /// When, by the clock of this machine that nobody sets: how long it has been up.
    pub at: Duration,
    /// The key of its job.
    pub key: String,
    /// Its run.
    pub run: String,
    /// What its target can tell repetitions by.
    pub idempotency_key: String,
    /// The token under which it ran.
    pub token: u64,
    /// When it was due.
    pub due: String,
    /// The node whose worker ran it: its id; a worker by itself: with its name; an address if it was a request.
    pub instance: String,
}

/// Bits of a fencing token below the term.
const TOKEN_BITS: u32 = 36;
/// How often a long command says that it goes on.
const BEAT: Duration = Duration::from_millis(200);

impl Effect {
    /// Whether it is a beginning.
    pub fn begins(&self) -> bool {
        self.what == What::Begins
    }

    /// The term of the leader that launched it.
    pub fn term(&self) -> u64 {
        self.token >> TOKEN_BITS
    }

    /// The number of the node whose worker ran it, if it was a command.
    pub fn node(&self) -> Option<u64> {
        match self.instance.split('.').collect::<Vec<_>>()[..] {
            [node] if !node.contains('/') => Some(1),
            [_, node] => node.parse().ok(),
            _ => None, // An address, or another worker's.
        }
    }

    fn parse(line: &str) -> Effect {
        let parts: Vec<&str> = line.split(' ').collect();
        let [what, at, key, run, idempotency_key, token, due, instance] = parts[..] else {
            panic!("a torn line in the record: {line}")
        };
        let what = match what {
            "begins" => What::Begins,
            "goes-on" => What::GoesOn,
            _ => What::Ends,
        };
        let at = Duration::from_secs_f64(at.parse().unwrap());
        let token = token.parse().unwrap();
        let [key, run, idempotency_key, due, instance] =
            [key, run, idempotency_key, due, instance].map(str::to_owned);
        Effect { what, at, key, run, idempotency_key, token, due, instance }
    }
}

/// How long this machine has been up.
pub fn up() -> Duration {
    let text = std::fs::read_to_string("/proc/uptime").unwrap();
    Duration::from_secs_f64(text.split(' ').next().unwrap().parse().unwrap())
}

/// What an attempt is told, in the order in which it is written down.
const TOLD: [&str; 5] = [
    "Bellwether-Key",
    "Bellwether-Run-Id",
    "Idempotency-Key",
    "Bellwether-Fencing-Token",
    "Bellwether-Scheduled-At",
];

impl Record {
    /// Begins a record in a directory; requests come to an address of this machine.
    pub async fn begin(dir: &Path, address: &str) -> Record {
        let file = dir.join("record");
        std::fs::write(&file, "").unwrap();
        let listener = TcpListener::bind(format!("{address}:0")).await.unwrap();
        let url = format!("http://{}/effect", listener.local_addr().unwrap());
        let into = file.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, into.clone()));
            }
        });
        Record { file, url }
    }

    /// A command that writes down that it begins, takes so many seconds, and writes down that it ends.
    pub fn command(&self, seconds: f64) -> String {
        let wait = if seconds > 0.0 { format!("sleep {seconds}; ") } else { String::new() };
        format!("{} say begins; {wait}say ends", self.say())
    }

    /// The same, and it says again and again that it goes on. One that is stubborn ends only if it must.
    pub fn long_command(&self, takes: Duration, stubborn: bool) -> String {
        let (times, beat) = (takes.as_millis() / BEAT.as_millis(), BEAT.as_secs_f64());
        let deaf = if stubborn { "trap '' TERM; " } else { "" };
        format!(
            "{deaf}{} say begins; for n in $(seq {times}); do sleep {beat}; say goes-on; done; say ends",
            self.say()
        )
    }

    /// A function of the shell that writes down what an attempt does.
    fn say(&self) -> String {
        let file = self.file.display();
        let told = "$BELLWETHER_KEY $BELLWETHER_RUN_ID $BELLWETHER_IDEMPOTENCY_KEY \
                    $BELLWETHER_FENCING_TOKEN $BELLWETHER_SCHEDULED_AT $BELLWETHER_INSTANCE";
        format!("say() {{ read up rest < /proc/uptime; echo \"$1 $up {told}\" >> {file}; }};")
    }

    /// Where requests are written down.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Everything so far, in order.
    pub fn read(&self) -> Vec<Effect> {
        self.since(Mark(0))
    }

    /// How far it is now.
    pub fn mark(&self) -> Mark {
        Mark(self.text().len())
    }

    /// Everything since then, in order.
    pub fn since(&self, mark: Mark) -> Vec<Effect> {
        self.text()[mark.0..].lines().map(Effect::parse).collect()
    }

    /// The lines that are complete.
    fn text(&self) -> String {
        let mut text = std::fs::read_to_string(&self.file).unwrap();
        text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
        text
    }
}

/// Writes down what a request says about itself, then answers it.
async fn answer(mut stream: TcpStream, file: PathBuf) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return, // Whoever asked has not got as far as asking.
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let header = |name: &str| {
        let named = head.lines().find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then(|| value.to_owned())
        });
        named.unwrap_or_else(|| panic!("no {name} in {head}"))
    };
    let told = TOLD.iter().map(|name| header(name)).collect::<Vec<_>>().join(" ");
    let from = stream.peer_addr().map(|from| from.ip().to_string()).unwrap_or_default();
    let mut into = std::fs::File::options().append(true).open(file).unwrap();
    for what in ["begins", "ends"] {
        let line = format!("{what} {:.2} {told} {from}\n", up().as_secs_f64());
        into.write_all(line.as_bytes()).unwrap();
    }
    // One request each, and it is said so: another one must not be sent into what is being closed.
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let _ = stream.write_all(answer).await;
    let _ = stream.flush().await;
}
