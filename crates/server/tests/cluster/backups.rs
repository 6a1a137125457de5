//! Backups on a schedule, in a place that all nodes share.

use std::time::Duration;

use bellwether_backup::{Manifest, Place, list};

use crate::nodes::{Node, Trio};

const EVERY: Duration = Duration::from_secs(1);

async fn tells_the_age(node: &Node) -> bool {
    node.client.metrics().await.unwrap().contains("bellwether_backup_age_seconds ")
}

/// R114: whoever leads shard 0 takes them, when they are due and not because it leads now; and every
/// node knows how old the newest is.
#[tokio::test(flavor = "multi_thread")]
async fn r114_one_node_of_all_takes_backups_and_no_more_of_them_when_nodes_stop() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().to_str().unwrap().to_owned();
    let place = Place::open(&to).unwrap();
    let mut trio = Trio::start_with(move |config| {
        config.backup.to = Some(to.clone());
        config.backup.every = Some(EVERY);
        config.backup.keep = 1_000;
    })
    .await;
    let complete = async || {
        let all = list(&place, 1_000).await.unwrap();
        let mut all: Vec<Manifest> = all.into_iter().filter_map(|listed| listed.manifest).collect();
        all.sort_by_key(|manifest| manifest.begun_ms);
        all
    };
    for turn in 0..3 {
        let gone = trio.take_down(turn).await;
        let before = complete().await.len();
        trio.until("the others go on", async || complete().await.len() > before + 1).await;
        trio.bring_back(turn, gone).await;
    }
    for node in &trio.nodes {
        trio.until("every node tells the age", async || tells_the_age(node).await).await;
    }
    trio.stop().await;
    for pair in complete().await.windows(2) {
        let (gap, since) =
            (pair[1].begun_ms - pair[0].begun_ms, pair[1].begun_ms - pair[0].ended_ms);
        // One that was not complete yet could not be known.
        let unknown = since < EVERY.as_millis() as i64 / 3;
        assert!(unknown || gap >= EVERY.as_millis() as i64, "{since} ms after another: {pair:?}");
    }
}
