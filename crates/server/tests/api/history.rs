//! What is known about runs afterwards.

use bellwether_api::{JobStatus, RunStatus, TickFate};
use bellwether_client::PageFilter;
use serde_json::json;

use crate::world::{World, ended, now};

#[tokio::test]
async fn r25_r26_history_has_an_entry_per_attempt_with_all_fields() {
    let world = World::new().await;
    let mut spec = now("echo out; exit 3");
    spec["retry"] = json!({"max": 1, "initial": "10ms"});
    let job = world.add(spec).await;
    let run = world.first_run(&job).await;
    assert_eq!(run.status, RunStatus::Failed);
    assert_eq!(run.attempts.len(), 2, "R59: one retry, two attempts");
    for attempt in &run.attempts {
        assert_eq!(attempt.outcome.as_deref(), Some("failed"));
        assert_eq!(attempt.exit_code, Some(3));
        assert!(attempt.started_at.is_some() && attempt.finished_at.is_some());
        assert!(attempt.duration_ms.is_some() && !attempt.worker.is_empty());
        assert_eq!(attempt.output_bytes, Some(4));
    }
    assert!(run.attempts[0].fencing_token < run.attempts[1].fencing_token);
    assert_eq!(world.client.job(&job.info.id).await.unwrap().info.status, JobStatus::Failed);
}

#[tokio::test]
async fn what_a_command_of_the_built_in_worker_uses_is_in_its_history() {
    let world = World::new().await;
    let job = world.add(now("dd if=/dev/zero of=/dev/null bs=300M count=5")).await;
    let attempt = world.first_run(&job).await.attempts.remove(0);
    assert!(attempt.memory_max_bytes.unwrap() > 300_000_000, "{attempt:?}");
    assert!(attempt.cpu_ms.unwrap() > 0, "{attempt:?}");
}

#[tokio::test]
async fn r24_status_reflects_every_transition() {
    let world = World::new().await;
    let gate = world.dir.path().join("gate");
    let mut spec = now(&format!("while [ ! -e {} ]; do sleep 0.02; done", gate.display()));
    spec["schedule"] = json!({"delay": "1s"});
    let job = world.add(spec).await;
    let status = async || world.client.job(&job.info.id).await.unwrap().info.status;
    assert_eq!(status().await, JobStatus::Scheduled);
    world.run_when(&job, 1, |run| run.status == RunStatus::Running).await;
    assert_eq!(status().await, JobStatus::Running);
    std::fs::write(gate, "").unwrap();
    world.first_run(&job).await;
    assert_eq!(status().await, JobStatus::Completed);
}

#[tokio::test]
async fn r28_events_tell_the_whole_story() {
    let world = World::new().await;
    let job = world.add(now("true")).await;
    let run = world.first_run(&job).await;
    let events = world.client.run_events(&run.id).await.unwrap().items;
    let names: Vec<&str> = events.iter().map(|event| event.event.as_str()).collect();
    assert_eq!(names, ["queued", "claimed", "started", "succeeded"]);
    assert_eq!(events[1].worker.as_ref(), Some(&run.attempts[0].worker));
    assert_eq!(events[3].exit_code, Some(0));
    assert!(events.windows(2).all(|two| two[0].at <= two[1].at));
}

#[tokio::test]
async fn r5_r18_r29_a_recurring_job_grows_history_and_not_its_definition() {
    let world = World::new().await;
    let job = world.add(json!({"schedule": "every 1s", "command": "true"})).await;
    world.until("three runs", async || world.runs(&job).await.len() >= 3).await;
    let runs = world.runs(&job).await;
    let mut ids: Vec<&str> = runs.iter().map(|run| run.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), runs.len(), "R29: every run has an id of its own");
    let now = world.client.job(&job.info.id).await.unwrap();
    assert_eq!(now.info.revision, 1, "R18: the definition is untouched");
    assert!(now.info.execution_time > job.info.execution_time, "R5: a next time exists");
    let ticks = world.client.ticks(&job.info.id, &PageFilter::default()).await.unwrap().items;
    assert!(ticks.iter().all(|tick| matches!(tick.fate, TickFate::Fired | TickFate::Late)));
    assert!(ticks.len() >= 3);
}

#[tokio::test]
async fn r13_the_next_times_are_the_schedules() {
    let world = World::new().await;
    world.add(json!({"key": "n", "schedule": "0 0 1 1 *", "command": "true"})).await;
    let next = world.client.next_times("n", 3).await.unwrap();
    assert_eq!(next.times.len(), 3);
    assert!(next.times.iter().all(|time| time.to_string().ends_with("-01-01T00:00:00.000Z")));
}

#[tokio::test]
async fn why_answers_from_the_ledger() {
    let world = World::new().await;
    let job = world
        .add(json!({"key": "w", "schedule": "every 1s", "command": "sleep 5", "overlap": "skip"}))
        .await;
    let mut skipped = None;
    world
        .until("a skipped tick", async || {
            let ticks =
                world.client.ticks(&job.info.id, &PageFilter::default()).await.unwrap().items;
            skipped = ticks.into_iter().find(|tick| tick.fate == TickFate::Skipped);
            skipped.is_some()
        })
        .await;
    let why = world.client.why("w", skipped.map(|tick| tick.at)).await.unwrap();
    assert!(
        why.answer.contains("did not run") && why.answer.contains("still open"),
        "{}",
        why.answer
    );
    world.client.delete_job("w").await.unwrap();
}

#[tokio::test]
async fn r3_delays_run_in_the_order_of_their_times() {
    let world = World::new().await;
    let record = world.dir.path().join("order");
    let mut last = None;
    for delay in [900, 600, 300, 1_200] {
        let mut spec = now(&format!("echo {delay} >> {}", record.display()));
        spec["schedule"] = json!({"delay": format!("{delay}ms")});
        last = Some(world.add(spec).await);
    }
    world.run_when(&last.unwrap(), 1, |run| ended(run.status)).await;
    let order = std::fs::read_to_string(record).unwrap();
    assert_eq!(order.split_whitespace().collect::<Vec<_>>(), ["300", "600", "900", "1200"]);
}

#[tokio::test]
async fn r4_an_earlier_job_added_later_wakes_the_scheduler() {
    let world = World::with(|config| config.shards = Some(1)).await;
    let late = world.add(json!({"schedule": {"delay": "1h"}, "command": "true"})).await;
    let early = world.add(json!({"schedule": {"delay": "500ms"}, "command": "true"})).await;
    let run = world.first_run(&early).await;
    let lag = run.started_at.unwrap().0.since_ms(run.scheduled_at.0);
    assert!(lag < 5_000, "started {lag} ms late");
    assert!(world.runs(&late).await.is_empty());
}
