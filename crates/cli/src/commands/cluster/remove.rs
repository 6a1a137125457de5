//! `bellwether cluster remove`: takes a node out of the cluster, and follows that if asked to.

use std::time::Duration;

use anyhow::Result;
use bellwether_api::{Cluster, Node};
use clap::Args;

use crate::commands::patience::Patience;
use crate::context::Context;
use crate::exit::usage;
use crate::show::{confirmed, items_bar};

/// How often to look.
const LOOK_EVERY: Duration = Duration::from_millis(250);

#[derive(Args, Debug)]
pub struct RemoveArgs {
    /// Its name or number, as in `bellwether cluster status`
    node: String,
    /// Wait until it has left
    #[arg(long)]
    wait: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

pub async fn run(context: &mut Context, args: RemoveArgs) -> Result<()> {
    let question = format!("Remove the node '{}' from the cluster for good?", args.node);
    if !confirmed(&question, args.yes)? {
        return Err(usage("nothing was removed"));
    }
    let node = context.client.remove_node(&args.node).await?;
    let name = node.name.clone();
    if args.wait {
        until_gone(context, &node).await?;
    }
    let said = match args.wait {
        true => format!("{name} has left the cluster; its data directory is of no use any more"),
        false => format!(
            "{name} is being emptied and then leaves; `bellwether cluster status` shows how far it is"
        ),
    };
    match context.json {
        true => context.print_json(&serde_json::json!({ "node": node, "gone": args.wait }))?,
        false => context.screen.line(&said)?,
    }
    Ok(())
}

/// Looks until the cluster does not know the node any more.
async fn until_gone(context: &Context, node: &Node) -> Result<()> {
    let mut patience = Patience::default();
    let mut empty = false;
    let bar = items_bar(0);
    loop {
        match context.client.cluster().await {
            Ok(cluster) if cluster.nodes.iter().all(|known| known.node != node.node) => break,
            Ok(cluster) => {
                patience.answered("");
                let left = replicas_left(&cluster, &node.name);
                empty = left == 0;
                let all = cluster.shards.len() as u64;
                bar.set_length(all);
                bar.set_position(all.saturating_sub(left));
                bar.set_message(format!("{}: {left} replicas left", node.name));
            }
            // It was asked itself, and has ended.
            Err(error) if empty && error.problem().is_none() => break,
            Err(error) => patience.after(error).await?,
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    bar.finish_and_clear();
    Ok(())
}

fn replicas_left(cluster: &Cluster, name: &String) -> u64 {
    let has = |shard: &&bellwether_api::ShardState| {
        shard.voters.contains(name) || shard.learners.contains(name)
    };
    cluster.shards.iter().filter(has).count() as u64
}
