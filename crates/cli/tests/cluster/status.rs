//! What `bellwether cluster status` says of three nodes, and of two when one is down.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::server::{PATIENCE, Server, Trio, until};

const SHARDS: usize = 6;
const NAMES: [&str; 3] = ["a", "b", "c"];

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

/// What a node says of its cluster.
fn status(node: &Server) -> Result<Value> {
    let output = cli(node, &["cluster", "status", "--json"]);
    let told: Value = serde_json::from_str(&out(&output)).with_context(|| err(&output))?;
    Ok(told["cluster"].clone())
}

/// Waits until a check passes: what nodes say of themselves comes round after a moment, and on a busy
/// machine any of them may be silent for one.
async fn until_shown(check: impl Fn() -> Result<()>) {
    let begun = Instant::now();
    let mut look = tokio::time::interval(Duration::from_millis(50));
    while let Err(wrong) = tokio::task::block_in_place(&check) {
        assert!(begun.elapsed() < PATIENCE, "{wrong:#}");
        look.tick().await;
    }
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
fn column(rows: &[Vec<String>], heading: &str) -> Result<Vec<String>> {
    let headings = rows.first().context("no such table")?;
    let at = headings.iter().position(|name| name == heading).context("no such column")?;
    let cells = rows[1..].iter().map(|row| row.get(at).cloned());
    cells.collect::<Option<_>>().context("a cell is empty")
}

/// Two columns of a table, the first one's cells in order: nodes have the order in which they joined,
/// and b and c are started at the same time.
fn by(rows: &[Vec<String>], key: &str, heading: &str) -> Result<Vec<(String, String)>> {
    let mut pairs: Vec<_> = column(rows, key)?.into_iter().zip(column(rows, heading)?).collect();
    pairs.sort();
    Ok(pairs)
}

/// Whether so many shards have these replicas, in any order.
fn have_replicas(shards: &[Vec<String>], expected: [&str; 3]) -> Result<bool> {
    let all = column(shards, "REPLICAS")?;
    let same = |cell: &String| {
        let mut names: Vec<&str> = cell.split(' ').collect();
        names.sort_unstable();
        names == expected
    };
    Ok(all.len() == SHARDS && all.iter().all(same))
}

fn pairs<const N: usize>(expected: [(&str, &str); N]) -> Vec<(String, String)> {
    expected.map(|(one, other)| (one.to_owned(), other.to_owned())).to_vec()
}

/// R84, R116: nodes, zones, shards, leaders, lag and sizes; what is down is shown as such.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r84_r96_r116_the_status_shows_nodes_zones_shards_leaders_lag_and_sizes_and_what_is_down() {
    let dir = tempfile::tempdir().unwrap();
    let mut trio = Trio::start(dir.path()).await;
    until_shown(|| check_all_up(&trio.nodes[1])).await;

    trio.nodes[2].kill();
    until_shown(|| check_one_down(&trio.nodes[1])).await;
    let waited = cli(&trio.nodes[1], &["cluster", "status", "--wait", "--timeout", "1s"]);
    assert_eq!(waited.status.code(), Some(1), "{waited:?}");
    let said = err(&waited);
    for words in ["waiting: c is down", "bellwether cluster remove c", "not whole after 1s"] {
        assert!(said.contains(words), "{words}: {said}");
    }

    trio.nodes[2].start_again().await;
    let waited = cli(&trio.nodes[1], &["cluster", "status", "--wait", "--timeout", "2m"]);
    assert!(waited.status.success(), "{waited:?}");
    until_shown(|| check_all_up(&trio.nodes[0])).await;

    trio.nodes[0].kill();
    trio.nodes[2].kill();
    until("a list that may be old is remarked on", async || {
        let listed = cli(&trio.nodes[1], &["job", "list"]);
        assert!(listed.status.success(), "{listed:?}");
        err(&listed).contains("s behind: ")
    })
    .await;
}

fn check_all_up(node: &Server) -> Result<()> {
    let told = status(node)?;
    let list = |of: &str| told[of].as_array().cloned().unwrap_or_default();
    let nodes = list("nodes");
    ensure!(nodes.len() == 3, "{told}");
    for name in NAMES {
        let node = nodes.iter().find(|node| node["name"] == name).context(name)?;
        ensure!(node["state"] == "up" && node["zone"] == json!(format!("zone-{name}")), "{node}");
        let bytes = |of: &str| node[of].as_u64().unwrap_or(0);
        ensure!(0 < bytes("log_bytes") && bytes("log_bytes") <= bytes("disk_bytes"), "{node}");
    }
    ensure!(list("shards").len() == SHARDS, "{told}");
    for shard in list("shards") {
        ensure!(NAMES.iter().any(|name| shard["leader"] == *name), "{shard}");
        ensure!(shard["lag"].as_object().is_some_and(|lag| lag.len() == 3), "{shard}");
        ensure!(shard["down"] == json!([]) && shard["bytes"].is_u64(), "{shard}");
    }
    let table = out(&cli(node, &["cluster", "status"]));
    let nodes = rows(&table, "NODE");
    let states = pairs([("a", "up"), ("b", "up"), ("c", "up")]);
    ensure!(by(&nodes, "NODE", "STATE")? == states, "{table}");
    let zones = pairs([("a", "zone-a"), ("b", "zone-b"), ("c", "zone-c")]);
    ensure!(by(&nodes, "NODE", "ZONE")? == zones, "{table}");
    ensure!(column(&nodes, "LOG")?.iter().all(|size| size.contains("iB")), "{table}");
    let shards = rows(&table, "SHARD");
    ensure!(column(&shards, "SHARD")? == ["0", "1", "2", "3", "4", "5"], "{table}");
    ensure!(have_replicas(&shards, NAMES)?, "{table}");
    ensure!(column(&shards, "LAG")?.iter().all(|lag| lag.parse::<u64>().is_ok()), "{table}");
    ensure!(column(&shards, "SIZE")?.iter().all(|size| size.ends_with('B')), "{table}");
    Ok(())
}

fn check_one_down(node: &Server) -> Result<()> {
    let told = status(node)?;
    for shard in told["shards"].as_array().context("no shards")? {
        ensure!(shard["down"] == json!(["c"]), "{shard}");
        ensure!(shard["lag"].get("c").is_none(), "nobody knows: {shard}");
    }
    let table = out(&cli(node, &["cluster", "status"]));
    let states = pairs([("a", "up"), ("b", "up"), ("c", "down")]);
    ensure!(by(&rows(&table, "NODE"), "NODE", "STATE")? == states, "{table}");
    let shards = rows(&table, "SHARD");
    ensure!(have_replicas(&shards, ["a", "b", "c:down"])?, "{table}");
    ensure!(column(&shards, "LAG")? == ["?"; SHARDS], "{table}");
    Ok(())
}
