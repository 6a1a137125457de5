//! The log against a model: whatever is asked of it and whenever it crashes, what it called durable
//! is there afterwards, and what is there is what it had been told up to some moment.

mod late;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use proptest::prelude::*;

use super::*;

/// Segments in memory, which lose what was not synced.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    segments: BTreeMap<u64, Segment>,
    syncs: usize,
    /// The sync of this number fails.
    failing_sync: Option<usize>,
    /// Called by the next sync.
    in_sync: Option<Box<dyn FnOnce() + Send>>,
    /// Called before something is read the next time.
    before_read: Option<Box<dyn FnOnce() + Send>>,
}

#[derive(Clone, Default)]
struct Segment {
    bytes: Vec<u8>,
    durable: usize,
}

impl Memory {
    /// The machine goes down: of what was not synced a part is left, and its last bytes may be wrong.
    fn crash(&self, kept_percent: usize, garbage: bool) {
        for segment in self.0.lock().segments.values_mut() {
            let loose = segment.bytes.len() - segment.durable;
            segment.bytes.truncate(segment.durable + loose * kept_percent / 100);
            if garbage && loose > 0 {
                let length = segment.bytes.len();
                segment.bytes.extend_from_slice(&[0xA5; 7]);
                if length > segment.durable {
                    segment.bytes[length - 1] ^= 0x10;
                }
            }
        }
    }

    /// A bit of what is durable goes bad.
    fn rot(&self, segment: u64, at: usize) {
        let mut inner = self.0.lock();
        inner.segments.get_mut(&segment).unwrap().bytes[at] ^= 1;
    }

    fn of<T>(&self, number: u64, work: impl FnOnce(&mut Segment) -> T) -> io::Result<T> {
        let mut inner = self.0.lock();
        inner.segments.get_mut(&number).map(work).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Files for Memory {
    fn list(&self) -> io::Result<Vec<u64>> {
        Ok(self.0.lock().segments.keys().copied().collect())
    }

    fn read(&self, segment: u64) -> io::Result<Bytes> {
        self.of(segment, |segment| Bytes::from(segment.bytes.clone()))
    }

    fn read_at(&self, segment: u64, at: u64, length: usize) -> io::Result<Bytes> {
        let before_read = self.0.lock().before_read.take();
        before_read.into_iter().for_each(|call| call());
        let at = at as usize;
        self.of(segment, |segment| Bytes::copy_from_slice(&segment.bytes[at..at + length]))
    }

    fn create(&self, segment: u64) -> io::Result<()> {
        let before = self.0.lock().segments.insert(segment, Segment::default());
        assert!(before.is_none());
        Ok(())
    }

    fn append(&self, segment: u64, bytes: &[u8]) -> io::Result<()> {
        self.of(segment, |segment| segment.bytes.extend_from_slice(bytes))
    }

    fn sync(&self, segment: u64) -> io::Result<()> {
        {
            let mut inner = self.0.lock();
            inner.syncs += 1;
            if inner.failing_sync == Some(inner.syncs) {
                return Err(io::Error::other("the disk has failed"));
            }
        }
        let in_sync = self.0.lock().in_sync.take();
        in_sync.into_iter().for_each(|call| call());
        self.of(segment, |segment| segment.durable = segment.bytes.len())
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

fn options() -> LogOptions {
    let defaults = LogOptions::default();
    LogOptions { segment_bytes: 300, memory_bytes: 40, gather_max: 100, ..defaults }
}

fn point(term: u64, index: u64) -> Point {
    Point { term, index }
}

fn entry(term: u64, index: u64) -> Entry {
    Entry { point: point(term, index), data: Bytes::from(format!("{term}/{index}")) }
}

/// A group as it should be.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    state: GroupState,
    entries: Vec<Entry>,
}

impl Model {
    fn next(&self) -> u64 {
        let last = self.entries.last().map(|entry| entry.point.index);
        last.or(self.state.purged.map(|point| point.index)).map_or(0, |index| index + 1)
    }
}

fn look(log: &GroupLog) -> Model {
    let entries = log.read(0..u64::MAX, usize::MAX).unwrap();
    Model { state: log.state(), entries }
}

#[derive(Clone, Debug)]
enum Act {
    Append(u16, u64),
    Truncate(u16, u64),
    Purge(u16, u64),
    Carry(u16),
    Vote(u16),
    Committed(u16),
    Turn,
    Crash(usize, bool),
}

fn act() -> impl Strategy<Value = Act> {
    let group = 0..3_u16;
    prop_oneof![
        6 => (group.clone(), 1..5_u64).prop_map(|(g, n)| Act::Append(g, n)),
        1 => (group.clone(), 0..6_u64).prop_map(|(g, n)| Act::Truncate(g, n)),
        2 => (group.clone(), 0..6_u64).prop_map(|(g, n)| Act::Purge(g, n)),
        2 => group.clone().prop_map(Act::Carry),
        1 => group.clone().prop_map(Act::Vote),
        1 => group.prop_map(Act::Committed),
        5 => Just(Act::Turn),
        1 => (0..=100_usize, any::<bool>()).prop_map(|(kept, bad)| Act::Crash(kept, bad)),
    ]
}

/// A log with what it has been told, and how much of that it has called durable.
struct World {
    files: Memory,
    log: Log,
    pump: Pump,
    /// How each group was after each thing it was told; the first is how it was at the start.
    told: BTreeMap<u16, Vec<Model>>,
    durable: BTreeMap<u16, Arc<AtomicUsize>>,
    term: u64,
}

impl World {
    fn new(files: Memory) -> World {
        let (log, pump) = Log::with_pump(files.clone(), options()).unwrap();
        let told = (0..3).map(|g| (g, vec![look(&log.group(g).unwrap())])).collect();
        let durable = (0..3).map(|g| (g, Arc::default())).collect();
        World { files, log, pump, told, durable, term: 1 }
    }

    fn group(&self, number: u16) -> GroupLog {
        self.log.group(number).unwrap()
    }

    /// Notes what a group is told; to be called when it is durable.
    fn tell(&mut self, number: u16, change: impl FnOnce(&mut Model)) -> Done {
        let told = self.told.get_mut(&number).unwrap();
        let mut model = told.last().unwrap().clone();
        change(&mut model);
        told.push(model);
        let (count, durable) = (told.len() - 1, self.durable[&number].clone());
        Box::new(move |result| {
            result.unwrap();
            durable.fetch_max(count, Ordering::Relaxed);
        })
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Append(group, count) => {
                let next = self.told[&group].last().unwrap().next();
                let entries: Vec<Entry> =
                    (next..next + count).map(|index| entry(self.term, index)).collect();
                let done = self.tell(group, |model| model.entries.extend(entries.clone()));
                self.group(group).append(entries, done).unwrap();
            }
            Act::Truncate(group, count) => {
                self.term += 1;
                let model = self.told[&group].last().unwrap();
                let keep = model.entries.len().saturating_sub(count as usize);
                let after = match keep {
                    0 => model.state.purged,
                    keep => Some(model.entries[keep - 1].point),
                };
                let done = self.tell(group, |model| model.entries.truncate(keep));
                self.group(group).truncate(after, done).unwrap();
            }
            Act::Purge(group, count) => {
                let model = self.told[&group].last().unwrap();
                let Some(last) = model.entries.iter().take(count as usize).next_back() else {
                    return;
                };
                let upto = last.point;
                drop(self.tell(group, |model| {
                    model.entries.retain(|entry| entry.point.index > upto.index);
                    model.state.purged = Some(upto);
                }));
                self.group(group).purge(upto).unwrap();
            }
            Act::Carry(group) => self.group(group).carry(u64::MAX).unwrap(),
            Act::Vote(group) => {
                self.term += 1;
                let vote = Bytes::from(format!("vote {}", self.term));
                let done = self.tell(group, |model| model.state.vote = Some(vote.clone()));
                self.group(group).save_vote(vote, done).unwrap();
            }
            Act::Committed(group) => {
                let last = self.told[&group].last().unwrap().entries.last().map(|e| e.point);
                let Some(last) = last else { return };
                drop(self.tell(group, |model| model.state.committed = Some(last)));
                self.group(group).save_committed(last);
            }
            Act::Turn => while self.pump.turn() {},
            Act::Crash(kept, garbage) => self.crash(kept, garbage),
        }
        for number in 0..3 {
            let expected = self.told[&number].last().unwrap();
            assert_eq!(look(&self.group(number)), *expected, "what was handed over can be read");
        }
    }

    fn crash(&mut self, kept: usize, garbage: bool) {
        self.files.crash(kept, garbage);
        let after = World::new(self.files.clone());
        for number in 0..3 {
            let (told, found) = (&self.told[&number], look(&after.group(number)));
            let durable = self.durable[&number].load(Ordering::Relaxed);
            assert!(
                told[durable..].contains(&found),
                "group {number} is as it was at some moment after {durable}: {found:?}\n{told:#?}"
            );
        }
        *self = World { term: self.term + 1, ..after };
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn r111_what_was_called_durable_survives_any_crash(
        acts in proptest::collection::vec(act(), 1..60)
    ) {
        let mut world = World::new(Memory::default());
        for act in acts {
            world.act(act);
        }
        world.act(Act::Turn);
        world.crash(0, true);
    }
}

#[test]
fn old_segments_go_once_all_groups_have_purged_them() {
    let mut world = World::new(Memory::default());
    for _ in 0..40 {
        for group in 0..3 {
            world.act(Act::Append(group, 4));
            world.act(Act::Turn);
        }
        for group in 0..2 {
            world.act(Act::Purge(group, 5));
        }
        world.act(Act::Turn);
    }
    let many = world.files.list().unwrap().len();
    assert!(many > 20, "group 2 needs them all: {many}");
    world.act(Act::Purge(2, 1_000));
    world.act(Act::Turn);
    let few = world.files.list().unwrap().len();
    assert!(few <= 2, "nobody needs them: {few}");
    world.crash(0, false);
}

#[test]
fn r112_a_group_that_cannot_commit_what_it_has_keeps_no_old_segments() {
    let mut world = World::new(Memory::default());
    for act in [Act::Append(0, 9), Act::Turn, Act::Purge(0, 3), Act::Turn] {
        world.act(act);
    }
    for turn in 0..3 {
        for _ in 0..20 {
            world.act(Act::Append(1, 4));
            world.act(Act::Turn);
        }
        for act in [Act::Purge(1, 100), Act::Turn] {
            world.act(act);
        }
        let many = world.files.list().unwrap().len();
        assert!(many > 5, "group 0 keeps them: {many}");
        for act in [Act::Carry(0), Act::Turn] {
            world.act(act);
        }
        let few = world.files.list().unwrap().len();
        assert!(few <= 3, "turn {turn}: {few}");
        let left = look(&world.group(0));
        assert_eq!(left.entries.len(), 6);
        world.act(Act::Crash(0, turn == 1));
        assert_eq!(look(&world.group(0)), left);
    }
    // It can commit again, and goes on.
    for act in [Act::Append(0, 2), Act::Turn, Act::Purge(0, 100), Act::Turn, Act::Crash(0, false)] {
        world.act(act);
    }
}

#[test]
fn r112_entries_that_were_cut_off_keep_no_segment_alive() {
    let mut world = World::new(Memory::default());
    for act in [Act::Append(0, 40), Act::Turn, Act::Truncate(0, 39), Act::Append(0, 1), Act::Turn] {
        world.act(act);
    }
    let fill = |world: &mut World| {
        for _ in 0..20 {
            world.act(Act::Append(1, 4));
            world.act(Act::Turn);
        }
    };
    fill(&mut world);
    // Group 0 is quiet from here on, and needs nothing of what it has written.
    for act in [Act::Purge(0, 100), Act::Purge(1, 100), Act::Turn] {
        world.act(act);
    }
    assert!(world.files.list().unwrap().len() <= 2, "nobody needs the others");
    // The same after a start.
    for act in [Act::Append(0, 40), Act::Turn, Act::Truncate(0, 39), Act::Append(0, 1), Act::Turn] {
        world.act(act);
    }
    fill(&mut world);
    for act in [Act::Crash(100, false), Act::Purge(0, 100), Act::Purge(1, 100), Act::Turn] {
        world.act(act);
    }
    assert!(world.files.list().unwrap().len() <= 2, "nobody needs the others");
}

#[test]
fn r111_a_write_for_which_nobody_waited_may_be_lost_and_a_later_one_not() {
    let mut world = World::new(Memory::default());
    let length = |world: &World| world.files.read(1).unwrap().len();
    world.act(Act::Append(0, 2));
    world.act(Act::Turn);
    let durable = length(&world);
    world.act(Act::Purge(0, 1));
    world.act(Act::Turn);
    world.act(Act::Append(0, 1));
    world.act(Act::Turn);
    assert!(length(&world) < 300, "all in one segment");
    // The power fails while the last write is synced: its pages are on the disk, others are not.
    world.files.rot(1, durable + 9);
    let (log, _) = Log::with_pump(world.files.clone(), options()).unwrap();
    assert_eq!(look(&log.group(0).unwrap()).entries, [entry(1, 0), entry(1, 1)]);
}

#[test]
fn r111_a_segment_whose_beginning_was_cut_short_makes_nobody_forget_a_vote() {
    let mut world = World::new(Memory::default());
    for group in 0..3 {
        world.act(Act::Vote(group));
    }
    while world.files.list().unwrap().len() < 2 {
        world.act(Act::Append(0, 1));
        world.act(Act::Turn);
    }
    let votes: Vec<_> = (0..3).map(|group| world.group(group).state().vote).collect();
    let beginning = world.files.read(2).unwrap();
    let sound = world.files.0.lock().segments.clone();
    for length in 0..beginning.len() {
        let torn = beginning.slice(..length);
        if super::recover::has_mark(&torn.slice(16.min(length)..)) {
            break;
        }
        let mut segments = sound.clone();
        let segment = segments.get_mut(&2).unwrap();
        segment.bytes.truncate(length);
        segment.durable = length;
        world.files.0.lock().segments = segments;
        let (log, mut pump) = Log::with_pump(world.files.clone(), options()).unwrap();
        // The first segment goes, and the log is opened again.
        let upto = log.group(0).unwrap().read(0..u64::MAX, usize::MAX).unwrap();
        let upto = upto.last().unwrap().point;
        for n in 1..=20 {
            let next = entry(1, upto.index + n);
            log.group(0).unwrap().append(vec![next], Box::new(|done| done.unwrap())).unwrap();
            while pump.turn() {}
        }
        log.group(0).unwrap().purge(point(1, upto.index + 20)).unwrap();
        while pump.turn() {}
        assert!(!world.files.list().unwrap().contains(&1));
        let (log, _) = Log::with_pump(world.files.clone(), options()).unwrap();
        let after: Vec<_> = (0..3).map(|group| log.group(group).unwrap().state().vote).collect();
        assert_eq!(after, votes, "cut to {length} bytes");
    }
}

#[test]
fn damage_in_the_midst_is_not_mistaken_for_an_interrupted_write() {
    let mut world = World::new(Memory::default());
    for _ in 0..3 {
        world.act(Act::Append(0, 1));
        world.act(Act::Turn);
    }
    let length = world.files.read(1).unwrap().len();
    let sound = world.files.0.lock().segments.clone();
    for at in 0..length {
        let last_write = length - 60;
        world.files.0.lock().segments = sound.clone();
        world.files.rot(1, at);
        let opened = Log::with_pump(world.files.clone(), options());
        let told = opened.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(at >= last_write || told.contains("damaged"), "byte {at} of {length}: {told:?}");
    }
}

#[test]
fn a_failed_sync_ends_the_log() {
    let files = Memory::default();
    let (log, mut pump) = Log::with_pump(files.clone(), options()).unwrap();
    let group = log.group(0).unwrap();
    let outcome = Arc::new(Mutex::new(Vec::new()));
    let done = || -> Done {
        let outcome = outcome.clone();
        Box::new(move |result| outcome.lock().push(result.is_ok()))
    };
    group.append(vec![entry(1, 0)], done()).unwrap();
    pump.turn();
    let next = files.0.lock().syncs + 1;
    files.0.lock().failing_sync = Some(next);
    group.append(vec![entry(1, 1)], done()).unwrap();
    group.save_vote(Bytes::from_static(b"v"), done()).unwrap();
    pump.turn();
    assert_eq!(*outcome.lock(), [true, false, false]);
    assert!(group.append(vec![entry(1, 2)], done()).is_err());
    group.save_vote(Bytes::from_static(b"v"), done()).unwrap();
    pump.turn();
    assert_eq!(*outcome.lock(), [true, false, false, false]);
}

#[test]
fn a_log_in_a_directory_is_there_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Log::open(Directory::open(dir.path()).unwrap(), options()).unwrap();
    let log = open();
    let group = log.group(5).unwrap();
    let (sender, durable) = crossbeam_channel::unbounded();
    for index in 0..50 {
        let sender = sender.clone();
        let done = Box::new(move |result: io::Result<()>| sender.send(result.is_ok()).unwrap());
        group.append(vec![entry(1, index)], done).unwrap();
    }
    for _ in 0..50 {
        assert!(durable.recv().unwrap());
    }
    group.purge(point(1, 20)).unwrap();
    drop(group);
    log.close();
    // The room that it had made and not used is gone, and it goes on where it ended.
    let log = open();
    let (sender, durable) = crossbeam_channel::bounded(1);
    let done = Box::new(move |result: io::Result<()>| sender.send(result.is_ok()).unwrap());
    log.group(5).unwrap().append(vec![entry(2, 50)], done).unwrap();
    assert!(durable.recv().unwrap());
    log.close();
    let log = open();
    assert_eq!(log.groups(), [5]);
    let group = log.group(5).unwrap();
    assert_eq!((group.range(), group.last()), (21..51, Some(point(2, 50))));
    assert_eq!(group.read(0..23, usize::MAX).unwrap(), [entry(1, 21), entry(1, 22)]);
    assert_eq!(group.read(30..50, 1).unwrap().len(), 1, "one at least");
    assert_eq!(group.read(30..50, 8).unwrap().len(), 2, "as many as fit");
}

/// A process that is killed loses nothing of what it has written; the machine may go down later.
#[test]
fn r111_what_was_found_at_a_start_survives_the_next_crash() {
    let mut world = World::new(Memory::default());
    for act in [Act::Append(2, 1), Act::Turn, Act::Purge(2, 1), Act::Turn, Act::Crash(100, false)] {
        world.act(act);
    }
    assert_eq!(world.group(2).state().purged, Some(point(1, 0)));
    world.crash(0, false);
    assert_eq!(world.group(2).state().purged, Some(point(1, 0)));
}

/// The log of a group with entries of 64 KiB, of which these are there and those are committed.
fn large_entries(count: u64, committed: u64) -> (GroupLog, Log) {
    let (log, mut pump) = Log::with_pump(Memory::default(), LogOptions::default()).unwrap();
    let group = log.group(3).unwrap();
    let data = Bytes::from(vec![7; 64 * 1024]);
    let entry = |index| Entry { point: point(1, index), data: data.clone() };
    group.append((1..=count).map(entry).collect(), Box::new(|done| done.unwrap())).unwrap();
    while pump.turn() {}
    group.save_committed(point(1, committed));
    (group, log)
}

#[tokio::test(start_paused = true)]
async fn r65_only_what_is_far_behind_waits_before_it_is_sent() {
    let (group, _log) = large_entries(80, 80);
    let sent = |range: Range<u64>| {
        let (entries, wait) = group.to_send(range, usize::MAX).unwrap();
        (entries.len(), wait)
    };
    assert_eq!(sent(77..81), (4, Duration::ZERO), "less than 256 KiB is there");
    assert_eq!(sent(1..81), (2, Duration::ZERO), "little at a time, and nobody is before it");
    assert_eq!(sent(3..81), (2, Duration::from_micros(62_500)), "128 KiB at 2 MiB/s come first");
    assert_eq!(sent(77..81), (4, Duration::ZERO), "it does not wait in that line");
}

#[tokio::test(start_paused = true)]
async fn r65_nobody_is_held_up_without_whom_nothing_is_committed() {
    let (group, _log) = large_entries(80, 79);
    group.to_send(1..81, usize::MAX).unwrap();
    let sent = || group.to_send(3..81, usize::MAX).unwrap();
    tokio::time::advance(Duration::from_millis(40)).await;
    assert_eq!(sent().1, Duration::from_micros(22_500), "it may be on its way");
    tokio::time::advance(Duration::from_millis(1_000)).await;
    let (entries, wait) = sent();
    assert_eq!((entries.len(), wait), (78, Duration::ZERO));
    group.save_committed(point(1, 80));
    assert_eq!(sent().0.len(), 2, "the others do without it again");
}

#[test]
fn r112_what_lies_in_the_newest_segments_stays() {
    let mut world = World::new(Memory::default());
    world.act(Act::Append(1, 1));
    for _ in 0..40 {
        world.act(Act::Append(0, 4));
        world.act(Act::Turn);
    }
    let newest = *world.files.list().unwrap().last().unwrap();
    assert!(newest > 10, "{newest}");
    let loads = world.log.loads(4);
    let [busy, idle, empty] = loads[..] else { panic!("{loads:?}") };
    assert_eq!((busy.segments, idle.segments, empty.segments), (newest - 1, newest - 1, 0));
    assert_eq!((idle.old, empty.old), (Some(0), None));
    let old = busy.old.unwrap();
    for (group, count) in [(0, old + 1), (1, 1)] {
        world.act(Act::Purge(group, count));
    }
    world.act(Act::Turn);
    assert_eq!(world.files.list().unwrap().first(), Some(&(newest - 3)), "four of {newest}");
    assert_eq!(world.group(0).range().start, old + 1);
    world.crash(0, false);
}
