//! `bellwether cluster status`: the nodes, their shards and the workers.

use anyhow::Result;
use bellwether_api::{Cluster, ShardState, Worker};

use super::bytes_text;
use crate::context::Context;
use crate::exit::eprint_line;
use crate::show::{Column, Table, Tone};

/// Shows it.
pub async fn run(context: &mut Context) -> Result<()> {
    let cluster = context.client.cluster().await?;
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

fn print(context: &mut Context, cluster: &Cluster, workers: &[Worker]) -> Result<()> {
    let screen = &mut context.screen;
    screen.field("cluster", &cluster.id)?;
    screen.field("version", &cluster.version)?;
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
