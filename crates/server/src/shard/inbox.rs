//! What a shard's thread has been asked and told and has not taken yet.
//!
//! Not a channel: those look again and again for a while before they sleep, which the thread of one of
//! many shards does after every turn, and which keeps processors from what the others have to do.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::handle::Message;

/// The inbox of a shard's thread, which alone takes from it.
#[derive(Default)]
pub(super) struct Inbox {
    messages: Mutex<VecDeque<Message>>,
    filled: Condvar,
}

impl Inbox {
    pub fn put(&self, message: Message) {
        self.messages.lock().push_back(message);
        self.filled.notify_one();
    }

    /// Sleeps until there is something, at most for so long.
    pub fn wait(&self, at_most: Duration) {
        let mut messages = self.messages.lock();
        let is_empty = |messages: &mut VecDeque<Message>| messages.is_empty();
        self.filled.wait_while_for(&mut messages, is_empty, at_most);
    }

    /// Adds what is there to what was taken before, in order, until that are so many.
    pub fn take(&self, taken: &mut VecDeque<Message>, most: usize) {
        let mut messages = self.messages.lock();
        let count = messages.len().min(most.saturating_sub(taken.len()));
        taken.extend(messages.drain(..count));
    }

    /// Everything that is there.
    pub fn take_all(&self) -> VecDeque<Message> {
        std::mem::take(&mut *self.messages.lock())
    }

    pub fn is_empty(&self) -> bool {
        self.messages.lock().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn messages_are_taken_in_order_and_in_time() {
        let inbox = Arc::new(Inbox::default());
        inbox.wait(Duration::from_millis(1));
        assert!(inbox.is_empty(), "nothing has come");
        let from_another = inbox.clone();
        let other = std::thread::spawn(move || {
            for on in [true, false, true] {
                from_another.put(Message::Listen(on));
            }
        });
        let mut taken = VecDeque::from([Message::Wake]);
        while taken.len() < 3 {
            inbox.wait(Duration::from_secs(60));
            inbox.take(&mut taken, 3);
        }
        other.join().unwrap();
        taken.extend(inbox.take_all());
        let order: Vec<Option<bool>> = taken
            .iter()
            .map(|message| match message {
                Message::Listen(on) => Some(*on),
                _ => None,
            })
            .collect();
        assert_eq!(order, [None, Some(true), Some(false), Some(true)]);
        assert!(inbox.is_empty());
    }
}
