//! One answer of another thread, for which this one sleeps.
//!
//! A channel would do, but looks again and again for a while before it sleeps. A commit takes as long as
//! a disk does, so that is in vain, and with a thread for each shard it is what the processors
//! would be busy with.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

struct Shared<T> {
    /// The answer, or none if there will be none.
    answer: Mutex<Option<Option<T>>>,
    given: Condvar,
}

/// Whoever answers. If this is dropped, there is no answer.
pub(crate) struct Answering<T>(Arc<Shared<T>>);

/// Whoever waits for an answer.
pub(crate) struct Awaiting<T>(Arc<Shared<T>>);

/// A question's two ends.
pub(crate) fn answer<T>() -> (Answering<T>, Awaiting<T>) {
    let shared = Arc::new(Shared { answer: Mutex::new(None), given: Condvar::new() });
    (Answering(shared.clone()), Awaiting(shared))
}

impl<T> Answering<T> {
    pub fn give(self, answer: T) {
        *self.0.answer.lock() = Some(Some(answer));
    }
}

impl<T> Drop for Answering<T> {
    fn drop(&mut self) {
        self.0.answer.lock().get_or_insert(None);
        self.0.given.notify_one();
    }
}

impl<T> Awaiting<T> {
    /// Sleeps until there is an answer, or will be none.
    pub fn wait(self) -> Option<T> {
        let mut answer = self.0.answer.lock();
        loop {
            if let Some(given) = answer.take() {
                return given;
            }
            self.0.given.wait(&mut answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_waited_for_whether_it_comes_or_not() {
        for (given, expected) in [(Some(7), Some(7)), (None, None)] {
            let (answering, awaiting) = answer();
            let other = std::thread::spawn(move || match given {
                Some(number) => answering.give(number),
                None => drop(answering),
            });
            assert_eq!(awaiting.wait(), expected);
            other.join().unwrap();
        }
        let (answering, awaiting) = answer();
        answering.give(1);
        assert_eq!(awaiting.wait(), Some(1), "one that was given before");
    }
}
