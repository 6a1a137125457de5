//! Three nodes in one process: what one of them has acknowledged survives it.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bellwether_core::waist::{Batch, Family, Op, Shard, StoreError};
use bellwether_raft::engine::RaftEngine;
use bellwether_raft::log::LogOptions;
use bellwether_raft::types::Peer;
use bellwether_store::{DiskEngine, DiskOptions, Engine};
use bytes::Bytes;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::sync::CancellationToken;

use crate::opened::open;

const SHARDS: [Shard; 4] = [0, 1, 2, 3];
const PATIENCE: Duration = Duration::from_secs(60);

/// A node and its address.
struct Node {
    engine: Arc<RaftEngine>,
    address: SocketAddr,
    dir: TempDir,
    stop: CancellationToken,
}

impl Node {
    async fn start(number: u64) -> Node {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        Node::on(number, listener, dir).await
    }

    async fn on(number: u64, listener: TcpListener, dir: TempDir) -> Node {
        Node::with(number, listener, dir, LogOptions::default()).await
    }

    async fn with(number: u64, listener: TcpListener, dir: TempDir, log: LogOptions) -> Node {
        Node::of(number, listener, dir, log, &SHARDS).await
    }

    async fn of(
        number: u64,
        listener: TcpListener,
        dir: TempDir,
        log: LogOptions,
        shards: &[Shard],
    ) -> Node {
        let address = listener.local_addr().unwrap();
        let engine = Arc::new(open(dir.path(), number, shards, log).await);
        let stop = CancellationToken::new();
        let server = tonic::transport::Server::builder().add_service(engine.service());
        let incoming = TcpListenerStream::new(listener);
        let stopped = stop.clone().cancelled_owned();
        tokio::spawn(async move { server.serve_with_incoming_shutdown(incoming, stopped).await });
        Node { engine, address, dir, stop }
    }

    /// Takes another node into all groups: first it learns, then it votes.
    async fn take_in(&self, number: u64, node: &Node) {
        for shard in SHARDS {
            self.engine.add_learner(shard, number, node.peer()).await.unwrap();
            let mut voters = self.engine.standing(shard).unwrap().voters;
            voters.insert(number);
            self.engine.set_voters(shard, voters).await.unwrap();
        }
    }

    fn peer(&self) -> Peer {
        Peer { address: self.address.to_string(), zone: String::new() }
    }

    /// Waits for the node's own threads, off the runtime.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&RaftEngine) -> T + Send + 'static,
    ) -> T {
        let engine = self.engine.clone();
        tokio::task::spawn_blocking(move || work(&engine)).await.unwrap()
    }

    async fn acquire(&self, shard: Shard) -> Result<u64, StoreError> {
        self.blocking(move |engine| engine.acquire(shard)).await
    }

    async fn put(&self, shard: Shard, term: u64, name: &str) -> Result<(), StoreError> {
        self.put_value(shard, term, name, Bytes::from("v")).await
    }

    async fn put_value(
        &self,
        shard: Shard,
        term: u64,
        name: &str,
        value: Bytes,
    ) -> Result<(), StoreError> {
        let op = Op::Put { family: Family::Job, key: key(shard, name), value };
        let batch = Batch { shard, term, ops: vec![op] };
        self.blocking(move |engine| engine.commit(batch)).await
    }

    fn has(&self, shard: Shard, name: &str) -> bool {
        self.engine.view().get(Family::Job, &key(shard, name)).unwrap().is_some()
    }

    async fn end(self) -> (SocketAddr, TempDir) {
        self.stop.cancel();
        self.blocking(|engine| engine.close()).await.unwrap();
        (self.address, self.dir)
    }
}

fn key(shard: Shard, name: &str) -> Bytes {
    [&shard.to_be_bytes()[..], b"k", name.as_bytes()].concat().into()
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    until_async(what, async || holds()).await;
}

async fn until_async(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    let mut interval = tokio::time::interval(Duration::from_millis(10));
    while !holds().await {
        assert!(begun.elapsed() < PATIENCE, "waited too long: {what}");
        interval.tick().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r111_what_was_acknowledged_survives_any_node() {
    let one = Node::start(1).await;
    one.engine.found(&one.peer()).await.unwrap();
    let before = one.acquire(0).await.unwrap();
    one.put(0, before, "alone").await.unwrap();
    let (two, three) = (Node::start(2).await, Node::start(3).await);
    one.take_in(2, &two).await;
    one.take_in(3, &three).await;
    for n in 0..100 {
        one.put(0, before, &format!("n{n}")).await.unwrap();
    }
    for node in [&two, &three] {
        until("replicas have all", || node.has(0, "alone") && node.has(0, "n99")).await;
        let refused = node.put(0, before, "elsewhere").await;
        assert!(refused.is_err(), "only the leader commits");
    }
    let (address, dir) = one.end().await;
    let left = [&two, &three];
    until("another leads", || left.iter().all(|n| matches!(n.engine.leader(0), Some(2 | 3)))).await;
    let leads = if two.engine.leader(0) == Some(2) { &two } else { &three };
    let after = leads.engine.take_over(0).await.unwrap();
    assert!(after > before, "{after} comes after {before}");
    assert!((0..100).all(|n| leads.has(0, &format!("n{n}"))), "nothing was lost");
    leads.put(0, after, "after").await.unwrap();
    let stale = leads.put(0, before, "stale").await;
    assert!(matches!(stale, Err(StoreError::Fenced { .. })), "{stale:?}");
    // The first one comes back and learns what it missed.
    let listener = TcpListener::bind(address).await.unwrap();
    let one = Node::on(1, listener, dir).await;
    until("it has caught up", || one.has(0, "after")).await;
    assert!(!one.has(0, "stale"));
    for node in [one, two, three] {
        node.end().await;
    }
}

/// The address of a wire to a node that is slow in the one direction: 4 MiB a second.
async fn slow_wire(to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            tokio::spawn(async move {
                // While the node is down, whoever dials it is turned away.
                let Ok(far) = TcpStream::connect(to).await else { return };
                let (mut from_near, mut to_near) = near.into_split();
                let (mut from_far, mut to_far) = far.into_split();
                let back =
                    tokio::spawn(async move { tokio::io::copy(&mut from_far, &mut to_near).await });
                let mut buffer = vec![0; 64 * 1024];
                let mut pace = tokio::time::interval(Duration::from_millis(16));
                loop {
                    pace.tick().await;
                    match from_near.read(&mut buffer).await {
                        Ok(read) if read > 0 && to_far.write_all(&buffer[..read]).await.is_ok() => {
                        }
                        _ => break,
                    }
                }
                back.abort();
            });
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn r65_a_large_entry_gets_to_a_node_that_was_away_over_a_slow_wire() {
    let one = Node::start(1).await;
    one.engine.found(&one.peer()).await.unwrap();
    let term = one.acquire(0).await.unwrap();
    let two = Node::start(2).await;
    let wire = slow_wire(two.address).await;
    let peer = Peer { address: wire.to_string(), zone: String::new() };
    one.engine.add_learner(0, 2, peer).await.unwrap();
    one.engine.set_voters(0, BTreeSet::from([1, 2])).await.unwrap();
    let (address, dir) = two.end().await;
    // It takes two seconds, and a heartbeat is missed after a third of one.
    let put = one.put_value(0, term, "large", Bytes::from(vec![7; 8 * 1024 * 1024]));
    let back = async {
        let listener = TcpListener::bind(address).await.unwrap();
        Node::on(2, listener, dir).await
    };
    let both = async { tokio::join!(put, back) };
    let (put, two) = tokio::time::timeout(PATIENCE, both).await.expect("it never gets there");
    put.unwrap();
    until("it has applied it", || two.has(0, "large")).await;
    for node in [one, two] {
        node.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r126_a_replica_that_a_leader_counts_in_is_not_removed_whatever_was_said_before() {
    let one = Node::start(1).await;
    one.engine.found(&one.peer()).await.unwrap();
    let term = one.acquire(1).await.unwrap();
    one.put(1, term, "before").await.unwrap();
    let two = Node::start(2).await;
    one.engine.add_learner(1, 2, two.peer()).await.unwrap();
    until("it has all", || two.has(1, "before")).await;
    // As if the entry that takes it in again were yet to come.
    let refused = two.engine.erase(1, u64::MAX).await.unwrap_err().to_string();
    assert!(refused.contains("a leader counts this node in"), "{refused}");
    one.put(1, term, "after").await.unwrap();
    until("it still takes part", || two.has(1, "after")).await;
    one.engine.remove_learners(1, BTreeSet::from([2])).await.unwrap();
    let without = one.engine.standing(1).unwrap().membership;
    until_async("nobody counts it in any more", async || {
        two.engine.erase(1, without).await.is_ok()
    })
    .await;
    assert!(!two.engine.has(1) && !two.has(1, "before"));
    for node in [one, two] {
        node.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r111_a_node_that_cannot_write_its_log_says_so_and_the_others_go_on() {
    let one = Node::start(1).await;
    one.engine.found(&one.peer()).await.unwrap();
    let term = one.acquire(0).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let small = LogOptions { segment_bytes: 4_096, ..LogOptions::default() };
    let two = Node::with(2, listener, tempfile::tempdir().unwrap(), small).await;
    let three = Node::start(3).await;
    one.take_in(2, &two).await;
    one.take_in(3, &three).await;
    assert_eq!(two.engine.failure(), None);
    // Where the next segment is to go there is nothing any more.
    std::fs::remove_dir_all(two.dir.path().join("log")).unwrap();
    for n in 0..200 {
        one.put(0, term, &format!("n{n}")).await.unwrap();
    }
    until("it has noticed", || two.engine.failure().is_some()).await;
    let why = two.engine.failure().unwrap();
    assert!(why.contains("the log cannot be written: No such file"), "{why}");
    assert_eq!(two.engine.stats().failure, Some(why), "whoever asks for figures hears it as well");
    assert_eq!((one.engine.failure(), three.engine.failure()), (None, None));
    until("the others have all", || three.has(0, "n199")).await;
    for node in [one, three] {
        node.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r65_a_node_that_was_away_is_known_to_be_behind_until_it_has_all() {
    let one = Node::start(1).await;
    one.engine.found(&one.peer()).await.unwrap();
    // Not of the first shard, which is not paced: so it is sure to be seen that more is to come.
    let term = one.acquire(1).await.unwrap();
    let (two, three) = (Node::start(2).await, Node::start(3).await);
    one.take_in(2, &two).await;
    one.take_in(3, &three).await;
    let (address, dir) = three.end().await;
    let value = Bytes::from(vec![7; 1024 * 1024]);
    for n in 0..24 {
        one.put_value(1, term, &format!("n{n}"), value.clone()).await.unwrap();
    }
    let soon = Duration::from_millis(50);
    one.engine.wait_until_level(1, 2, PATIENCE).await.unwrap();
    let away = one.engine.wait_until_level(1, 3, soon).await.unwrap_err().to_string();
    assert!(away.contains("not within 50ms"), "{away}");
    let listener = TcpListener::bind(address).await.unwrap();
    let three = Node::on(3, listener, dir).await;
    until("it knows that there is more", || three.engine.standing(1).unwrap().behind > 0).await;
    one.engine.wait_until_level(1, 3, PATIENCE).await.unwrap();
    until("it has applied all", || three.engine.standing(1).unwrap().behind == 0).await;
    assert!(three.has(1, "n23"));
    one.engine.hand_over(1, 3).await.unwrap();
    one.engine.wait_for_leader(1, 3, PATIENCE).await.unwrap();
    for node in [one, two, three] {
        node.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r115_a_node_that_gets_a_copy_catches_up_though_much_is_written_meanwhile() {
    // A copy takes six seconds at least, in which more is written than the log would keep.
    const ROWS: usize = 2_048;
    let log = LogOptions { segment_bytes: 8 * 1024, pace: 85 * 1024, ..LogOptions::default() };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let one = Node::with(1, listener, tempfile::tempdir().unwrap(), log).await;
    one.engine.found(&one.peer()).await.unwrap();
    let term = one.acquire(1).await.unwrap();
    let value = Bytes::from(vec![7; 1024]);
    for n in 0..ROWS {
        one.put_value(1, term, &format!("n{n}"), value.clone()).await.unwrap();
    }
    let segments = || std::fs::read_dir(one.dir.path().join("log")).unwrap().count();
    until("most of the log is gone", || segments() < 16).await;
    let two = Node::start(2).await;
    let written = AtomicUsize::new(0);
    let joins = async {
        // Copies go faster than new entries come: the many of before have to be forgotten.
        until("some were written", || written.load(Ordering::Relaxed) > 60).await;
        written.store(0, Ordering::Relaxed);
        one.engine.add_learner(1, 2, two.peer()).await.unwrap();
        one.engine.wait_until_level(1, 2, PATIENCE).await.unwrap();
    };
    let writes = async {
        let mut interval = tokio::time::interval(Duration::from_millis(40));
        for n in 0.. {
            interval.tick().await;
            one.put_value(1, term, &format!("m{n}"), value.clone()).await.unwrap();
            written.fetch_add(1, Ordering::Relaxed);
        }
    };
    tokio::select! {
        () = joins => {}
        () = writes => {}
    }
    let written = written.into_inner();
    assert!(written > 60, "only {written}: the log did not become too long");
    one.put(1, term, "last").await.unwrap();
    until("it has all", || two.has(1, "n0") && two.has(1, "m0") && two.has(1, "last")).await;
    for node in [one, two] {
        node.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn r126_a_change_of_voters_whose_leader_is_lost_half_way_is_finished_by_the_next() {
    const SHARD: Shard = 0;
    let (one, two, three) = (Node::start(1).await, Node::start(2).await, Node::start(3).await);
    let four = Node::start(4).await;
    one.engine.found(&one.peer()).await.unwrap();
    one.take_in(2, &two).await;
    one.take_in(3, &three).await;
    one.engine.add_learner(SHARD, 4, four.peer()).await.unwrap();
    let all = BTreeSet::from([1, 2, 3, 4]);
    {
        // Asked for, and then nobody waits for it any more.
        let all = all.clone();
        let mut change = std::pin::pin!(one.engine.set_voters(SHARD, all));
        std::future::poll_fn(|context| {
            let _ = change.as_mut().poll(context);
            std::task::Poll::Ready(())
        })
        .await;
        until("it is half-way", || {
            let standing = one.engine.standing(SHARD).unwrap();
            standing.halfway && !standing.changing
        })
        .await;
    }
    let standing = one.engine.standing(SHARD).unwrap();
    assert_eq!(standing.voters, all, "it looks as if it were done");
    one.end().await;
    let nodes = [two, three, four];
    let mut leader = None;
    until("another leads", || {
        leader = nodes.iter().find(|node| {
            let number = node.engine.node();
            node.engine.leader(SHARD) == Some(number)
        });
        leader.is_some()
    })
    .await;
    let next = leader.unwrap();
    let standing = next.engine.standing(SHARD).unwrap();
    assert!(standing.halfway, "it is for whoever leads to finish: {standing:?}");
    let term = next.engine.take_over(SHARD).await.unwrap();
    next.engine.finish_voters(SHARD).await.unwrap();
    let standing = next.engine.standing(SHARD).unwrap();
    assert!(!standing.halfway, "{standing:?}");
    assert_eq!(standing.voters, all);
    next.put(SHARD, term, "with three of four").await.unwrap();
    for node in nodes {
        node.end().await;
    }
}

async fn keep_busy() {
    loop {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_micros(50) {
            std::hint::spin_loop();
        }
        tokio::task::yield_now().await;
    }
}

/// R114: what was restored before a cluster was begun is in no log, so whoever joins gets a copy of each shard.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r114_whoever_joins_gets_what_was_there_before_the_cluster_was_begun() {
    const MANY: Shard = 48;
    let shards: Vec<Shard> = (0..MANY).collect();
    let dir = tempfile::tempdir().unwrap();
    let restored = DiskOptions { sync: false, ..DiskOptions::new(dir.path().join("tables")) };
    let restored = DiskEngine::open(restored).unwrap();
    for shard in &shards {
        let term = restored.acquire(*shard).unwrap();
        let op = Op::Put { family: Family::Job, key: key(*shard, "old"), value: Bytes::from("v") };
        restored.commit(Batch { shard: *shard, term, ops: vec![op] }).unwrap();
    }
    restored.close().unwrap();
    drop(restored);
    let start = async |number, dir| {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Node::of(number, listener, dir, LogOptions::default(), &shards).await
    };
    let one = start(1, dir).await;
    let two = start(2, tempfile::tempdir().unwrap()).await;
    // On a machine that is busy it takes a moment until it is seen that something has been applied.
    let busy: Vec<_> = (0..64).map(|_| tokio::spawn(keep_busy())).collect();
    one.engine.found(&one.peer()).await.unwrap();
    busy.iter().for_each(tokio::task::JoinHandle::abort);
    for shard in shards.iter().copied() {
        one.engine.add_learner(shard, 2, two.peer()).await.unwrap();
        until("it has what was there before", || two.has(shard, "old")).await;
    }
    for node in [one, two] {
        node.end().await;
    }
}

/// A node is made a voter as soon as it has arrived, and not before, though Raft would have it: until then it refuses to
/// vote, and a majority that needed it would have no leader.
#[tokio::test(flavor = "multi_thread")]
async fn r116_a_node_that_has_yet_to_arrive_is_waited_for_before_it_votes() {
    const SHARD: Shard = 3;
    let (one, two) = (Node::start(1).await, Node::start(2).await);
    one.engine.found(&one.peer()).await.unwrap();
    one.take_in(2, &two).await;
    let term = one.acquire(SHARD).await.unwrap();
    for n in 0..20 {
        one.put(SHARD, term, &format!("n{n}")).await.unwrap();
    }
    // On a host of its own, for nobody else takes its ports while nobody listens there.
    let address =
        format!("127.116.{}.{}:2356", std::process::id() / 250 % 250, std::process::id() % 250);
    let peer = Peer { address: address.clone(), zone: String::new() };
    one.engine.add_learner(SHARD, 3, peer).await.unwrap();
    let soon = Duration::from_millis(200);
    one.engine.wait_until_arrived(SHARD, 3, soon).await.unwrap_err();

    let dir = tempfile::tempdir().unwrap();
    let log = LogOptions::default();
    let engine = Arc::new(open(dir.path(), 3, &[], log).await);
    assert!(engine.start_if_absent(SHARD).await.unwrap());
    let server = tonic::transport::Server::builder().add_service(engine.service());
    let incoming = TcpListenerStream::new(TcpListener::bind(address).await.unwrap());
    let serving = tokio::spawn(server.serve_with_incoming(incoming));
    one.engine.wait_until_arrived(SHARD, 3, PATIENCE).await.unwrap();
    one.engine.set_voters(SHARD, [1, 2, 3].into()).await.unwrap();
    one.end().await;
    until("one of the others leads, by the vote of both", || {
        let leader = two.engine.leader(SHARD);
        leader.is_some_and(|leader| leader != 1) && leader == engine.leader(SHARD)
    })
    .await;
    two.end().await;
    serving.abort();
    tokio::task::spawn_blocking(move || engine.close()).await.unwrap().unwrap();
}
