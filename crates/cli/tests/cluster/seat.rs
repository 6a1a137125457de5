//! A worker that asks by plain HTTP, while the node is killed that has its seat.

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bellwether_api::JobSpec;
use serde_json::{Value, json};

use crate::insist::insist;
use crate::server::{Extra, PATIENCE, Server, Trio, until};

fn http() -> reqwest::Client {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    reqwest::Client::builder().tls_backend_preconfigured(tls).no_proxy().build().unwrap()
}

/// Asks a node until it answers.
async fn ask(http: &reqwest::Client, node: &Server, what: &str, body: &Value) -> Value {
    let begun = Instant::now();
    let mut again = tokio::time::interval(Duration::from_millis(50));
    loop {
        let url = format!("http://{}/v1/queues/mail/{what}", node.listen());
        let answer = http.post(url).body(body.to_string()).send().await.unwrap();
        let (status, text) = (answer.status().as_u16(), answer.text().await.unwrap());
        if status == 200 {
            return serde_json::from_str(&text).unwrap();
        }
        assert!(status == 503 && begun.elapsed() < PATIENCE, "{what}: {status} {text}");
        again.tick().await;
    }
}

fn cli(node: &Server, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bellwether"));
    let output = command.args(args).args(["--server", node.listen()]).output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r21_a_worker_that_polls_keeps_its_runs_when_the_node_of_its_seat_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    // Longer than a busy machine makes a node wait, and others.
    let extra = Extra { lease: Some("8s"), ..Extra::default() };
    let mut trio = Trio::start_with(dir.path(), extra).await;
    let http = http();
    let mut runs: Vec<Value> = Vec::new();
    for n in 0..8 {
        let spec = json!({"key": format!("mail-{n}"), "schedule": {"delay": "0s"}, "job_type": "x",
            "queue": "mail", "delivery": "at_least_once"});
        let spec: JobSpec = serde_json::from_value(spec).unwrap();
        insist(async || trio.nodes[1].client.create_job(spec.clone()).await).await;
    }
    let beat = |runs: &[Value]| {
        let of =
            |run: &Value| json!({"run_id": run["run_id"], "fencing_token": run["fencing_token"]});
        json!({"worker": "p", "runs": runs.iter().map(of).collect::<Vec<_>>()})
    };
    while runs.len() < 8 {
        let lease = json!({"worker": "p", "job_types": ["x"], "max": 8, "wait": "1s"});
        let leased = ask(&http, &trio.nodes[0], "lease", &lease).await;
        runs.extend(leased["runs"].as_array().unwrap().iter().cloned());
        let kept = ask(&http, &trio.nodes[2], "heartbeat", &beat(&runs)).await;
        assert_eq!(kept["lost"], json!([]), "{kept}");
    }
    let mut list = String::new();
    until("all nodes tell their workers in time", async || {
        ask(&http, &trio.nodes[2], "heartbeat", &beat(&runs)).await;
        list = cli(&trio.nodes[2], &["worker", "list"]);
        !list.contains("not shown")
    })
    .await;
    assert!(list.contains("NODE") && list.contains("a@server"), "{list}");
    trio.nodes[0].kill();
    // For as long as it takes until a worker that nobody hears is given up, and longer.
    let killed = Instant::now();
    let mut again = tokio::time::interval(Duration::from_millis(300));
    for node in trio.nodes[1..].iter().cycle() {
        let kept = ask(&http, node, "heartbeat", &beat(&runs)).await;
        assert_eq!(kept["lost"], json!([]), "{:?} after it was killed: {kept}", killed.elapsed());
        if killed.elapsed() > Duration::from_secs(17) {
            break;
        }
        again.tick().await;
    }
    let list = cli(&trio.nodes[1], &["worker", "list"]);
    assert!(list.contains("not shown: a") && !list.contains("a@server"), "{list}");
    for (run, node) in runs.iter().zip(trio.nodes[1..].iter().cycle()) {
        let ended = json!({"run_id": run["run_id"], "fencing_token": run["fencing_token"],
            "outcome": "succeeded"});
        let body = json!({"worker": "p", "results": [ended]});
        let answer = ask(&http, node, "complete", &body).await;
        assert_eq!(answer["results"][0]["accepted"], true, "{answer}");
        let found = node.client.run(run["run_id"].as_str().unwrap()).await.unwrap();
        let last = found.attempts.last().unwrap();
        assert_eq!(json!(last.fencing_token), run["fencing_token"], "no other came: {found:?}");
    }
}
