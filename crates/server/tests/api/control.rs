//! Stopping, pausing, triggering, retrying.

use bellwether_api::{MaintenanceRequest, PauseRequest, RunStatus, TickFate};
use bellwether_client::PageFilter;
use serde_json::json;

use crate::world::{World, ended, now};

#[tokio::test]
async fn r39_cancel_kills_the_whole_process_tree() {
    let world = World::new().await;
    let pids = world.dir.path().join("pids");
    let line =
        format!("(echo $$; sh -c 'echo $$; sleep 600' & sleep 600) > {}; true", pids.display());
    let mut spec = now(&line);
    spec["grace"] = json!("200ms");
    let job = world.add(spec).await;
    let run = world.run_when(&job, 1, |run| run.status == RunStatus::Running).await;
    let mut started = Vec::new();
    world
        .until("both processes run", async || {
            let text = std::fs::read_to_string(&pids).unwrap_or_default();
            started = text.split_whitespace().map(str::to_owned).collect();
            started.len() == 2
        })
        .await;
    world.client.cancel_run(&run.id).await.unwrap();
    let run = world.first_run(&job).await;
    assert_eq!(run.status, RunStatus::Canceled);
    for pid in started {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z"), "{pid} lives: {state}");
    }
}

#[tokio::test]
async fn r38_nothing_launches_while_paused_and_nothing_was_missed() {
    let world = World::new().await;
    let job = world.add(json!({"key": "p", "schedule": "every 1s", "command": "true"})).await;
    world.first_run(&job).await;
    let paused =
        world.client.pause_job("p", &PauseRequest { note: Some("quiet".into()) }).await.unwrap();
    assert_eq!(paused.info.paused.unwrap().note, "quiet");
    let before = world.runs(&job).await.len();
    let other = world.add(json!({"schedule": "every 1s", "command": "true"})).await;
    world.until("the other ran thrice", async || world.runs(&other).await.len() >= 3).await;
    assert_eq!(world.runs(&job).await.len(), before);
    world.client.resume_job("p").await.unwrap();
    world.until("it runs again", async || world.runs(&job).await.len() > before).await;
    let ticks = world.client.ticks("p", &PageFilter::default()).await.unwrap().items;
    let skipped: Vec<_> = ticks.iter().filter(|tick| tick.fate == TickFate::Skipped).collect();
    assert_eq!(skipped.len(), 1, "one row for all ticks of the pause: {ticks:#?}");
    assert_eq!(skipped[0].reason.as_deref(), Some("paused"));
    assert!(skipped[0].count >= 2);
}

#[tokio::test]
async fn r40_r41_groups_are_paused_maintained_and_resumed() {
    let world = World::new().await;
    let mut jobs = Vec::new();
    for n in 0..3 {
        jobs.push(world.add(json!({"schedule": "every 1s", "command": "true", "group": "g", "key": format!("g{n}")})).await);
    }
    let mut waiting = now("true");
    waiting["schedule"] = json!({"delay": "1s"});
    waiting["group"] = json!("g");
    world.client.maintain_group("g", &MaintenanceRequest::default()).await.unwrap();
    let once = world.add(waiting).await;
    world
        .until("skipped for maintenance", async || {
            let ticks = world.client.ticks("g0", &PageFilter::default()).await.unwrap().items;
            ticks.iter().any(|tick| tick.reason.as_deref() == Some("maintenance"))
        })
        .await;
    let groups = world.client.groups(&PageFilter::default()).await.unwrap().items;
    assert_eq!((groups.len(), groups[0].jobs), (1, 4));
    assert!(groups[0].maintenance.is_some());
    world.client.resume_group("g").await.unwrap();
    world.first_run(&once).await;
    for job in &jobs {
        world.until("the group runs", async || !world.runs(job).await.is_empty()).await;
    }
}

#[tokio::test]
async fn r40_r41_jobs_show_what_their_group_is_in() {
    let world = World::new().await;
    for (key, group) in [("a", "g"), ("b", "g"), ("c", "h")] {
        world
            .add(json!({"key": key, "schedule": "@yearly", "command": "true", "group": group}))
            .await;
    }
    let note = Some("repairs".to_owned());
    world.client.pause_group("g", &PauseRequest { note }).await.unwrap();
    world.client.maintain_group("h", &MaintenanceRequest::default()).await.unwrap();
    let (_, list) = world.send("GET", "/v1/jobs?key_prefix=", "").await;
    let items = list["items"].as_array().unwrap();
    let paused: Vec<_> = items.iter().map(|job| job["group_paused"]["note"].as_str()).collect();
    assert_eq!(paused, [Some("repairs"), Some("repairs"), None]);
    assert!(items[2]["group_maintenance"]["at"].is_string(), "{list}");
    let (_, job) = world.send("GET", "/v1/jobs/a", "").await;
    assert_eq!(
        (&job["status"], &job["group_paused"]["note"]),
        (&json!("scheduled"), &json!("repairs"))
    );
    let (_, found) = world.send("GET", "/v1/jobs?status=paused", "").await;
    assert_eq!(found["items"], json!([]), "`paused` is the job's own status");
    let (_, why) = world.send("GET", "/v1/jobs/a/why", "").await;
    let answer = why["answer"].as_str().unwrap();
    assert!(answer.starts_with("It does not run because its group 'g' is paused (by "), "{answer}");
    world.client.resume_group("g").await.unwrap();
    let (_, job) = world.send("GET", "/v1/jobs/a", "").await;
    assert!(job.get("group_paused").is_none(), "{job}");
}

#[tokio::test]
async fn r40_maintenance_that_is_over_before_it_begins_is_refused() {
    let world = World::new().await;
    world.add(json!({"key": "m", "schedule": "@yearly", "command": "true"})).await;
    for (body, code, field) in [
        (json!({"for": "0s"}), "out_of_range", "for"),
        (json!({"until": "2020-01-01T00:00:00Z"}), "in_the_past", "until"),
        (json!({"until": "1970-01-01T00:00:00Z"}), "in_the_past", "until"),
        (json!({"until": "2999-01-01T00:00:00Z", "for": "1h"}), "conflicting_fields", "for"),
    ] {
        for path in ["/v1/jobs/m/maintenance", "/v1/groups/g/maintenance"] {
            let (status, problem) = world.send("POST", path, body.to_string()).await;
            assert_eq!(status, 422, "{problem}");
            assert_eq!((&problem["code"], &problem["field"]), (&json!(code), &json!(field)));
        }
    }
    let (_, job) = world.send("GET", "/v1/jobs/m", "").await;
    assert!(job.get("maintenance").is_none(), "{job}");
}

#[tokio::test]
async fn r31_r71_a_one_off_brought_forward_says_so_at_its_own_time() {
    let world = World::new().await;
    let at = "2999-01-01T00:00:00.000Z";
    let job = world.add(json!({"key": "later", "schedule_time": at, "command": "true"})).await;
    let run = world.client.trigger_job("later").await.unwrap();
    assert_eq!(world.first_run(&job).await.id, run);
    let (_, ticks) = world.send("GET", "/v1/jobs/later/ticks", "").await;
    let own = &ticks["items"][0];
    assert_eq!((&own["at"], &own["fate"]), (&json!(at), &json!("merged")), "{ticks}");
    assert_eq!((&own["reason"], &own["run_id"]), (&json!("trigger"), &json!(run)));
    let (_, why) = world.send("GET", &format!("/v1/jobs/later/why?at={at}"), "").await;
    let answer = why["answer"].as_str().unwrap();
    assert!(answer.contains("a trigger brought it forward"), "{answer}");
    let again = world.client.trigger_job("later").await.unwrap();
    assert_ne!(again, run, "one that has run runs once more");
}

#[tokio::test]
async fn trigger_runs_now_and_respects_overlap() {
    let world = World::new().await;
    let gate = world.dir.path().join("gate");
    let line = format!("while [ ! -e {} ]; do sleep 0.02; done", gate.display());
    let job = world.add(json!({"key": "t", "schedule": "@yearly", "command": line})).await;
    world.client.trigger_job("t").await.unwrap();
    let refused = world.client.trigger_job("t").await.unwrap_err();
    assert_eq!(refused.code(), Some("overlap"), "R34: one at a time");
    std::fs::write(gate, "").unwrap();
    assert_eq!(world.first_run(&job).await.cause, "trigger");
}

#[tokio::test]
async fn r60_a_retried_run_keeps_its_idempotency_key() {
    let world = World::new().await;
    let record = world.dir.path().join("keys");
    let line = format!(
        "echo $BELLWETHER_IDEMPOTENCY_KEY >> {}; [ $BELLWETHER_ATTEMPT -ge 3 ]",
        record.display()
    );
    let mut spec = now(&line);
    spec["retry"] = json!({"max": 1, "initial": "1ms"});
    let job = world.add(spec).await;
    let run = world.first_run(&job).await;
    assert_eq!(run.status, RunStatus::Failed);
    world.client.retry_run(&run.id).await.unwrap();
    let run = world.run_when(&job, 1, |run| run.status == RunStatus::Succeeded).await;
    assert_eq!(run.attempts.len(), 3);
    let keys = std::fs::read_to_string(record).unwrap();
    assert!(keys.lines().count() == 3 && keys.lines().all(|key| key == run.idempotency_key));
}

#[tokio::test]
async fn r72_r73_r74_ordering_keys_run_one_at_a_time_and_a_failure_stops_only_its_own() {
    let world = World::new().await;
    let record = world.dir.path().join("order");
    let ordered = |key: &str, name: &str, exit: u32| {
        let line = format!("echo {key}{name} >> {}; exit {exit}", record.display());
        let mut spec = now(&line);
        spec["ordering_key"] = json!(key);
        spec
    };
    let first = world.add(ordered("a", "1", 1)).await;
    assert_eq!(world.first_run(&first).await.status, RunStatus::Failed);
    let second = world.add(ordered("a", "2", 0)).await;
    let other = world.add(ordered("b", "1", 0)).await;
    assert_eq!(world.first_run(&other).await.status, RunStatus::Succeeded, "R74: other keys go on");
    let held = world.run_when(&second, 1, |run| run.held_by.is_some()).await;
    assert_eq!(held.held_by.as_deref(), Some("order"));
    let blocking = world.first_run(&first).await.id;
    world.client.cancel_run(&blocking).await.unwrap();
    assert_eq!(
        world.run_when(&second, 1, |run| ended(run.status)).await.status,
        RunStatus::Succeeded
    );
    assert_eq!(std::fs::read_to_string(record).unwrap(), "a1\nb1\na2\n");
}

#[tokio::test]
async fn r62_a_paid_order_cancels_and_an_unpaid_one_expires() {
    let world = World::new().await;
    let record = world.dir.path().join("expired");
    let order = |name: &str| json!({"key": name, "schedule": {"delay": "8s"}, "command": format!("echo {name} >> {}", record.display())});
    world.add(order("paid")).await;
    let unpaid = world.add(order("unpaid")).await;
    world.client.delete_job("paid").await.unwrap();
    world.first_run(&unpaid).await;
    assert_eq!(std::fs::read_to_string(record).unwrap(), "unpaid\n");
    assert!(world.client.job("paid").await.unwrap_err().is_not_found());
}
