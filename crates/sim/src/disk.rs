//! The disk of a node: segments of its log and its tables. It outlives the node's process, and loses
//! what was not synced when the machine goes down.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bellwether_raft::log::Files;
use bellwether_store::MemoryTables;
use bytes::Bytes;
use parking_lot::Mutex;

use crate::chance::Chance;
use crate::links::Place;

/// A simulated disk.
pub struct Disk {
    /// What the log is kept in.
    pub segments: Segments,
    /// What the log is applied to.
    pub tables: Arc<MemoryTables>,
    /// Where copies of shards are received: real files, which are whole or are not there.
    pub copies: PathBuf,
}

impl Disk {
    /// An empty one.
    #[must_use]
    pub fn new(dir: &Path, node: Place) -> Disk {
        let copies = dir.join(node.to_string());
        Disk { segments: Segments::default(), tables: Arc::default(), copies }
    }

    /// The machine goes down.
    pub fn crash(&self, chance: &mut Chance) {
        self.segments.crash(chance);
        let loose = self.tables.loose() as u64;
        self.tables.crash(chance.below(loose + 1) as usize);
    }
}

/// Segments of a log.
#[derive(Clone, Default)]
pub struct Segments(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    segments: BTreeMap<u64, Segment>,
    /// The power is failing: what is written may get there, but nothing is synced any more.
    failing: bool,
    /// A mistake made on purpose: a sync does nothing.
    lies: bool,
}

#[derive(Default)]
struct Segment {
    bytes: Vec<u8>,
    durable: usize,
}

impl Segments {
    /// From here on nothing can be synced, until the machine has gone down.
    pub fn fail(&self) {
        self.0.lock().failing = true;
    }

    /// A mistake to be made on purpose: whoever asks for a sync is told that it was done.
    pub fn lie(&self) {
        self.0.lock().lies = true;
    }

    /// Of what was not synced a part is left, and its end may be garbage.
    fn crash(&self, chance: &mut Chance) {
        let mut inner = self.0.lock();
        inner.failing = false;
        for segment in inner.segments.values_mut() {
            let loose = segment.bytes.len() - segment.durable;
            let kept = chance.below(loose as u64 + 1) as usize;
            segment.bytes.truncate(segment.durable + kept);
            if loose > 0 && chance.one_in(3) {
                segment.bytes.extend_from_slice(&[0xA5; 7]);
            }
        }
    }

    fn of<T>(&self, number: u64, work: impl FnOnce(&mut Segment) -> T) -> io::Result<T> {
        let mut inner = self.0.lock();
        inner.segments.get_mut(&number).map(work).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Files for Segments {
    fn list(&self) -> io::Result<Vec<u64>> {
        Ok(self.0.lock().segments.keys().copied().collect())
    }

    fn read(&self, segment: u64) -> io::Result<Bytes> {
        self.of(segment, |segment| Bytes::from(segment.bytes.clone()))
    }

    fn read_at(&self, segment: u64, at: u64, length: usize) -> io::Result<Bytes> {
        let at = at as usize;
        self.of(segment, |segment| segment.bytes.get(at..at + length).map(Bytes::copy_from_slice))?
            .ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    fn create(&self, segment: u64) -> io::Result<()> {
        match self.0.lock().segments.insert(segment, Segment::default()) {
            None => Ok(()),
            Some(_) => Err(io::ErrorKind::AlreadyExists.into()),
        }
    }

    fn append(&self, segment: u64, bytes: &[u8]) -> io::Result<()> {
        self.of(segment, |segment| segment.bytes.extend_from_slice(bytes))
    }

    fn sync(&self, segment: u64) -> io::Result<()> {
        let (failing, lies) = {
            let inner = self.0.lock();
            (inner.failing, inner.lies)
        };
        if failing {
            return Err(io::Error::other("the power is failing"));
        }
        self.of(segment, |segment| {
            if !lies {
                segment.durable = segment.bytes.len();
            }
        })
    }

    fn cut(&self, segment: u64, length: u64) -> io::Result<()> {
        self.of(segment, |segment| {
            segment.bytes.truncate(length as usize);
            segment.durable = segment.bytes.len();
        })
    }

    fn remove(&self, segment: u64) -> io::Result<()> {
        self.0.lock().segments.remove(&segment);
        Ok(())
    }
}
