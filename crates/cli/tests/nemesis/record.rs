//! What jobs really did, written down outside of the cluster as it happens.
//!
//! Commands append to a file that no node knows of; requests come to this process, which appends to the
//! same file. A line says that an attempt begins or ends, and the file has them in the order in which they
//! happened: a single small write to a file that is opened for appending is neither torn nor overtaken.

use std::io::Write;
use std::path::{Path, PathBuf};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Where effects are written down.
pub struct Record {
    file: PathBuf,
    url: String,
}

/// Something that an attempt did.
#[derive(Clone, Debug)]
pub struct Effect {
    /// Whether it began; otherwise it ended.
    pub begins: bool,
    /// The key of its job.
    pub key: String,
    /// Its run.
    pub run: String,
    /// The token under which it ran.
    pub token: u64,
    /// When it was due.
    pub due: String,
    /// The node whose worker ran it.
    #[allow(dead_code, reason = "it is shown when a check fails")]
    pub instance: String,
}

/// What an attempt is told, in the order in which it is written down.
const TOLD: [&str; 4] = ["Key", "Run-Id", "Fencing-Token", "Scheduled-At"];

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
        let file = self.file.display();
        let line = "$BELLWETHER_KEY $BELLWETHER_RUN_ID $BELLWETHER_FENCING_TOKEN \
                    $BELLWETHER_SCHEDULED_AT $BELLWETHER_INSTANCE";
        let wait = if seconds > 0.0 { format!("sleep {seconds}; ") } else { String::new() };
        format!("echo \"begin {line}\" >> {file}; {wait}echo \"end {line}\" >> {file}")
    }

    /// Where requests are written down.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Everything so far, in order.
    pub fn read(&self) -> Vec<Effect> {
        let text = std::fs::read_to_string(&self.file).unwrap();
        let parse = |line: &str| {
            let parts: Vec<&str> = line.split(' ').collect();
            let [what, key, run, token, due, instance] = parts[..] else {
                panic!("a torn line in the record: {line}")
            };
            let [key, run, due, instance] = [key, run, due, instance].map(str::to_owned);
            let token = token.parse().unwrap();
            Effect { begins: what == "begin", key, run, token, due, instance }
        };
        text.lines().map(parse).collect()
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
            found.eq_ignore_ascii_case(&format!("bellwether-{name}")).then(|| value.to_owned())
        });
        named.unwrap_or_else(|| panic!("no {name} in {head}"))
    };
    let told = TOLD.iter().map(|name| header(name)).collect::<Vec<_>>().join(" ");
    let from = stream.peer_addr().map(|from| from.ip().to_string()).unwrap_or_default();
    let mut into = std::fs::File::options().append(true).open(file).unwrap();
    for what in ["begin", "end"] {
        into.write_all(format!("{what} {told} {from}\n").as_bytes()).unwrap();
    }
    // One request each, and it is said so: another one must not be sent into what is being closed.
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let _ = stream.write_all(answer).await;
    let _ = stream.flush().await;
}
