//! A value that can be watched, for openraft.
//!
//! It differs from tokio's in one thing: those who wait are woken in the order in which they began to
//! watch, and not in one that chance decides. So a simulation of one seed does the same each time.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use openraft::async_runtime::watch::{self, RecvError, SendError};
use openraft::{OptionalSend, OptionalSync};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};

/// Makes values that can be watched.
pub struct Watch;

struct Shared<T> {
    value: RwLock<T>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Counts changes. Raised only while nobody else can look at the value.
    version: u64,
    senders: usize,
    receivers: usize,
    /// The number of the next receiver.
    next: u64,
    /// Receivers that wait for a change, in order.
    waiting: BTreeMap<u64, Waker>,
}

impl<T> Shared<T> {
    fn wake(&self) {
        let waiting = std::mem::take(&mut self.state.lock().waiting);
        waiting.into_values().for_each(Waker::wake);
    }

    fn change(&self, change: impl FnOnce(&mut T) -> bool) -> bool {
        let mut value = self.value.write();
        let changed = change(&mut value);
        if changed {
            self.state.lock().version += 1;
        }
        drop(value);
        if changed {
            self.wake();
        }
        changed
    }

    fn receiver(self: &Arc<Self>, seen: Option<u64>) -> Receiver<T> {
        let mut state = self.state.lock();
        state.receivers += 1;
        state.next += 1;
        let seen = seen.unwrap_or(state.version);
        Receiver { shared: self.clone(), number: state.next, seen }
    }
}

/// Changes the value.
pub struct Sender<T>(Arc<Shared<T>>);

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        self.0.state.lock().senders += 1;
        Sender(self.0.clone())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.senders -= 1;
        let last = state.senders == 0;
        drop(state);
        if last {
            self.0.wake();
        }
    }
}

/// Watches the value.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    number: u64,
    seen: u64,
}

impl<T> Receiver<T> {
    /// Whether nobody is left to change the value.
    pub fn is_over(&self) -> bool {
        self.shared.state.lock().senders == 0
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Receiver<T> {
        self.shared.receiver(Some(self.seen))
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.receivers -= 1;
        state.waiting.remove(&self.number);
    }
}

impl watch::Watch for Watch {
    type Sender<T: OptionalSend + OptionalSync> = Sender<T>;
    type Receiver<T: OptionalSend + OptionalSync> = Receiver<T>;
    type Ref<'a, T: OptionalSend + 'a> = RwLockReadGuard<'a, T>;

    fn channel<T: OptionalSend + OptionalSync>(value: T) -> (Sender<T>, Receiver<T>) {
        let state = Mutex::new(State { senders: 1, ..State::default() });
        let shared = Arc::new(Shared { value: RwLock::new(value), state });
        let receiver = shared.receiver(None);
        (Sender(shared), receiver)
    }
}

impl<T: OptionalSend + OptionalSync> watch::WatchSender<Watch, T> for Sender<T> {
    fn send(&self, value: T) -> Result<(), SendError<T>> {
        if self.0.state.lock().receivers == 0 {
            return Err(SendError(value));
        }
        self.0.change(|current| {
            *current = value;
            true
        });
        Ok(())
    }

    fn send_if_modified<F>(&self, modify: F) -> bool
    where
        F: FnOnce(&mut T) -> bool,
    {
        self.0.change(modify)
    }

    fn borrow_watched(&self) -> RwLockReadGuard<'_, T> {
        self.0.value.read()
    }

    fn subscribe(&self) -> Receiver<T> {
        self.0.receiver(None)
    }
}

impl<T: OptionalSend + OptionalSync> watch::WatchReceiver<Watch, T> for Receiver<T> {
    async fn changed(&mut self) -> Result<(), RecvError> {
        poll_fn(|context| {
            let mut state = self.shared.state.lock();
            if state.version != self.seen {
                self.seen = state.version;
                return Poll::Ready(Ok(()));
            }
            if state.senders == 0 {
                return Poll::Ready(Err(RecvError(())));
            }
            state.waiting.insert(self.number, context.waker().clone());
            Poll::Pending
        })
        .await
    }

    fn borrow_watched(&self) -> RwLockReadGuard<'_, T> {
        self.shared.value.read()
    }

    fn borrow_and_update(&mut self) -> RwLockReadGuard<'_, T> {
        let value = self.shared.value.read();
        self.seen = self.shared.state.lock().version;
        value
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use openraft::async_runtime::watch::{Watch as _, WatchReceiver, WatchSender};

    use super::*;

    #[tokio::test]
    async fn a_change_is_seen_once_by_everybody_and_the_end_too() {
        let (sender, mut first) = Watch::channel(1);
        let mut second = sender.subscribe();
        assert!(!sender.send_if_modified(|_| false));
        sender.send(2).unwrap();
        sender.send(3).unwrap();
        first.changed().await.unwrap();
        assert_eq!((*first.borrow_watched(), *second.borrow_and_update()), (3, 3));
        let (one, two) = (first.changed(), second.changed());
        let both = async { tokio::join!(one, two) };
        let other = sender.clone();
        drop(sender);
        let changing = async {
            tokio::task::yield_now().await;
            other.send(4).unwrap();
        };
        let (seen, ()) = tokio::join!(both, changing);
        assert_eq!(seen, (Ok(()), Ok(())));
        let mut late = first.clone();
        let ends = tokio::spawn(async move { late.changed().await });
        tokio::task::yield_now().await;
        assert!(!first.is_over());
        drop(other);
        assert!(first.is_over());
        let ended = tokio::time::timeout(Duration::from_secs(5), ends).await;
        assert_eq!(ended.unwrap().unwrap(), Err(RecvError(())));
    }

    #[test]
    fn nobody_is_sent_to_when_nobody_watches() {
        let (sender, receiver) = Watch::channel(1);
        drop(receiver);
        assert!(sender.send(2).is_err());
        assert_eq!(*sender.borrow_watched(), 1);
    }
}
