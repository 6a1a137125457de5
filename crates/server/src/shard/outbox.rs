//! What is to be brought to the leader of a shard, in order.
//!
//! One task for each shard: it takes what waits, brings it all to the leader in one go and waits for
//! the answers. What the leader has not decided is tried again until there is another one: requests
//! for as long as their callers may be kept waiting, what workers say for as long as it takes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bellwether_core::waist::Shard;
use futures::future::BoxFuture;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::handle::{Failure, Item, ShardHandle};

/// How long a request may wait for a leader.
const REQUEST_WITHIN: Duration = Duration::from_secs(10);
/// How long to wait before a leader is looked for again.
const AGAIN: Duration = Duration::from_millis(50);
/// What is brought at once.
const ITEMS_MAX: usize = 1_024;

/// Brings things to the nodes that lead shards.
pub trait Afar: Send + Sync + 'static {
    /// Brings items to the node that leads a shard, as far as is known, and sees to their answers.
    /// Returns what was not decided: it is to be tried again.
    fn bring(&self, shard: Shard, items: Vec<Item>) -> BoxFuture<'_, Vec<Item>>;
}

/// Brings what is in the outbox of a shard to whoever leads it, until told to stop.
pub async fn deliver(
    handle: ShardHandle,
    mut items: mpsc::UnboundedReceiver<Item>,
    afar: Arc<dyn Afar>,
    stop: CancellationToken,
) {
    let mut waiting: VecDeque<(Instant, Item)> = VecDeque::new();
    loop {
        if waiting.is_empty() {
            let next = tokio::select! {
                () = stop.cancelled() => return,
                next = items.recv() => next,
            };
            let Some(next) = next else { return };
            waiting.push_back((Instant::now(), next));
        }
        while waiting.len() < ITEMS_MAX
            && let Ok(next) = items.try_recv()
        {
            waiting.push_back((Instant::now(), next));
        }
        let before = waiting.len();
        let said = waiting.iter().filter(|(_, item)| item.is_said()).count();
        let since: Vec<Instant> = waiting.iter().map(|(since, _)| *since).collect();
        let left = bring(&handle, waiting.drain(..).map(|(_, item)| item).collect(), &*afar).await;
        handle.has_said(said - left.iter().filter(|item| item.is_said()).count());
        // What was not decided is what came last: whoever leads decides in order.
        let decided = before - left.len();
        waiting = since.into_iter().skip(decided).zip(left).collect();
        if waiting.len() == before {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(AGAIN) => {}
            }
        }
        give_up(&handle, &mut waiting);
    }
}

/// To the thread of the shard, if it acts here after all; else to the node that leads it.
async fn bring(handle: &ShardHandle, items: Vec<Item>, afar: &dyn Afar) -> Vec<Item> {
    let mut left = Vec::new();
    let mut items = items.into_iter();
    while let Some(item) = items.next() {
        if let Err(item) = handle.pass_here(item) {
            left.push(item);
            left.extend(items);
            break;
        }
    }
    if left.is_empty() {
        return left;
    }
    let requests = |items: &[Item]| {
        items.iter().filter(|item| matches!(item, Item::Request(..))).count() as u64
    };
    let asked = requests(&left);
    let left = afar.bring(handle.shard, left).await;
    handle.status.requests.fetch_sub(asked - requests(&left), Ordering::Relaxed);
    left
}

/// Answers requests that have waited too long.
fn give_up(handle: &ShardHandle, waiting: &mut VecDeque<(Instant, Item)>) {
    for (since, item) in std::mem::take(waiting) {
        match item {
            Item::Request(_, answer) if since.elapsed() > REQUEST_WITHIN => {
                handle.status.requests.fetch_sub(1, Ordering::Relaxed);
                let _ = answer.send(Err(Failure::NoLeader(handle.shard)));
            }
            item => waiting.push_back((since, item)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bellwether_core::id::{JobId, RunId};
    use bellwether_core::time::Time;
    use bellwether_core::turn::{Report, Reported};
    use futures::FutureExt;
    use tokio::sync::Notify;

    use super::super::handle::Message;
    use super::super::inbox::Inbox;
    use super::*;

    /// A leader that does not answer until it is told to, and then has decided nothing.
    #[derive(Default)]
    struct Stuck {
        asked: Notify,
        answers: Notify,
    }

    impl Afar for Stuck {
        fn bring(&self, _: Shard, items: Vec<Item>) -> BoxFuture<'_, Vec<Item>> {
            async move {
                self.asked.notify_one();
                self.answers.notified().await;
                items
            }
            .boxed()
        }
    }

    fn report(token: u64) -> Vec<Report> {
        let run = RunId { job: JobId::new(Time(1), 0, 1), n: 1 };
        vec![Report { run, token, what: Reported::HandedBack }]
    }

    #[tokio::test]
    async fn r64_what_workers_say_is_not_overtaken_by_what_they_say_later() {
        let (handle, items) = ShardHandle::new(0);
        let (leader, stop) = (Arc::new(Stuck::default()), CancellationToken::new());
        tokio::spawn(deliver(handle.clone(), items, leader.clone(), stop.clone()));
        handle.report(report(1));
        leader.asked.notified().await;
        // While it is on its way, the shard begins to act here.
        let inbox = Arc::new(Inbox::default());
        handle.open(inbox.clone());
        handle.report(report(2));
        assert!(inbox.is_empty(), "the second is before the first");
        leader.answers.notify_one();
        let coming = tokio::task::spawn_blocking(move || {
            let mut taken = VecDeque::new();
            while taken.len() < 2 {
                inbox.wait(Duration::from_secs(60));
                inbox.take(&mut taken, 2);
            }
            let mut next = || match taken.pop_front() {
                Some(Message::Item(Item::Reports(reports, _))) => reports[0].token,
                _ => panic!("nobody said anything else"),
            };
            (next(), next())
        });
        assert_eq!(coming.await.unwrap(), (1, 2));
        stop.cancel();
    }
}
