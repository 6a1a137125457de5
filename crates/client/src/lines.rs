//! A stream of bytes as a stream of lines.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::Stream;

/// The lines of a stream of bytes, without their ends (`\n` or `\r\n`). What is no UTF-8 is
/// replaced. An unfinished line at the end is a line.
pub(crate) struct Lines<S> {
    stream: Pin<Box<S>>,
    pending: Vec<u8>,
    /// How much of `pending` is known to hold no line's end.
    searched: usize,
    ended: bool,
}

impl<S> Lines<S> {
    pub(crate) fn new(stream: S) -> Lines<S> {
        Lines { stream: Box::pin(stream), pending: Vec::new(), searched: 0, ended: false }
    }

    fn take(&mut self) -> Option<String> {
        let found = self.pending[self.searched..].iter().position(|byte| *byte == b'\n');
        let Some(end) = found.map(|at| self.searched + at) else {
            self.searched = self.pending.len();
            return None;
        };
        let rest = self.pending.split_off(end + 1);
        let mut line = std::mem::replace(&mut self.pending, rest);
        self.searched = 0;
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Some(String::from_utf8_lossy(&line).into_owned())
    }
}

impl<S, E> Stream for Lines<S>
where
    S: Stream<Item = Result<Bytes, E>>,
{
    type Item = Result<String, E>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(line) = self.take() {
                return Poll::Ready(Some(Ok(line)));
            }
            if self.ended {
                let last = std::mem::take(&mut self.pending);
                let last = (!last.is_empty()).then(|| String::from_utf8_lossy(&last).into_owned());
                self.searched = 0;
                return Poll::Ready(last.map(Ok));
            }
            match ready!(self.stream.as_mut().poll_next(cx)) {
                Some(Ok(bytes)) => self.pending.extend_from_slice(&bytes),
                Some(Err(error)) => {
                    self.ended = true;
                    self.pending.clear();
                    self.searched = 0;
                    return Poll::Ready(Some(Err(error)));
                }
                None => self.ended = true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;

    use super::*;

    #[test]
    fn lines_come_out_however_the_bytes_come_in() {
        let text = "one\r\ntwo\n\nthree";
        for size in 1..=text.len() {
            let pieces: Vec<Result<Bytes, ()>> = text
                .as_bytes()
                .chunks(size)
                .map(|piece| Ok(Bytes::copy_from_slice(piece)))
                .collect();
            let lines = Lines::new(futures::stream::iter(pieces)).collect::<Vec<_>>();
            let lines: Vec<String> =
                futures::executor::block_on(lines).into_iter().map(Result::unwrap).collect();
            assert_eq!(lines, ["one", "two", "", "three"], "{size}");
        }
    }
}
