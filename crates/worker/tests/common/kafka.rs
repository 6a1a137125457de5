//! As much of a Kafka broker as a producer needs: versions, metadata, and records kept in memory.
//!
//! There is no Kafka in Debian, so this speaks its protocol instead (ApiVersions 3, Metadata 1,
//! Produce 3). It shows what is sent and how answers are understood, not that a real cluster
//! agrees.
#![allow(dead_code, missing_docs)]

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// A record as it arrived.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    pub topic: String,
    pub partition: i32,
    pub acks: i16,
    pub key: Option<Vec<u8>>,
    pub value: Vec<u8>,
    pub headers: BTreeMap<String, Vec<u8>>,
}

/// Topics: `mail` with three partitions, and `small`, which refuses all records as too large.
pub struct Kafka {
    pub port: u16,
    pub records: Arc<Mutex<Vec<Record>>>,
    task: JoinHandle<()>,
}

impl Kafka {
    /// Starts at this port, or at any if it is 0.
    pub fn start(port: u16) -> Kafka {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let records = Arc::new(Mutex::new(Vec::new()));
        let kept = records.clone();
        let task = tokio::spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let mut serving = tokio::task::JoinSet::new();
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                serving.spawn(serve(socket, port, kept.clone()));
            }
        });
        Kafka { port, records, task }
    }

    /// Stops, and closes all connections.
    pub async fn stop(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

async fn serve(mut socket: TcpStream, port: u16, kept: Arc<Mutex<Vec<Record>>>) {
    while let Ok(size) = socket.read_i32().await {
        let mut frame = vec![0; usize::try_from(size).unwrap()];
        if socket.read_exact(&mut frame).await.is_err() {
            return;
        }
        let mut request = Reader(&frame);
        let (api, version, number) = (request.i16(), request.i16(), request.i32());
        request.text();
        let mut answer = number.to_be_bytes().to_vec();
        match (api, version) {
            (18, 3) => versions(&mut answer),
            (3, 1) => metadata(&mut request, &mut answer, port),
            (0, 3) => produce(&mut request, &mut answer, &kept),
            other => panic!("unexpected request {other:?}"),
        }
        let size = i32::try_from(answer.len()).unwrap().to_be_bytes();
        if socket.write_all(&[&size[..], &answer].concat()).await.is_err() {
            return;
        }
    }
}

fn versions(answer: &mut Vec<u8>) {
    answer.extend(0i16.to_be_bytes());
    // The length of a compact array is one more than it is.
    answer.push(4);
    for (api, version) in [(18i16, 3i16), (3, 1), (0, 3)] {
        for number in [api, version, version] {
            answer.extend(number.to_be_bytes());
        }
        answer.push(0);
    }
    answer.extend(0i32.to_be_bytes());
    answer.push(0);
}

fn text(answer: &mut Vec<u8>, text: &str) {
    answer.extend(i16::try_from(text.len()).unwrap().to_be_bytes());
    answer.extend(text.as_bytes());
}

fn int(answer: &mut Vec<u8>, number: i32) {
    answer.extend(number.to_be_bytes());
}

fn metadata(request: &mut Reader<'_>, answer: &mut Vec<u8>, port: u16) {
    // None asks for all topics.
    let count = request.i32();
    let asked: Vec<String> = (0..count).filter_map(|_| request.text()).collect();
    int(answer, 1);
    int(answer, 7);
    text(answer, "127.0.0.1");
    int(answer, port.into());
    answer.extend((-1i16).to_be_bytes());
    int(answer, 7);
    let wanted = |name: &str| count < 0 || asked.iter().any(|asked| asked == name);
    let topics = [("mail", 3), ("small", 1)].into_iter().filter(|(name, _)| wanted(name));
    int(answer, i32::try_from(topics.clone().count()).unwrap());
    for (name, partitions) in topics {
        answer.extend(0i16.to_be_bytes());
        text(answer, name);
        answer.push(0);
        int(answer, partitions);
        for partition in 0..partitions {
            answer.extend(0i16.to_be_bytes());
            // Number and leader, then replicas and those in sync.
            for number in [partition, 7, 1, 7, 1, 7] {
                int(answer, number);
            }
        }
    }
}

fn produce(request: &mut Reader<'_>, answer: &mut Vec<u8>, kept: &Mutex<Vec<Record>>) {
    request.text();
    let acks = request.i16();
    request.i32();
    assert_eq!(request.i32(), 1, "one topic");
    let topic = request.text().unwrap();
    assert_eq!(request.i32(), 1, "one partition");
    let partition = request.i32();
    let size = request.i32();
    let batch = request.take(size);
    let error: i16 = if topic == "small" { 10 } else { 0 };
    let mut kept = kept.lock().unwrap();
    if error == 0 {
        let (key, value, headers) = record(batch);
        kept.push(Record { topic: topic.clone(), partition, acks, key, value, headers });
    }
    int(answer, 1);
    text(answer, &topic);
    int(answer, 1);
    int(answer, partition);
    answer.extend(error.to_be_bytes());
    answer.extend((i64::try_from(kept.len()).unwrap() - 1).to_be_bytes());
    answer.extend((-1i64).to_be_bytes());
    int(answer, 0);
}

type Parts = (Option<Vec<u8>>, Vec<u8>, BTreeMap<String, Vec<u8>>);

/// The only record of a batch in the second format.
fn record(batch: &[u8]) -> Parts {
    let mut batch = Reader(batch);
    let head = batch.take(57);
    assert_eq!(head[16], 2, "the format of the batch");
    assert_eq!(batch.i32(), 1, "one record");
    // Its length, attributes, and what it differs by from the batch.
    batch.varint();
    batch.take(1);
    batch.varint();
    batch.varint();
    let key = batch.bytes();
    let value = batch.bytes().unwrap();
    let count = batch.varint();
    let header = |_| {
        let name = String::from_utf8(batch.bytes().unwrap()).unwrap();
        (name, batch.bytes().unwrap())
    };
    let headers = (0..count).map(header).collect();
    (key, value, headers)
}

/// Reads the protocol's numbers and texts.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: i32) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(usize::try_from(count).unwrap());
        self.0 = rest;
        taken
    }

    fn i16(&mut self) -> i16 {
        i16::from_be_bytes(self.take(2).try_into().unwrap())
    }

    fn i32(&mut self) -> i32 {
        i32::from_be_bytes(self.take(4).try_into().unwrap())
    }

    fn text(&mut self) -> Option<String> {
        let length = self.i16();
        (length >= 0).then(|| String::from_utf8(self.take(length.into()).to_vec()).unwrap())
    }

    fn varint(&mut self) -> i32 {
        let mut number = 0u64;
        for at in 0..10 {
            let byte = self.take(1)[0];
            number |= u64::from(byte & 0x7f) << (7 * at);
            if byte & 0x80 == 0 {
                break;
            }
        }
        let signed = (number >> 1).cast_signed() ^ -((number & 1).cast_signed());
        i32::try_from(signed).unwrap()
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        let length = self.varint();
        (length >= 0).then(|| self.take(length).to_vec())
    }
}
