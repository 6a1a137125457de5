//! Moves bytes between a command and the rest: its output to whoever wants it, its input to it.

use std::io;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::Semaphore;

use crate::output::{LiveOutput, Stream};
use crate::rules::Judge;

/// Bytes read at once from each of a command's two pipes.
const READ_BYTES: usize = 16 * 1024;

/// The pipes of one command. [`Pump::run`] may be dropped at any moment and called again: no byte
/// is lost or sent twice.
pub(super) struct Pump<'a> {
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    stdin: Option<(ChildStdin, Bytes)>,
    buffers: [Box<[u8]>; 2],
    output: &'a LiveOutput,
    judge: &'a mut Judge,
}

impl<'a> Pump<'a> {
    pub(super) fn new(
        child: &mut Child,
        stdin: Option<Bytes>,
        output: &'a LiveOutput,
        judge: &'a mut Judge,
    ) -> Pump<'a> {
        let buffer = || vec![0; READ_BYTES].into_boxed_slice();
        Pump {
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
            stdin: child.stdin.take().zip(stdin),
            buffers: [buffer(), buffer()],
            output,
            judge,
        }
    }

    /// Whether both outputs are closed.
    pub(super) fn is_done(&self) -> bool {
        self.stdout.is_none() && self.stderr.is_none()
    }

    /// Moves bytes until both outputs are closed.
    pub(super) async fn run(&mut self) {
        let [from_stdout, from_stderr] = &mut self.buffers;
        while self.stdout.is_some() || self.stderr.is_some() {
            tokio::select! {
                read = read(&mut self.stdout, from_stdout), if self.stdout.is_some() => {
                    self.judge.observe(Stream::Stdout, &from_stdout[..read]);
                    self.output.push(Stream::Stdout, &from_stdout[..read]);
                }
                read = read(&mut self.stderr, from_stderr), if self.stderr.is_some() => {
                    self.judge.observe(Stream::Stderr, &from_stderr[..read]);
                    self.output.push(Stream::Stderr, &from_stderr[..read]);
                }
                () = write(&mut self.stdin), if self.stdin.is_some() => {}
            }
        }
    }

    /// Adds a line of the worker's own to what the command prints.
    pub(super) fn remark(&self, line: &str) {
        self.output.push(Stream::Stderr, line.as_bytes());
    }

    /// Goes on emptying pipes that a background process still holds, so that it neither blocks
    /// nor dies of a closed pipe when it prints. What it prints is not kept. If `room` is used up,
    /// the pipes are closed instead.
    pub(super) fn abandon(self, room: &Arc<Semaphore>) {
        empty(self.stdout, room);
        empty(self.stderr, room);
    }
}

/// Reads once; at the end or on an error, gives the pipe up.
async fn read(pipe: &mut Option<impl AsyncRead + Unpin>, buffer: &mut [u8]) -> usize {
    let Some(open) = pipe else { return 0 };
    let read = open.read(buffer).await.unwrap_or(0);
    if read == 0 {
        *pipe = None;
    }
    read
}

/// Writes once; when all is written or nobody reads any more, closes the pipe.
async fn write(pipe: &mut Option<(ChildStdin, Bytes)>) {
    let Some((open, rest)) = pipe else { return };
    let written: io::Result<usize> = if rest.is_empty() { Ok(0) } else { open.write(rest).await };
    match written {
        Ok(written) if written > 0 => rest.advance(written),
        // A command is free not to read its input.
        _ => *pipe = None,
    }
}

fn empty(pipe: Option<impl AsyncRead + Unpin + Send + 'static>, room: &Arc<Semaphore>) {
    let Some(mut pipe) = pipe else { return };
    let Ok(permit) = Arc::clone(room).try_acquire_owned() else { return };
    tokio::spawn(async move {
        // An error means that the other end is gone, which is the end of it too.
        let _ = tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await;
        drop(permit);
    });
}
