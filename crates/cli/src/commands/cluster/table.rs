//! The tables of `bellwether cluster status`, and that of workers.

use std::collections::BTreeSet;

use anyhow::Result;
use bellwether_api::{Cluster, Restored, ShardState, Worker};
use bellwether_core::time::format_duration_ms;

use super::bytes_text;
use crate::context::Context;
use crate::show::{Column, Table, Tone};

/// Prints nodes, shards and workers.
pub fn print(context: &mut Context, cluster: &Cluster, workers: &[Worker]) -> Result<()> {
    let screen = &mut context.screen;
    screen.field("cluster", &cluster.id)?;
    screen.field("version", &versions_text(cluster))?;
    screen.field("replicas", &format!("{} of each shard", cluster.replicas))?;
    for (name, text) in [("clocks", clocks_text(cluster)), ("zones", zones_text(cluster))] {
        if let Some(text) = text {
            screen.field(name, &text)?;
        }
    }
    for restored in &cluster.restored {
        let (at, taken) = (restored.restored_at.0, restored.taken_at.0);
        screen.field(
            "restored",
            &format!("{} from a backup of {}", screen.clock(at), screen.clock(taken)),
        )?;
        for then in became(restored) {
            screen.field("then", &then)?;
        }
    }
    screen.line("")?;
    let mut nodes = Table::new(&[
        Column::text("NODE"),
        Column::new("STATE"),
        Column::text("ZONE"),
        Column::new("LISTENS"),
        Column::text("PEERS"),
        Column::new("STARTED"),
        Column::text("VERSION"),
        Column::number("LEADS"),
        Column::number("REPLICAS"),
        Column::number("DISK"),
        Column::number("LOG"),
    ]);
    for node in &cluster.nodes {
        nodes.row([
            (node.name.clone(), Tone::Plain),
            (node.state.clone(), node_tone(&node.state)),
            (node.zone.clone(), Tone::Plain),
            (node.listen.clone(), Tone::Plain),
            (node.peer.clone(), Tone::Plain),
            (node.started_at.map_or_else(String::new, |at| screen.when(at.0)), Tone::Plain),
            (node.version.clone().unwrap_or_default(), Tone::Plain),
            (node.leads.to_string(), Tone::Plain),
            (node.replicas.to_string(), Tone::Plain),
            (bytes_text(node.disk_bytes), Tone::Plain),
            (bytes_text(node.log_bytes), Tone::Plain),
        ]);
    }
    screen.table(&nodes)?;
    screen.line("")?;
    let mut shards = Table::new(&[
        Column::number("SHARD"),
        Column::text("LEADER"),
        Column::text("REPLICAS"),
        Column::number("LAG"),
        Column::number("SIZE"),
        Column::number("TERM"),
        Column::number("OPEN"),
        Column::number("READY"),
        Column::number("PLANNED SOON"),
    ]);
    for shard in &cluster.shards {
        shards.row([
            (shard.shard.to_string(), Tone::Plain),
            match &shard.leader {
                Some(leader) => (leader.clone(), Tone::Plain),
                None => ("nobody".to_owned(), Tone::Bad),
            },
            (replicas_text(shard), replicas_tone(shard)),
            (lag_text(shard), Tone::Plain),
            (bytes_text(shard.bytes), Tone::Plain),
            (shard.term.to_string(), Tone::Faint),
            (shard.open_runs.to_string(), Tone::Plain),
            (shard.ready_runs.to_string(), Tone::Plain),
            (shard.wheel_entries.to_string(), Tone::Plain),
        ]);
    }
    screen.table(&shards)?;
    screen.line("")?;
    if workers.is_empty() {
        screen.line("there are no workers: nothing will be launched")?;
        return Ok(());
    }
    screen.table(&worker_table(workers, cluster.nodes.len() > 1))?;
    Ok(())
}

/// What the nodes are; if they are not all the same, somebody has an upgrade to finish.
fn versions_text(cluster: &Cluster) -> String {
    let said = cluster.nodes.iter().filter_map(|node| node.version.as_deref());
    let versions: BTreeSet<&str> = said.filter(|version| !version.is_empty()).collect();
    if versions.len() < 2 {
        return cluster.version.clone();
    }
    let versions: Vec<&str> = versions.into_iter().collect();
    format!("{}: not all nodes have been upgraded yet", versions.join(" and "))
}

/// Clocks that differ by more are told of.
const CLOCKS_APART_MS: u64 = 500;

/// Whose clock differs from that of the node that answers.
fn clocks_text(cluster: &Cluster) -> Option<String> {
    let apart = |ms: i64| ms.unsigned_abs() > CLOCKS_APART_MS;
    let off = cluster.nodes.iter().filter(|node| apart(node.clock_ahead_ms)).map(|node| {
        let side = if node.clock_ahead_ms > 0 { "ahead" } else { "behind" };
        let by = format_duration_ms(node.clock_ahead_ms.unsigned_abs());
        format!("that of {} is {by} {side}", node.name)
    });
    let off: Vec<String> = off.collect();
    let text = || format!("{}: launches are early or late by that, use NTP", off.join(", "));
    (!off.is_empty()).then(text)
}

/// That zones are named and too few for the loss of one to be borne.
fn zones_text(cluster: &Cluster) -> Option<String> {
    let zones: BTreeSet<&str> = cluster.nodes.iter().map(|node| node.zone.as_str()).collect();
    let text =
        "2, so a shard stands still if the one is lost that has more of its replicas; 3 bear that";
    (zones.len() == 2 && cluster.nodes.len() > 2).then(|| text.to_owned())
}

fn node_tone(state: &str) -> Tone {
    match state {
        "up" => Tone::Good,
        "down" => Tone::Bad,
        _ => Tone::Busy,
    }
}

/// What became of jobs and runs that may have gone on between a backup and its restore. They were
/// counted then: somebody may have let held jobs go on since.
fn became(restored: &Restored) -> Vec<String> {
    let lines = [
        (restored.held_jobs, "jobs were held that may have run in between"),
        (restored.held_batches, "batches were held, whose other items may have run in between"),
        (restored.lost_runs, "runs were given up as lost"),
        (restored.repeated_runs, "runs were started again"),
    ];
    let some = lines.into_iter().filter(|(count, _)| *count > 0);
    some.map(|(count, what)| format!("{count} {what}")).collect()
}

/// Who has replicas; those that only follow are in brackets, and those of nodes that are down are
/// marked.
fn replicas_text(shard: &ShardState) -> String {
    let marked = |name: &String| match shard.down.contains(name) {
        true => format!("{name}:down"),
        false => name.clone(),
    };
    let learners = shard.learners.iter().map(|name| format!("({})", marked(name)));
    let some = shard.voters.iter().map(marked).chain(learners).collect::<Vec<_>>().join(" ");
    match lacks_replicas(shard) {
        true => format!("{some} ({} of {})", shard.voters.len(), shard.voters_wanted),
        false => some,
    }
}

/// Whether it has yet to get replicas that it can have.
fn lacks_replicas(shard: &ShardState) -> bool {
    (shard.voters.len() as u64) < shard.voters_wanted
}

fn replicas_tone(shard: &ShardState) -> Tone {
    match (shard.down.is_empty(), lacks_replicas(shard)) {
        (false, _) => Tone::Bad,
        (true, true) => Tone::Busy,
        (true, false) => Tone::Plain,
    }
}

/// How far the replica is behind that is farthest; nobody knows if its node is down.
fn lag_text(shard: &ShardState) -> String {
    match shard.down.is_empty() {
        true => shard.lag.values().max().copied().unwrap_or(0).to_string(),
        false => "?".to_owned(),
    }
}

/// Workers as a table.
pub fn worker_table(workers: &[Worker], with_nodes: bool) -> Table {
    let mut columns = vec![
        Column::name("WORKER"),
        Column::name("NODE"),
        Column::new("STATE"),
        Column::number("RUNNING"),
        Column::text("SLOTS"),
        Column::text("QUEUES"),
        Column::text("NAMESPACE"),
        Column::text("LABELS"),
    ];
    if !with_nodes {
        columns.remove(1);
    }
    let mut table = Table::new(&columns);
    for worker in workers {
        let slots = worker.slots.iter().map(|(kind, count)| format!("{kind} {count}"));
        let resources = worker.resources.map(|resources| resources.to_string());
        let slots: Vec<String> = slots.chain(resources).collect();
        let labels: Vec<String> =
            worker.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let queues =
            if worker.queues.is_empty() { "all".to_owned() } else { worker.queues.join(", ") };
        let tone = if worker.state == "active" { Tone::Good } else { Tone::Busy };
        let mut cells = vec![
            (worker.name.clone(), Tone::Plain),
            (worker.node.clone(), Tone::Plain),
            (worker.state.clone(), tone),
            (worker.running.to_string(), Tone::Plain),
            (slots.join(", "), Tone::Plain),
            (queues, Tone::Plain),
            (worker.namespace.clone().unwrap_or_else(|| "all".to_owned()), Tone::Plain),
            (labels.join(", "), Tone::Faint),
        ];
        if !with_nodes {
            cells.remove(1);
        }
        table.row(cells);
    }
    table
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shard(down: &[&str]) -> ShardState {
        serde_json::from_value(json!({
            "shard": 7, "leader": "a", "term": 1, "voters": ["a", "b", "c"], "learners": ["d"],
            "lag": {"a": 0, "b": 12}, "down": down, "open_runs": 0, "ready_runs": 0, "wheel_entries": 0,
        }))
        .unwrap()
    }

    #[test]
    fn r117_a_cluster_that_is_being_upgraded_says_so() {
        let of = |versions: [Option<&str>; 3]| {
            let node = |version: Option<&str>| {
                json!({"node": 1, "name": "a", "state": "up", "listen": "", "peer": "", "zone": "",
                    "disk_bytes": 0, "log_bytes": 0, "leads": 1, "replicas": 1, "version": version})
            };
            let cluster = json!({"id": "c", "version": "2.0.0", "restored": [], "shards": [],
                "nodes": versions.map(node)});
            versions_text(&serde_json::from_value(cluster).unwrap())
        };
        assert_eq!(of([Some("2.0.0"), None, Some("2.0.0")]), "2.0.0", "one is down");
        let upgrading = "1.9.0 and 2.0.0: not all nodes have been upgraded yet";
        assert_eq!(of([Some("2.0.0"), Some("1.9.0"), Some("2.0.0")]), upgrading);
    }

    #[test]
    fn r84_a_shard_that_has_yet_to_get_replicas_says_so() {
        let growing = ShardState { voters_wanted: 5, ..shard(&[]) };
        assert_eq!(replicas_text(&growing), "a b c (d) (3 of 5)");
        let whole = ShardState { voters_wanted: 3, ..shard(&[]) };
        assert_eq!(replicas_text(&whole), "a b c (d)");
    }

    #[test]
    fn r116_clocks_that_are_apart_and_zones_that_are_too_few_are_told_of() {
        let of = |nodes: &[(&str, &str, i64)]| -> Cluster {
            let node = |(name, zone, ahead): &(&str, &str, i64)| {
                json!({"node": 1, "name": name, "state": "up", "listen": "", "peer": "", "zone": zone,
                    "disk_bytes": 0, "leads": 1, "replicas": 1, "clock_ahead_ms": ahead})
            };
            let nodes: Vec<_> = nodes.iter().map(node).collect();
            let cluster = json!({"id": "c", "version": "1", "shards": [], "nodes": nodes});
            serde_json::from_value(cluster).unwrap()
        };
        let well = of(&[("a", "x", 0), ("b", "y", 500), ("c", "z", -40)]);
        assert_eq!((clocks_text(&well), zones_text(&well)), (None, None));
        let bad = of(&[("a", "x", 0), ("b", "y", 61_500), ("c", "x", -700)]);
        let clocks = clocks_text(&bad).unwrap();
        assert!(
            clocks.starts_with("that of b is 1m1s500ms ahead, that of c is 700ms behind: "),
            "{clocks}"
        );
        assert!(zones_text(&bad).unwrap().starts_with("2, so"));
        assert_eq!(
            zones_text(&of(&[("a", "", 0), ("b", "", 0), ("c", "", 0)])),
            None,
            "none is named"
        );
    }

    #[test]
    fn r116_a_replica_whose_node_is_down_is_marked_and_its_lag_is_unknown() {
        assert_eq!(
            (replicas_text(&shard(&[])), lag_text(&shard(&[]))),
            ("a b c (d)".into(), "12".into())
        );
        let down = shard(&["c", "d"]);
        assert_eq!(
            (replicas_text(&down), lag_text(&down)),
            ("a b c:down (d:down)".into(), "?".into())
        );
    }

    #[test]
    fn r115_what_a_restore_led_to_is_told_as_what_was_then() {
        let restored = json!({
            "backup": "b", "from_cluster": "c", "taken_at": "2026-01-01T00:00:00Z",
            "restored_at": "2026-01-02T00:00:00Z", "held_jobs": 3, "lost_runs": 0,
            "repeated_runs": 4, "held_batches": 1,
        });
        let restored: Restored = serde_json::from_value(restored).unwrap();
        assert_eq!(
            became(&restored),
            [
                "3 jobs were held that may have run in between",
                "1 batches were held, whose other items may have run in between",
                "4 runs were started again",
            ]
        );
    }
}
