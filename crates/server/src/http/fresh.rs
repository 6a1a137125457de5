//! Requests about one thing see it as it is, whichever node is asked.
//!
//! Before such a request is looked at, this node makes sure that its replica of the shard, or the one
//! of another node that it is going to ask, shows all that anybody was told of. Lists are read as
//! replicas show them, and say how old that may be (see `listed`). The replicas of a node that has just
//! come back are not read until they have caught up, but for that of the first shard, which is the
//! first to do so.

use axum::http::Uri;
use bellwether_core::id::{JobId, RunId};
use bellwether_core::read;
use bellwether_core::waist::Shard;
use futures::future::try_join_all;

use super::answer::Refusal;
use crate::access::Caller;
use crate::node::Node;

/// Sees to it, for all handlers.
pub async fn see_to(node: &Node, uri: &Uri, caller: Option<&Caller>) -> Result<(), Refusal> {
    let mut path = uri.path().split('/').skip(1);
    let (Some("v1"), Some(what), Some(name)) = (path.next(), path.next(), path.next()) else {
        return Ok(());
    };
    let name = percent_decoded(name);
    match what {
        "jobs" => match name.parse::<JobId>() {
            Ok(id) => catch_up(node, [id.shard()]).await,
            Err(_) => of_key(node, uri, caller, &name).await,
        },
        "runs" => match name.parse::<RunId>() {
            Ok(run) => catch_up(node, [run.job.shard()]).await,
            Err(_) => Ok(()),
        },
        // A batch has a part in every shard.
        "batches" => catch_up(node, node.shard_numbers()).await,
        _ => Ok(()),
    }
}

/// A job by its key: where the key is, and where the job is.
async fn of_key(
    node: &Node,
    uri: &Uri,
    caller: Option<&Caller>,
    name: &str,
) -> Result<(), Refusal> {
    let query = uri.query().unwrap_or("").as_bytes();
    let asked = url::form_urlencoded::parse(query).find(|(field, _)| field == "namespace");
    let own = || caller.and_then(|caller| caller.namespace.clone());
    let namespace = asked.map(|(_, value)| value.into_owned()).or_else(own);
    let namespace = namespace.as_deref().unwrap_or("default");
    let shard = node.shard_of_name(namespace, name).shard;
    catch_up(node, [shard]).await?;
    match read::job_of_key(&*node.view(), shard, namespace, name)? {
        Some(job) if job.shard() != shard => catch_up(node, [job.shard()]).await,
        _ => Ok(()),
    }
}

async fn catch_up(node: &Node, shards: impl IntoIterator<Item = Shard>) -> Result<(), Refusal> {
    let known = shards.into_iter().filter(|shard| usize::from(*shard) < node.shards.len());
    try_join_all(known.map(|shard| node.cluster.catch_up(shard))).await?;
    Ok(())
}

fn percent_decoded(name: &str) -> String {
    url::form_urlencoded::parse(name.replace('+', "%2B").as_bytes())
        .next()
        .map_or_else(String::new, |(name, _)| name.into_owned())
}
