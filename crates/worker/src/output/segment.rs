//! A contiguous part of what was printed: bytes, and which stream each of them came from.

use std::collections::VecDeque;

use bytes::Bytes;

use super::{Chunk, Stream};

/// Bytes `start..end` of an attempt's output. Neighbouring bytes of one stream share one mark, so
/// that a command that prints a byte at a time costs no more than one that prints pages.
pub(super) struct Segment {
    start: u64,
    bytes: VecDeque<u8>,
    /// Where each stretch of one stream begins; ascending, the first at or before `start`.
    marks: VecDeque<(u64, Stream)>,
}

impl Segment {
    pub(super) fn new(start: u64) -> Segment {
        Segment { start, bytes: VecDeque::new(), marks: VecDeque::new() }
    }

    pub(super) fn start(&self) -> u64 {
        self.start
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    pub(super) fn push(&mut self, stream: Stream, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if self.marks.back().is_none_or(|(_, last)| *last != stream) {
            self.marks.push_back((self.end(), stream));
        }
        self.bytes.extend(bytes);
    }

    /// Drops from the front until at most `keep` bytes are left.
    pub(super) fn trim_front(&mut self, keep: usize) {
        let excess = self.bytes.len().saturating_sub(keep);
        if excess == 0 {
            return;
        }
        self.bytes.drain(..excess);
        self.start += excess as u64;
        while self.marks.get(1).is_some_and(|(at, _)| *at <= self.start) {
            self.marks.pop_front();
        }
    }

    /// Copies out at most `max` bytes of one stream, from `offset` on. Nothing if `offset` lies
    /// outside.
    pub(super) fn read(&self, offset: u64, max: usize) -> Option<Chunk> {
        if offset < self.start || offset >= self.end() {
            return None;
        }
        let after = self.marks.partition_point(|(at, _)| *at <= offset);
        let (_, stream) = self.marks.get(after.checked_sub(1)?)?;
        let stretch_end = self.marks.get(after).map_or(self.end(), |(at, _)| *at);
        let from = usize::try_from(offset - self.start).ok()?;
        let len = usize::try_from(stretch_end - offset).unwrap_or(usize::MAX).min(max);
        let bytes: Bytes = self.bytes.range(from..from + len).copied().collect();
        Some(Chunk { offset, stream: *stream, bytes })
    }

    /// Everything from `offset` on.
    pub(super) fn read_all(&self, offset: u64) -> Vec<Chunk> {
        let mut chunks = Vec::new();
        let mut at = offset.max(self.start);
        while let Some(chunk) = self.read(at, usize::MAX) {
            at = chunk.end();
            chunks.push(chunk);
        }
        chunks
    }
}
