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
                () = handle.gave_back() => None,
                next = items.recv() => match next {
                    Some(next) => Some(next),
                    None => return,
                },
            };
            waiting.extend(next.map(|next| (Instant::now(), next)));
        }
        while waiting.len() < ITEMS_MAX
            && let Ok(next) = items.try_recv()
        {
            waiting.push_back((Instant::now(), next));
        }
        if pass_here(&handle, &mut waiting) {
            continue;
        }
        let before = waiting.len();
        bring(&handle, &mut waiting, &*afar).await;
        if waiting.len() == before {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(AGAIN) => {}
            }
        }
        give_up(&handle, &mut waiting);
    }
}

/// Passes what waits on to the thread of the shard, if it acts here after all. Whether nothing is left.
/// What a thread that has ended gave back was said before.
fn pass_here(handle: &ShardHandle, waiting: &mut VecDeque<(Instant, Item)>) -> bool {
    loop {
        for item in handle.take_given_back().into_iter().rev() {
            waiting.push_front((Instant::now(), item));
        }
        let Some((since, item)) = waiting.pop_front() else { return true };
        let said = usize::from(item.is_said());
        match handle.pass_here(item) {
            Ok(()) => handle.has_said(said),
            Err(item) => {
                waiting.push_front((since, item));
                // It may have ended just now.
                for item in handle.take_given_back().into_iter().rev() {
                    waiting.push_front((Instant::now(), item));
                }
                return false;
            }
        }
    }
}

/// Brings what waits to the node that leads the shard. What was not decided goes on waiting.
async fn bring(handle: &ShardHandle, waiting: &mut VecDeque<(Instant, Item)>, afar: &dyn Afar) {
    let said = |items: &[Item]| items.iter().filter(|item| item.is_said()).count();
    let requests = |items: &[Item]| {
        items.iter().filter(|item| matches!(item, Item::Request(..))).count() as u64
    };
    let (since, items): (Vec<Instant>, Vec<Item>) = std::mem::take(waiting).into_iter().unzip();
    let (told, asked) = (said(&items), requests(&items));
    let left = afar.bring(handle.shard, items).await;
    handle.has_said(told - said(&left));
    handle.status.requests.fetch_sub(asked - requests(&left), Ordering::Relaxed);
    // What was not decided is what came last: whoever leads decides in order.
    let decided = since.len() - left.len();
    waiting.extend(since.into_iter().skip(decided).zip(left));
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

    #[tokio::test]
    async fn r64_what_a_shard_had_not_decided_is_not_overtaken_by_what_was_said_later() {
        let (handle, items) = ShardHandle::new(0);
        let mut waiting: VecDeque<(Instant, Item)> = VecDeque::new();
        waiting.push_back((Instant::now(), Item::Reports(report(2), None)));
        let inbox = Arc::new(Inbox::default());
        handle.open(inbox.clone());
        handle.report(report(1));
        handle.close(Vec::new(), VecDeque::new(), &inbox);
        // Another thread acts by now: what the one before had goes first all the same.
        let inbox = Arc::new(Inbox::default());
        handle.open(inbox.clone());
        assert!(handle.pass_here(Item::Reports(report(2), None)).is_err());
        assert!(pass_here(&handle, &mut waiting));
        let mut taken = VecDeque::new();
        inbox.take(&mut taken, 9);
        let tokens: Vec<u64> = taken
            .into_iter()
            .map(|message| match message {
                Message::Item(Item::Reports(reports, _)) => reports[0].token,
                _ => panic!("nobody said anything else"),
            })
            .collect();
        assert_eq!(tokens, [1, 2]);
        drop(items);
    }
}
