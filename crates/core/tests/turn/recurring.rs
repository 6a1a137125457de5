//! Recurring jobs: cron, periods, bounds, jitter (R5, R6, R11).

use bellwether_core::turn::Ending;

use crate::world::{Behaviour, World, job, t};

fn busy() -> World {
    let mut w = World::new();
    w.behaviour = Behaviour::Ends(Ending::Succeeded, 100);
    w
}

#[test]
fn r11_every_minute_fires_sixty_times_an_hour() {
    let mut w = busy();
    let id = w.add(job().cron("* * * * *"));
    w.until(3_600);
    assert_eq!(w.start_seconds(), (1..=60).map(|n| n * 60).collect::<Vec<_>>());
    assert_eq!(w.next_second(id), Some(3_660), "R5: a next occurrence exists");
    assert_eq!(w.ledger(id).len(), 60);
}

#[test]
fn r6_a_period_keeps_its_phase() {
    let mut w = busy();
    w.until(7);
    w.add(job().every("5m"));
    w.until(7 + 3_600);
    assert_eq!(w.start_seconds(), (1..=12).map(|n| 7 + n * 300).collect::<Vec<_>>());
}

#[test]
fn r5_a_period_after_the_end_counts_from_it() {
    let mut w = World::new();
    let id = w.add(job().every_after_finish("10s"));
    w.until(10);
    assert_eq!(w.started(id), [1]);
    w.until(100);
    assert_eq!(w.started(id), [1], "it is still running");
    assert_eq!(w.state(id).next_ms, None);
    assert!(!w.state(id).ended);
    w.succeed(crate::world::job::run(id, 1));
    assert_eq!(w.next_second(id), Some(110));
    w.until(110);
    assert_eq!(w.started(id), [1, 2]);
}

#[test]
fn r38_a_period_after_the_end_survives_pause_and_maintenance() {
    let mut w = busy();
    let paused = w.add(job().every_after_finish("10s"));
    let maintained = w.add(job().every_after_finish("10s"));
    w.until(5);
    w.pause(paused);
    w.maintenance(maintained, Some(t(25)));
    w.until(30);
    w.resume(paused);
    w.until(60);
    assert!(!w.state(paused).ended && !w.state(maintained).ended);
    assert!(!w.started(paused).is_empty() && !w.started(maintained).is_empty());
}

#[test]
fn r5_max_runs_start_and_end_bound_a_schedule() {
    let mut w = busy();
    let twice = w.add(job().every("10s").max_runs(2));
    let window = w.add(job().every("10s").start(t(25)).ends(t(45)));
    w.until(200);
    assert_eq!(w.started(twice), [1, 2]);
    assert!(w.state(twice).ended);
    assert_eq!(w.ledger_text(window), ["25 fired", "35 fired", "45 fired"]);
    assert!(w.state(window).ended);
}

#[test]
fn r5_jitter_delays_each_tick_by_a_stable_part() {
    let mut w = busy();
    let id = w.add(job().cron("* * * * *").jitter("20s"));
    w.until(600);
    let delays: Vec<i64> =
        w.starts.iter().map(|start| (start.at.0 - start.scheduled.0) / 1_000).collect();
    assert!(delays.len() >= 9 && delays.iter().all(|delay| (0..=20).contains(delay)), "{delays:?}");
    assert!(delays.iter().any(|delay| *delay != delays[0]), "{delays:?}");
    assert!(w.ledger_text(id).iter().all(|row| row.ends_with("fired")), "jitter is not lateness");
}

#[test]
fn r30_the_ledger_is_bounded_also_while_nothing_runs() {
    let mut w = busy();
    w.settings.ledger_rows = 20;
    w.memory.settings.ledger_rows = 20;
    let id = w.add(job().cron("* * * * * *"));
    w.maintenance(id, None);
    w.until(100);
    assert!(w.ledger(id).len() <= 21, "{}", w.ledger(id).len());
    assert_eq!(w.state(id).ticks as usize, w.ledger(id).len());
}
