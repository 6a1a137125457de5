//! Whoever comes late: what has been moved, removed or forgotten meanwhile, and writes that take long.

use super::*;

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
