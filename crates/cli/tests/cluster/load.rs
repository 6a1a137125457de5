//! Jobs that are created through all nodes at once, while one of them is killed.

use bellwether_client::PageFilter;
use tokio::task::JoinHandle;

use crate::random::Random;
use crate::server::{Trio, until};
use crate::work::{Kept, Kind, Promise, Promises};

/// Jobs that are created through each node.
const JOBS: u64 = 30;

/// Creates jobs through every node. What a node cannot do is no promise, and is not asked again.
pub fn through_all(
    trio: &Trio,
    promises: &Promises,
    random: &mut Random,
) -> Vec<(Kept, JoinHandle<()>)> {
    let through = |client: bellwether_client::Client, random: &mut Random| {
        let jobs: Vec<_> = (0..JOBS)
            .map(|_| {
                let kind = match random.below(8) {
                    0..=3 => Kind::AtMostOnce,
                    4..=6 => Kind::AtLeastOnce,
                    _ => Kind::Ordered,
                };
                (kind, promises.spec(kind, random.below(1_500)))
            })
            .collect();
        let kept = Kept::default();
        let acknowledged = kept.clone();
        let loading = tokio::spawn(async move {
            for (kind, spec) in jobs {
                match client.create_job(spec).await {
                    Ok(created) => {
                        let id = created.job.info.id;
                        acknowledged.lock().unwrap().push(Promise { id, kind });
                    }
                    Err(error) => {
                        let told = error.status();
                        assert!(told.is_none() || told == Some(503), "{error}");
                    }
                }
            }
        });
        (kept, loading)
    };
    trio.nodes.iter().map(|node| through(node.client.clone(), random)).collect()
}

/// Waits until recurring jobs have ticks that came after this was called, as the others see it.
pub async fn until_it_ticks_on(trio: &Trio, without: usize, jobs: &[String]) {
    let newest = async |at: usize, job: &String| {
        let page = PageFilter { limit: Some(1), ..PageFilter::default() };
        let ticks = trio.nodes[at].client.ticks(job, &page).await.ok()?;
        ticks.items.first().map(|tick| tick.until.unwrap_or(tick.at).0)
    };
    for at in (0..trio.nodes.len()).filter(|at| *at != without) {
        for job in jobs {
            let mut first = None;
            until("it ticks without the node", async || {
                let Some(now) = newest(at, job).await else { return false };
                now > *first.get_or_insert(now)
            })
            .await;
        }
    }
}
