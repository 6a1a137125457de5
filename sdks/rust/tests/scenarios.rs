//! The scenarios that every SDK has, against a real server.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bellwether_api::{Job, JobSpec, Run as ApiRun, RunStatus};
use bellwether_sdk::{
    Client, Failure, OutputFilter, PageFilter, Run, RunningWorker, Stopped, Worker,
};
use bellwether_server::{Config, RunningServer};
use futures::TryStreamExt;
use serde_json::{Value, json};
use tempfile::TempDir;

struct World {
    server: RunningServer,
    client: Client,
    dir: TempDir,
}

fn config(dir: &TempDir, port: u16) -> Config {
    Config {
        listen: ([127, 0, 0, 1], port).into(),
        data_dir: dir.path().join("data"),
        shards: Some(4),
        worker: false,
        worker_heartbeat: Duration::from_millis(300),
        worker_lease: Duration::from_secs(10),
        ..Config::default()
    }
}

impl World {
    async fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        let server = bellwether_server::start(config(&dir, 0)).await.unwrap();
        let client = Client::new(&server.local_addr().to_string()).unwrap();
        World { server, client, dir }
    }

    fn worker(&self) -> Worker {
        Worker::new(self.server.local_addr().to_string())
    }

    async fn add(&self, job_type: &str, more: Value) -> Job {
        let mut spec = json!({"schedule": {"delay": "0s"}, "job_type": job_type});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let spec: JobSpec = serde_json::from_value(spec).unwrap();
        self.client.create_job(spec).await.unwrap().job
    }

    async fn run_when(&self, job: &Job, wanted: impl Fn(&ApiRun) -> bool) -> ApiRun {
        let begun = Instant::now();
        let mut interval = tokio::time::interval(Duration::from_millis(10));
        loop {
            interval.tick().await;
            let runs = self.client.job_runs(&job.info.id, &PageFilter::default()).await;
            let run = runs.ok().and_then(|page| page.items.into_iter().next());
            match run {
                Some(run) if wanted(&run) => return run,
                last => assert!(begun.elapsed() < Duration::from_secs(60), "{last:#?}"),
            }
        }
    }

    async fn output(&self, run: &ApiRun) -> String {
        let stream = self.client.output(&run.id, OutputFilter::default()).await.unwrap();
        let chunks: Vec<_> = stream.try_collect().await.unwrap();
        String::from_utf8(chunks.concat()).unwrap()
    }

    async fn ended(&self, job: &Job) -> ApiRun {
        self.run_when(job, |run| {
            matches!(
                run.status,
                RunStatus::Succeeded | RunStatus::Failed | RunStatus::Canceled | RunStatus::Lost
            )
        })
        .await
    }
}

async fn end(worker: RunningWorker) {
    worker.shutdown(Duration::from_secs(20)).await.unwrap();
}

#[derive(serde::Deserialize)]
struct Mail {
    user_id: u64,
}

#[tokio::test]
async fn a_handler_gets_its_payload_and_its_result_and_output_are_kept() {
    let world = World::new().await;
    let worker = world
        .worker()
        .name("mailer")
        .handler("mail", |run: Run| async move {
            let mail: Mail = run.payload()?;
            run.log(format!("to {} as {}", mail.user_id, run.idempotency_key()));
            assert!(run.fencing_token > 0 && run.attempt == 1 && run.scheduled_at.ends_with('Z'));
            Ok(json!({"sent": mail.user_id}))
        })
        .start()
        .unwrap();
    let job = world.add("mail", json!({"payload": {"user_id": 7}})).await;
    let run = world.ended(&job).await;
    assert_eq!(run.status, RunStatus::Succeeded, "{run:#?}");
    assert_eq!(run.attempts[0].worker, "mailer");
    assert_eq!(run.attempts[0].result.as_ref().unwrap().get(), r#"{"sent":7}"#);
    assert_eq!(world.output(&run).await, format!("to 7 as {}\n", run.id));
    let bad = world.add("mail", json!({"payload": "what?", "retries": 3})).await;
    let run = world.ended(&bad).await;
    assert_eq!(run.attempts.len(), 1, "another attempt would not help");
    assert_eq!(run.attempts[0].reason.as_deref(), Some("invalid_payload"));
    end(worker).await;
}

#[tokio::test]
async fn r59_r60_failures_are_retried_under_the_same_key_unless_for_good() {
    let world = World::new().await;
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = tries.clone();
    let worker = world
        .worker()
        .handler("flaky", move |run: Run| {
            let n = counted.fetch_add(1, Ordering::SeqCst);
            async move {
                run.log(run.idempotency_key());
                if n == 0 {
                    return Err(Failure::failed("not yet").because("too_early"));
                }
                Ok(())
            }
        })
        .handler("broken", |_| async { Err::<(), _>(Failure::for_good("never")) })
        .handler("rude", |_| async {
            panic!("oh no");
            #[allow(unreachable_code)]
            Ok(())
        })
        .start()
        .unwrap();
    let flaky = world.add("flaky", json!({"retry": {"max": 3, "initial": "100ms"}})).await;
    let run = world.ended(&flaky).await;
    assert_eq!((run.status, run.attempts.len()), (RunStatus::Succeeded, 2), "{run:#?}");
    assert_eq!(run.attempts[0].reason.as_deref(), Some("too_early"));
    let broken = world.add("broken", json!({"retries": 3})).await;
    assert_eq!(world.ended(&broken).await.attempts.len(), 1);
    let rude = world.add("rude", json!({})).await;
    let run = world.ended(&rude).await;
    assert_eq!(run.attempts[0].reason.as_deref(), Some("panic"));
    assert!(run.attempts[0].detail.as_ref().unwrap().contains("oh no"));
    end(worker).await;
}

#[tokio::test]
async fn r39_cancellation_and_timeouts_are_seen_by_handlers() {
    let world = World::new().await;
    let worker = world
        .worker()
        .handler("wait", |run: Run| async move {
            let why = run.canceled().await;
            run.log(format!("{why:?}"));
            Err::<(), _>(Failure::failed("stopped"))
        })
        .start()
        .unwrap();
    let job = world.add("wait", json!({})).await;
    let run = world.run_when(&job, |run| run.status != RunStatus::Queued).await;
    world.client.cancel_run(&run.id).await.unwrap();
    assert_eq!(world.ended(&job).await.status, RunStatus::Canceled);
    assert_eq!(world.output(&run).await, format!("{:?}\n", Stopped::Canceled));
    let late = world.add("wait", json!({"timeout": "200ms"})).await;
    let run = world.ended(&late).await;
    assert_eq!(run.attempts[0].reason.as_deref(), Some("timeout"), "{run:#?}");
    end(worker).await;
}

#[tokio::test]
async fn r51_r52_a_restart_of_the_server_does_not_disturb_a_handler() {
    let world = World::new().await;
    let (go, gate) = tokio::sync::watch::channel(false);
    let starts = Arc::new(AtomicUsize::new(0));
    let counted = starts.clone();
    let worker = world
        .worker()
        .handler("long", move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            let mut gate = gate.clone();
            async move {
                gate.wait_for(|open| *open).await?;
                Ok("done")
            }
        })
        .start()
        .unwrap();
    let job = world.add("long", json!({"delivery": "at_most_once"})).await;
    world.run_when(&job, |run| run.status != RunStatus::Queued).await;
    let World { server, client, dir } = world;
    let port = server.local_addr().port();
    server.shutdown().await.unwrap();
    // It ends while nobody is there to be told.
    go.send(true).unwrap();
    let server = bellwether_server::start(config(&dir, port)).await.unwrap();
    let world = World { server, client, dir };
    let run = world.ended(&job).await;
    assert_eq!(run.status, RunStatus::Succeeded, "{run:#?}");
    assert_eq!(run.attempts[0].result.as_ref().unwrap().get(), "\"done\"");
    assert_eq!(starts.load(Ordering::SeqCst), 1);
    end(worker).await;
}

#[tokio::test]
async fn shutting_down_finishes_what_is_under_way_and_slots_are_kept() {
    let world = World::new().await;
    let (go, gate) = tokio::sync::watch::channel(false);
    let at_once = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let (counted, highest) = (at_once.clone(), most.clone());
    let worker = world
        .worker()
        .slots(2)
        .handler("slow", move |_| {
            let now = counted.fetch_add(1, Ordering::SeqCst) + 1;
            highest.fetch_max(now, Ordering::SeqCst);
            let (mut gate, counted) = (gate.clone(), counted.clone());
            async move {
                gate.wait_for(|open| *open).await?;
                counted.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            }
        })
        .start()
        .unwrap();
    let mut jobs = Vec::new();
    for _ in 0..4 {
        jobs.push(world.add("slow", json!({})).await);
    }
    let begun = Instant::now();
    let mut interval = tokio::time::interval(Duration::from_millis(10));
    while worker.running() < 2 {
        interval.tick().await;
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
    let ending = tokio::spawn(worker.shutdown(Duration::from_secs(30)));
    go.send(true).unwrap();
    ending.await.unwrap().unwrap();
    assert_eq!(most.load(Ordering::SeqCst), 2, "never more than there are slots");
    let mut done = 0;
    for job in &jobs {
        let run = world.run_when(job, |run| run.status != RunStatus::Running).await;
        done += usize::from(run.status == RunStatus::Succeeded);
    }
    assert!((2..=4).contains(&done), "what was under way is done: {done}");
}

#[tokio::test]
async fn what_makes_no_sense_is_told() {
    let none = Worker::new("127.0.0.1:1").start().err().unwrap();
    assert!(none.to_string().contains("handler"), "{none}");
    let world = World::new().await;
    let mut bad = world.worker().name("a b").handler("x", |_| async { Ok(()) }).start().unwrap();
    let refused = bad.ended().await.unwrap_err();
    assert!(refused.to_string().contains("name"), "{refused}");
}

#[tokio::test]
async fn r116_of_several_servers_the_one_that_is_there_is_worked_for_and_asked() {
    let world = World::new().await;
    let servers = format!("127.0.0.1:1,{}", world.server.local_addr());
    let worker = Worker::new(&servers).handler("x", |_| async { Ok("done") }).start().unwrap();
    let job = world.add("x", json!({})).await;
    assert_eq!(world.ended(&job).await.status, RunStatus::Succeeded);
    let client = Client::new(&servers).unwrap();
    assert_eq!(client.job(&job.info.id).await.unwrap().info.id, job.info.id);
    end(worker).await;
}
