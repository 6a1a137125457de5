//! `bellwether cluster status`: the nodes, their shards and the workers.

use std::time::Duration;

use anyhow::Result;
use bellwether_api::{Cluster, ShardState, Worker};
use clap::Args;

use super::bytes_text;
use crate::commands::patience::Patience;
use crate::context::Context;
use crate::exit::eprint_line;
use crate::show::{Column, Table, Tone, items_bar};

/// How often to look.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Whoever lacks no more entries of the log has them within a moment.
const NEARLY: u64 = 1_000;

#[derive(Args, Debug)]
pub struct StatusArgs {
    /// Wait until all nodes are up and all replicas have caught up: then the next node may be stopped
    #[arg(long)]
    wait: bool,
}

/// Shows it.
pub async fn run(context: &mut Context, args: &StatusArgs) -> Result<()> {
    let cluster = match args.wait {
        true => when_whole(context).await?,
        false => context.client.cluster().await?,
    };
    let workers = context.client.workers().await?;
    say_missing("workers", &workers.missing_nodes);
    let workers = workers.items;
    if context.json {
        context.print_json(&serde_json::json!({ "cluster": cluster, "workers": workers }))?;
    } else {
        print(context, &cluster, &workers)?;
    }
    Ok(())
}

/// Looks until nothing is amiss.
async fn when_whole(context: &Context) -> Result<Cluster> {
    let mut patience = Patience::default();
    let bar = items_bar(0);
    loop {
        match context.client.cluster().await {
            Ok(cluster) => {
                patience.answered("");
                let Some(amiss) = amiss(&cluster) else {
                    bar.finish_and_clear();
                    return Ok(cluster);
                };
                bar.set_message(format!("waiting: {amiss}"));
            }
            Err(error) => patience.after(error).await?,
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Why no node should be stopped now, if there is a reason.
fn amiss(cluster: &Cluster) -> Option<String> {
    if let Some(node) = cluster.nodes.iter().find(|node| node.state != "up") {
        return Some(format!("{} is {}", node.name, node.state));
    }
    cluster.shards.iter().find_map(|shard| {
        let number = shard.shard;
        if shard.leader.is_none() {
            return Some(format!("nobody leads shard {number}"));
        }
        if (shard.voters.len() as u64) < cluster.replicas.min(cluster.nodes.len() as u64) {
            return Some(format!("shard {number} has yet to get replicas"));
        }
        shard.voters.iter().find_map(|voter| match shard.lag.get(voter) {
            None => Some(format!("{voter} has yet to open shard {number}")),
            Some(lag) if *lag > NEARLY => {
                Some(format!("{voter} lacks {lag} entries of shard {number}"))
            }
            Some(_) => None,
        })
    })
}

fn print(context: &mut Context, cluster: &Cluster, workers: &[Worker]) -> Result<()> {
    let screen = &mut context.screen;
    screen.field("cluster", &cluster.id)?;
    screen.field("version", &cluster.version)?;
    screen.field("replicas", &format!("{} of each shard", cluster.replicas))?;
    for restored in &cluster.restored {
        let (at, taken) = (restored.restored_at.0, restored.taken_at.0);
        screen.field(
            "restored",
            &format!("{} from a backup of {}", screen.clock(at), screen.clock(taken)),
        )?;
        if restored.held_jobs > 0 {
            let held = format!("{} jobs that may have run in between", restored.held_jobs);
            screen.field("held", &held)?;
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
        ]);
    }
    screen.table(&nodes)?;
    screen.line("")?;
    let mut shards = Table::new(&[
        Column::number("SHARD"),
        Column::text("LEADER"),
        Column::text("REPLICAS"),
        Column::number("LAG"),
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
            (replicas_text(shard), Tone::Plain),
            (shard.lag.values().max().copied().unwrap_or(0).to_string(), Tone::Plain),
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

fn node_tone(state: &str) -> Tone {
    match state {
        "up" => Tone::Good,
        "down" => Tone::Bad,
        _ => Tone::Busy,
    }
}

/// Who has replicas; those that only follow are in brackets.
fn replicas_text(shard: &ShardState) -> String {
    let learners = shard.learners.iter().map(|name| format!("({name})"));
    shard.voters.iter().cloned().chain(learners).collect::<Vec<_>>().join(" ")
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

/// Says which nodes could not be asked.
pub fn say_missing(what: &str, missing: &[String]) {
    if !missing.is_empty() {
        eprint_line(&format!(
            "did not answer, so its {what} are not shown: {}",
            missing.join(", ")
        ));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn cluster(change: impl Fn(&mut Value)) -> Cluster {
        let node = |number: u64, name: &str| {
            json!({"node": number, "name": name, "state": "up", "listen": "", "peer": "",
                "zone": "", "disk_bytes": 0, "leads": 1, "replicas": 1})
        };
        let mut cluster = json!({
            "id": "c", "version": "1", "restored": [],
            "nodes": [node(1, "a"), node(2, "b"), node(3, "c"), node(4, "d")],
            "shards": [{"shard": 7, "leader": "a", "term": 1, "voters": ["a", "b", "c"],
                "learners": ["d"], "lag": {"a": 0, "b": 1_000, "c": 3, "d": 9_999},
                "open_runs": 0, "ready_runs": 0, "wheel_entries": 0}],
        });
        change(&mut cluster);
        serde_json::from_value(cluster).unwrap()
    }

    #[test]
    fn r117_a_cluster_is_whole_when_the_next_node_may_be_stopped() {
        assert_eq!(amiss(&cluster(|_| {})), None);
        for (change, why) in [
            (("/nodes/2/state", json!("down")), "c is down"),
            (("/nodes/2/state", json!("leaving")), "c is leaving"),
            (("/shards/0/leader", json!(null)), "nobody leads shard 7"),
            (("/shards/0/voters", json!(["a", "b"])), "shard 7 has yet to get replicas"),
            (("/shards/0/lag", json!({"a": 0, "b": 0})), "c has yet to open shard 7"),
            (("/shards/0/lag/c", json!(1_001)), "c lacks 1001 entries of shard 7"),
        ] {
            let changed = cluster(|all| *all.pointer_mut(change.0).unwrap() = change.1.clone());
            assert_eq!(amiss(&changed).as_deref(), Some(why));
        }
        let alone = cluster(|all| {
            all["nodes"].as_array_mut().unwrap().truncate(1);
            all["shards"][0]["voters"] = json!(["a"]);
        });
        assert_eq!(amiss(&alone), None, "more cannot be had");
    }
}
