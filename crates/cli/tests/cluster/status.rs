//! What `bellwether cluster status` says of three nodes, and of two when one is down.

use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::server::{Server, Trio, until};

fn cli(node: &Server, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bellwether"));
    command.args(args).args(["--server", node.listen()]).env("NO_COLOR", "1").output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn status(node: &Server) -> Value {
    let output = cli(node, &["cluster", "status", "--json"]);
    let told: Value = serde_json::from_str(&out(&output)).unwrap();
    told["cluster"].clone()
}

/// The rows of a table by their first column, without those of other tables.
fn rows(table: &str, heading: &str) -> Vec<Vec<String>> {
    let words = |line: &str| {
        line.split("  ").map(str::trim).filter(|w| !w.is_empty()).map(str::to_owned).collect()
    };
    let from = table.lines().skip_while(|line| !line.trim_start().starts_with(heading));
    from.take_while(|line| !line.is_empty()).map(words).collect()
}

/// The column of a table that has a heading.
fn column(rows: &[Vec<String>], heading: &str) -> Vec<String> {
    let at = rows[0].iter().position(|name| name == heading).unwrap();
    rows[1..].iter().map(|row| row[at].clone()).collect()
}

/// R84, R116: nodes, zones, shards, leaders, lag and sizes; what is down is shown as such.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r84_r116_the_status_shows_nodes_zones_shards_leaders_lag_and_sizes_and_what_is_down() {
    let dir = tempfile::tempdir().unwrap();
    let mut trio = Trio::start(dir.path()).await;
    check_all_up(&trio.nodes[1]);

    trio.nodes[2].kill();
    until("the others notice", async || status(&trio.nodes[1])["nodes"][2]["state"] == "down")
        .await;
    check_one_down(&trio.nodes[1]);
    let waited = cli(&trio.nodes[1], &["cluster", "status", "--wait", "--timeout", "1s"]);
    assert_eq!(waited.status.code(), Some(1), "{waited:?}");
    let said = err(&waited);
    for words in ["waiting: c is down", "bellwether cluster remove c", "not whole after 1s"] {
        assert!(said.contains(words), "{words}: {said}");
    }

    trio.nodes[2].start_again().await;
    let waited = cli(&trio.nodes[1], &["cluster", "status", "--wait", "--timeout", "2m"]);
    assert!(waited.status.success(), "{waited:?}");
    check_all_up(&trio.nodes[0]);

    trio.nodes[0].kill();
    trio.nodes[2].kill();
    until("a list that may be old is remarked on", async || {
        let listed = cli(&trio.nodes[1], &["job", "list"]);
        assert!(listed.status.success(), "{listed:?}");
        err(&listed).contains("s behind: ")
    })
    .await;
}

fn check_all_up(node: &Server) {
    let told = status(node);
    let nodes = told["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 3);
    for (node, name) in nodes.iter().zip(["a", "b", "c"]) {
        assert_eq!((&node["name"], &node["state"]), (&json!(name), &json!("up")), "{node}");
        assert_eq!(node["zone"], json!(format!("zone-{name}")));
        let (log, disk) =
            (node["log_bytes"].as_u64().unwrap(), node["disk_bytes"].as_u64().unwrap());
        assert!(0 < log && log <= disk, "{node}");
    }
    let shards = told["shards"].as_array().unwrap();
    assert_eq!(shards.len(), 6);
    for shard in shards {
        assert!(["a", "b", "c"].contains(&shard["leader"].as_str().unwrap()), "{shard}");
        assert_eq!(shard["lag"].as_object().unwrap().len(), 3, "{shard}");
        assert_eq!(shard["down"], json!([]), "{shard}");
        assert!(shard["bytes"].is_u64(), "{shard}");
    }
    let table = out(&cli(node, &["cluster", "status"]));
    let nodes = rows(&table, "NODE");
    assert_eq!(column(&nodes, "NODE"), ["a", "b", "c"], "{table}");
    assert_eq!(column(&nodes, "STATE"), ["up"; 3], "{table}");
    assert_eq!(column(&nodes, "ZONE"), ["zone-a", "zone-b", "zone-c"], "{table}");
    assert!(column(&nodes, "LOG").iter().all(|size| size.contains("iB")), "{table}");
    let shards = rows(&table, "SHARD");
    assert_eq!(column(&shards, "SHARD"), ["0", "1", "2", "3", "4", "5"], "{table}");
    assert_eq!(column(&shards, "REPLICAS"), ["a b c"; 6], "{table}");
    assert!(column(&shards, "LAG").iter().all(|lag| lag.parse::<u64>().is_ok()), "{table}");
    assert!(column(&shards, "SIZE").iter().all(|size| size.ends_with('B')), "{table}");
}

fn check_one_down(node: &Server) {
    for shard in status(node)["shards"].as_array().unwrap() {
        assert_eq!(shard["down"], json!(["c"]), "{shard}");
        assert!(shard["lag"].get("c").is_none(), "nobody knows: {shard}");
    }
    let table = out(&cli(node, &["cluster", "status"]));
    assert_eq!(column(&rows(&table, "NODE"), "STATE"), ["up", "up", "down"], "{table}");
    let shards = rows(&table, "SHARD");
    assert_eq!(column(&shards, "REPLICAS"), ["a b c:down"; 6], "{table}");
    assert_eq!(column(&shards, "LAG"), ["?"; 6], "{table}");
}
