//! Whoever comes late: what has been moved, removed or forgotten meanwhile, and writes that take long.

use super::*;

/// A group with six entries, all of them in the first of many segments and none in memory.
fn old_entries() -> (Memory, GroupLog, Log, Pump) {
    let files = Memory::default();
    let none_in_memory = LogOptions { memory_bytes: 0, ..options() };
    let (log, mut pump) = Log::with_pump(files.clone(), none_in_memory).unwrap();
    let append = |number, index| {
        let group = log.group(number).unwrap();
        group.append(vec![entry(1, index)], Box::new(|done| done.unwrap())).unwrap();
    };
    (0..6).for_each(|index| append(0, index));
    while pump.turn() {}
    for index in 0..40 {
        append(1, index);
        while pump.turn() {}
    }
    log.group(1).unwrap().purge(point(1, 39)).unwrap();
    while pump.turn() {}
    assert!(files.list().unwrap().len() > 3);
    (files, log.group(0).unwrap(), log, pump)
}

#[test]
fn r112_entries_that_are_carried_while_they_are_read_are_read_where_they_are_now() {
    let (files, group, log, mut pump) = old_entries();
    let (reading, removed) = (group.clone(), files.clone());
    files.0.lock().before_read = Some(Box::new(move || {
        reading.carry(u64::MAX).unwrap();
        while pump.turn() {}
        assert!(!removed.list().unwrap().contains(&1), "where they were found is gone");
    }));
    let expected: Vec<_> = (0..6).map(|index| entry(1, index)).collect();
    assert_eq!(group.read(0..u64::MAX, usize::MAX).unwrap(), expected);
    assert!(log.failure().is_none());
}

#[test]
fn r112_entries_that_are_purged_while_they_are_read_are_not_there() {
    let (files, group, log, mut pump) = old_entries();
    let (reading, removed) = (group.clone(), files.clone());
    files.0.lock().before_read = Some(Box::new(move || {
        reading.purge(point(1, 5)).unwrap();
        while pump.turn() {}
        assert!(!removed.list().unwrap().contains(&1), "where they were found is gone");
    }));
    assert_eq!(group.read(0..u64::MAX, usize::MAX).unwrap(), []);
    assert!(log.failure().is_none());
}

#[test]
fn r111_a_segment_that_is_missing_is_not_mistaken_for_one_that_was_purged() {
    let (files, group, _log, _pump) = old_entries();
    files.remove(1).unwrap();
    let error = group.read(0..u64::MAX, usize::MAX).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

#[test]
fn r126_a_group_that_was_forgotten_is_not_there_again_because_somebody_comes_late() {
    let (files, group, log, mut pump) = old_entries();
    log.forget(0, Box::new(|done| done.unwrap())).unwrap();
    while pump.turn() {}
    group.carry(u64::MAX).unwrap();
    assert_eq!((group.last(), group.state()), (None, GroupState::default()));
    assert_eq!(group.read(0..u64::MAX, usize::MAX).unwrap(), []);
    group.purge(point(1, 3)).unwrap();
    group.save_committed(point(1, 3));
    assert!(log.existing(0).unwrap().is_none());
    while pump.turn() {}
    assert_eq!(log.groups(), [1]);
    let (log, _pump) = Log::with_pump(files, options()).unwrap();
    assert_eq!(log.groups(), [1], "nor after a start");
    assert!(log.existing(1).unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn r112_how_long_a_write_takes_can_be_seen() {
    let files = Memory::default();
    let (log, mut pump) = Log::with_pump(files.clone(), options()).unwrap();
    let log = Arc::new(log);
    let append = |index| {
        log.group(0)
            .unwrap()
            .append(vec![entry(1, index)], Box::new(|done| done.unwrap()))
            .unwrap();
    };
    append(0);
    pump.turn();
    append(1);
    let begun = Instant::now();
    let (looking, seen) = (log.clone(), Arc::new(Mutex::new(None)));
    let see = seen.clone();
    let later = begun + Duration::from_secs(40);
    files.0.lock().in_sync = Some(Box::new(move || *see.lock() = looking.writing_for(later)));
    assert_eq!(log.writing_for(later), None);
    pump.turn();
    assert_eq!(*seen.lock(), Some(Duration::from_secs(40)));
    assert_eq!(log.writing_for(later), None);
}
