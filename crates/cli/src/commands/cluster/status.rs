//! `bellwether cluster status`: the nodes, their shards and the workers. How they look is in `table`.

use std::time::{Duration, Instant};

use anyhow::Result;
use bellwether_api::{Cluster, Span};
use clap::Args;

use super::table;
use crate::commands::patience::Patience;
use crate::context::Context;
use crate::exit::{eprint_line, failed};
use crate::spec::parse_lasting;

/// How often to look.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How often to say what is waited for, if that changes all the time.
const SAY_EVERY: Duration = Duration::from_secs(2);
/// Whoever lacks no more entries of the log has them within a moment: under load a few are always on
/// their way.
const NEARLY: u64 = 8;

#[derive(Args, Debug)]
pub struct StatusArgs {
    /// Wait until all nodes are up and all replicas have caught up: then the next node may be stopped
    #[arg(long)]
    wait: bool,
    /// Wait no longer than this, and end with 1 if that was not enough
    #[arg(long, value_name = "DURATION", value_parser = parse_lasting, requires = "wait")]
    timeout: Option<Span>,
}

/// Shows it.
pub async fn run(context: &mut Context, args: &StatusArgs) -> Result<()> {
    let cluster = match args.wait {
        true => when_whole(context, args.timeout).await?,
        false => context.client.cluster().await?,
    };
    let workers = context.client.workers().await?;
    say_missing("workers", &workers.missing_nodes);
    let workers = workers.items;
    if context.json {
        context.print_json(&serde_json::json!({ "cluster": cluster, "workers": workers }))?;
    } else {
        table::print(context, &cluster, &workers)?;
    }
    Ok(())
}

/// Looks until nothing is amiss, and says what is.
async fn when_whole(context: &Context, timeout: Option<Span>) -> Result<Cluster> {
    let mut waits = Waits::default();
    let looking = look_until_whole(context, &mut waits);
    let Some(timeout) = timeout else { return looking.await };
    let within = Duration::from_millis(timeout.0);
    match tokio::time::timeout(within, looking).await {
        Ok(found) => found,
        Err(_) => {
            let amiss = waits.last.unwrap_or_else(|| "no node answers".to_owned());
            Err(failed(format!("the cluster is not whole after {timeout}: {amiss}")))
        }
    }
}

async fn look_until_whole(context: &Context, waits: &mut Waits) -> Result<Cluster> {
    let mut patience = Patience::default();
    loop {
        match context.client.cluster().await {
            Ok(cluster) => {
                patience.answered("");
                let Some(amiss) = amiss(&cluster) else { return Ok(cluster) };
                if let Some(line) = waits.on(amiss, Instant::now()) {
                    eprint_line(&line);
                }
            }
            Err(error) => patience.after(error).await?,
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// What is waited for, and what has been said of it.
#[derive(Default)]
struct Waits {
    last: Option<String>,
    said: Option<(Instant, String)>,
}

impl Waits {
    /// Notes what is waited for. What to say about that, if it is news and the last was not just now.
    fn on(&mut self, amiss: String, now: Instant) -> Option<String> {
        let news = self.said.as_ref().is_none_or(|(at, said)| {
            *said != amiss && now.saturating_duration_since(*at) >= SAY_EVERY
        });
        let line = news.then(|| format!("waiting: {amiss}"));
        if news {
            self.said = Some((now, amiss.clone()));
        }
        self.last = Some(amiss);
        line
    }
}

/// Why no node should be stopped now, if there is a reason, and what can be done about it.
fn amiss(cluster: &Cluster) -> Option<String> {
    if let Some(node) = cluster.nodes.iter().find(|node| node.state != "up") {
        let name = &node.name;
        return Some(match node.state.as_str() {
            "down" => format!(
                "{name} is down; start it, or if it is down for good: bellwether cluster remove {name}"
            ),
            state => format!("{name} is {state}"),
        });
    }
    cluster.shards.iter().find_map(|shard| {
        let number = shard.shard;
        if shard.leader.is_none() {
            return Some(format!("nobody leads shard {number}"));
        }
        if (shard.voters.len() as u64) < shard.voters_wanted {
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
                "zone": "", "disk_bytes": 0, "log_bytes": 0, "leads": 1, "replicas": 1})
        };
        let mut cluster = json!({
            "id": "c", "version": "1", "restored": [],
            "nodes": [node(1, "a"), node(2, "b"), node(3, "c"), node(4, "d")],
            "shards": [{"shard": 7, "leader": "a", "term": 1, "voters": ["a", "b", "c"], "voters_wanted": 3,
                "learners": ["d"], "lag": {"a": 0, "b": 8, "c": 3, "d": 9_999},
                "open_runs": 0, "ready_runs": 0, "wheel_entries": 0}],
        });
        change(&mut cluster);
        serde_json::from_value(cluster).unwrap()
    }

    #[test]
    fn r117_a_cluster_is_whole_when_the_next_node_may_be_stopped() {
        assert_eq!(amiss(&cluster(|_| {})), None);
        for (change, why) in [
            (
                ("/nodes/2/state", json!("down")),
                "c is down; start it, or if it is down for good: bellwether cluster remove c",
            ),
            (("/nodes/2/state", json!("leaving")), "c is leaving"),
            (("/shards/0/leader", json!(null)), "nobody leads shard 7"),
            (("/shards/0/voters", json!(["a", "b"])), "shard 7 has yet to get replicas"),
            (("/shards/0/lag", json!({"a": 0, "b": 0})), "c has yet to open shard 7"),
            (("/shards/0/lag/c", json!(9)), "c lacks 9 entries of shard 7"),
        ] {
            let changed = cluster(|all| *all.pointer_mut(change.0).unwrap() = change.1.clone());
            assert_eq!(amiss(&changed).as_deref(), Some(why));
        }
        let alone = cluster(|all| {
            all["nodes"].as_array_mut().unwrap().truncate(1);
            all["shards"][0]["voters"] = json!(["a"]);
            all["shards"][0]["voters_wanted"] = json!(1);
        });
        assert_eq!(amiss(&alone), None, "more cannot be had");
    }

    #[test]
    fn r117_what_is_waited_for_is_said_once_and_not_too_often() {
        let mut waits = Waits::default();
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let mut on = |amiss: &str, ms| waits.on(amiss.to_owned(), at(ms));
        assert_eq!(on("c is down", 0).as_deref(), Some("waiting: c is down"));
        assert_eq!(on("c is down", 10_000), None, "it has been said");
        let said = on("c lacks 9 entries", 10_250);
        assert_eq!(said.as_deref(), Some("waiting: c lacks 9 entries"));
        assert_eq!(on("c lacks 8 entries", 10_500), None);
        assert_eq!(on("c lacks 2 entries", 12_250).as_deref(), Some("waiting: c lacks 2 entries"));
        assert_eq!(waits.last.as_deref(), Some("c lacks 2 entries"));
    }
}
