//! What an attempt prints, kept within a bound and followed live.
//!
//! The output of an attempt is one sequence of bytes in order of arrival, each marked with the
//! stream it came from. [`LiveOutput`] keeps its first and its last part and counts what it had to
//! drop between them. It is not stored anywhere by this module: whoever persists output reads the
//! head with [`LiveOutput::head_since`] while the attempt runs, and takes the rest from
//! [`LiveOutput::captured`] when it has ended.
//!
//! Readers have no queue. A reader is an offset into the sequence ([`Follower`]); what it asks for
//! is copied out of the head or the tail, or, if that part is gone, it is told how many bytes it
//! missed. So any number of readers, however slow, cost no memory and never make a command wait.

mod follower;
mod segment;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

pub use follower::Follower;
use segment::Segment;

/// The most bytes handed to a reader at once.
const CHUNK_BYTES_MAX: usize = 64 * 1024;

/// The tail kept while an attempt runs is at least this long, so that readers of a job with a
/// small output limit do not miss what passes between two of their looks.
const LIVE_TAIL_BYTES_MIN: usize = 64 * 1024;

/// Where a piece of output came from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stream {
    /// Standard output of a command.
    Stdout,
    /// Standard error of a command.
    Stderr,
    /// The body of an HTTP response.
    Body,
}

impl Stream {
    /// The stream's name, as it stands in stored and sent data.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
            Stream::Body => "body",
        }
    }
}

/// A piece of output from one stream. Not necessarily UTF-8, nor cut at line ends. Its `Debug`
/// text says only how long it is: output may be long, and may be confidential.
#[derive(Clone, PartialEq, Eq)]
pub struct Chunk {
    /// How many bytes the attempt had printed before this piece, on all streams.
    pub offset: u64,
    /// Where it came from.
    pub stream: Stream,
    /// The bytes; never empty.
    pub bytes: Bytes,
}

impl Chunk {
    /// The offset just after this piece.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

impl fmt::Debug for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}+{}", self.stream.name(), self.offset, self.bytes.len())
    }
}

/// What a reader gets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The next piece of output.
    Output(Chunk),
    /// Bytes that are no longer there: they came faster than they were read, or before the
    /// reader did.
    Skipped {
        /// Where the gap begins.
        offset: u64,
        /// How long it is.
        bytes: u64,
    },
}

/// What is kept of an attempt's output.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Captured {
    /// The beginning.
    pub head: Vec<Chunk>,
    /// The end, if the whole did not fit into the head.
    pub tail: Vec<Chunk>,
    /// Bytes printed in all.
    pub total_bytes: u64,
    /// Bytes dropped between head and tail.
    pub dropped_bytes: u64,
}

impl Captured {
    /// The kept bytes of one stream, or of all, as one text with a line in place of a gap. For
    /// people; invalid UTF-8 is replaced.
    #[must_use]
    pub fn text(&self, only: Option<Stream>) -> String {
        let mut text = Vec::new();
        let wanted = |chunk: &&Chunk| only.is_none_or(|stream| chunk.stream == stream);
        for chunk in self.head.iter().filter(wanted) {
            text.extend_from_slice(&chunk.bytes);
        }
        if self.dropped_bytes > 0 {
            text.extend_from_slice(
                format!("\n[{} bytes dropped]\n", self.dropped_bytes).as_bytes(),
            );
        }
        for chunk in self.tail.iter().filter(wanted) {
            text.extend_from_slice(&chunk.bytes);
        }
        String::from_utf8_lossy(&text).into_owned()
    }

    /// The kept output as stretches without gaps: one, or two if something was dropped.
    pub(crate) fn stretches(&self) -> Vec<Vec<u8>> {
        let join = |chunks: &mut dyn Iterator<Item = &Chunk>| {
            chunks.flat_map(|chunk| chunk.bytes.iter().copied()).collect::<Vec<u8>>()
        };
        if self.dropped_bytes == 0 {
            return vec![join(&mut self.head.iter().chain(&self.tail))];
        }
        vec![join(&mut self.head.iter()), join(&mut self.tail.iter())]
    }
}

struct State {
    head: Segment,
    tail: Segment,
    ended: bool,
}

/// The output of one attempt, shared between the executor, which writes, and any number of
/// readers. See the module's documentation.
pub struct LiveOutput {
    state: Mutex<State>,
    changed: Notify,
    head_limit: usize,
    tail_limit: usize,
}

impl LiveOutput {
    /// An empty output that will keep `limit` bytes: the first half and the last half.
    #[must_use]
    pub fn new(limit: usize) -> Arc<LiveOutput> {
        let tail_limit = limit / 2;
        Arc::new(LiveOutput {
            state: Mutex::new(State { head: Segment::new(0), tail: Segment::new(0), ended: false }),
            changed: Notify::new(),
            head_limit: limit - tail_limit,
            tail_limit,
        })
    }

    /// Adds what was just printed. Ignored after [`LiveOutput::end`].
    pub fn push(&self, stream: Stream, bytes: &[u8]) {
        {
            let mut state = self.lock();
            if state.ended || bytes.is_empty() {
                return;
            }
            let room = self.head_limit - state.head.len();
            let (to_head, to_tail) = bytes.split_at(room.min(bytes.len()));
            state.head.push(stream, to_head);
            if !to_tail.is_empty() {
                if state.tail.len() == 0 {
                    state.tail = Segment::new(state.head.end().max(state.tail.end()));
                }
                state.tail.push(stream, to_tail);
                state.tail.trim_front(self.tail_limit.max(LIVE_TAIL_BYTES_MIN));
            }
        }
        self.changed.notify_waiters();
    }

    /// Says that nothing more will come; readers get what is left and then the end.
    pub fn end(&self) {
        self.lock().ended = true;
        self.changed.notify_waiters();
    }

    /// Bytes printed so far.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.lock().total()
    }

    /// Whether [`LiveOutput::end`] was called.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.lock().ended
    }

    /// The part of the head from `offset` on, for whoever stores output while the attempt runs:
    /// pass zero first, then the end of the last chunk received. Never contains a gap.
    #[must_use]
    pub fn head_since(&self, offset: u64) -> Vec<Chunk> {
        self.lock().head.read_all(offset)
    }

    /// What is kept at this moment.
    #[must_use]
    pub fn captured(&self) -> Captured {
        let state = self.lock();
        let total_bytes = state.total();
        let tail_start = total_bytes.saturating_sub(self.tail_limit as u64).max(state.tail.start());
        let tail = if state.tail.len() == 0 { Vec::new() } else { state.tail.read_all(tail_start) };
        let kept: u64 = state.head.len() as u64
            + tail.iter().map(|chunk| chunk.bytes.len() as u64).sum::<u64>();
        Captured {
            head: state.head.read_all(0),
            tail,
            total_bytes,
            dropped_bytes: total_bytes - kept,
        }
    }

    /// A reader that starts at the beginning.
    #[must_use]
    pub fn follow(self: &Arc<Self>) -> Follower {
        self.follow_from(0)
    }

    /// A reader that starts at `offset`, for one that was interrupted.
    #[must_use]
    pub fn follow_from(self: &Arc<Self>, offset: u64) -> Follower {
        Follower::new(Arc::clone(self), offset)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while the lock was held can at worst have lost a piece of output.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for LiveOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("LiveOutput")
            .field("total_bytes", &state.total())
            .field("ended", &state.ended)
            .finish_non_exhaustive()
    }
}

enum Look {
    Event(Event),
    Nothing,
    End,
}

impl State {
    fn total(&self) -> u64 {
        if self.tail.len() == 0 { self.head.end() } else { self.tail.end() }
    }

    fn look(&self, offset: u64) -> Look {
        for segment in [&self.head, &self.tail] {
            if let Some(chunk) = segment.read(offset, CHUNK_BYTES_MAX) {
                return Look::Event(Event::Output(chunk));
            }
        }
        if offset < self.total() {
            return Look::Event(Event::Skipped { offset, bytes: self.tail.start() - offset });
        }
        if self.ended { Look::End } else { Look::Nothing }
    }
}

#[cfg(test)]
mod tests;
