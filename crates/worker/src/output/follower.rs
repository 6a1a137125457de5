//! A reader of live output.

use std::sync::Arc;

use super::{Event, LiveOutput, Look};

/// A reader of one attempt's output, from some offset to its end.
#[derive(Debug)]
pub struct Follower {
    output: Arc<LiveOutput>,
    offset: u64,
}

impl Follower {
    pub(super) fn new(output: Arc<LiveOutput>, offset: u64) -> Follower {
        Follower { output, offset }
    }

    /// The next piece, or `None` once the attempt has ended and everything was read. Waits if
    /// there is nothing yet. May be dropped and called again without losing anything.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            let changed = self.output.changed.notified();
            let mut changed = std::pin::pin!(changed);
            // Registered before looking, so that nothing added after the look is missed.
            changed.as_mut().enable();
            let look = self.output.lock().look(self.offset);
            match look {
                Look::Event(event) => {
                    self.offset = match &event {
                        Event::Output(chunk) => chunk.end(),
                        Event::Skipped { offset, bytes } => offset + bytes,
                    };
                    return Some(event);
                }
                Look::End => return None,
                Look::Nothing => changed.await,
            }
        }
    }

    /// Everything up to this point has been read.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The same as a stream, for use as the body of a response.
    pub fn into_stream(self) -> impl futures::Stream<Item = Event> + Send {
        futures::stream::unfold(self, |mut follower| async move {
            follower.next().await.map(|event| (event, follower))
        })
    }
}
