//! A run as a handler sees it.

use std::sync::Arc;

use bellwether_agent::Handle;
use bellwether_agent::protocol::{Assignment, Chunk, Handler, Output, Report, assignment, report};
use bytes::Bytes;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::Failure;

/// The most output that is kept of an attempt.
const OUTPUT_MAX: usize = 1024 * 1024;

/// Why a handler is to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stopped {
    /// Somebody canceled the run.
    Canceled,
    /// It took longer than the job's `timeout`.
    TimedOut,
    /// The lease is about to end: another worker may get the run.
    LeaseLost,
    /// The worker is shutting down and cannot wait any longer.
    Shutdown,
}

/// A run that a handler is to perform. Clones are the same run.
#[derive(Clone)]
pub struct Run {
    /// The run's id.
    pub id: String,
    /// The job's id.
    pub job_id: String,
    /// The job's key; may be empty.
    pub key: String,
    /// The job's namespace.
    pub namespace: String,
    /// The queue.
    pub queue: String,
    /// The job type.
    pub job_type: String,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// Grows with every attempt: whatever the handler writes to can refuse a lower one.
    pub fencing_token: u64,
    /// The tick this run is for, in RFC 3339.
    pub scheduled_at: String,
    payload: Bytes,
    inner: Arc<Inner>,
}

struct Inner {
    handle: Handle,
    stopped: watch::Sender<Option<Stopped>>,
    printed: Mutex<Printed>,
}

#[derive(Default)]
struct Printed {
    sequence: u32,
    bytes: usize,
    dropped: u64,
}

impl Run {
    pub(crate) fn new(given: Assignment, handle: Handle) -> Option<Run> {
        let assignment::Target::Handler(Handler { job_type, payload }) = given.target? else {
            return None;
        };
        Some(Run {
            id: given.run,
            job_id: given.job,
            key: given.key,
            namespace: given.namespace,
            queue: given.queue,
            job_type,
            attempt: given.attempt,
            fencing_token: given.token,
            scheduled_at: given.scheduled_at,
            payload,
            inner: Arc::new(Inner {
                handle,
                stopped: watch::Sender::new(None),
                printed: Mutex::default(),
            }),
        })
    }

    /// The same for all attempts of the run.
    #[must_use]
    pub fn idempotency_key(&self) -> &str {
        &self.id
    }

    /// The payload; `null` if the job has none.
    ///
    /// # Errors
    /// A failure that another attempt would not mend, if it is not what is expected.
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let json: &[u8] = if self.payload.is_empty() { b"null" } else { &self.payload };
        serde_json::from_slice(json).map_err(|error| {
            Failure::for_good(format!("the payload is not as expected: {error}"))
                .because("invalid_payload")
        })
    }

    /// The payload as it was sent.
    #[must_use]
    pub fn raw_payload(&self) -> &[u8] {
        &self.payload
    }

    /// Whether the handler is to stop, and why.
    #[must_use]
    pub fn stopped(&self) -> Option<Stopped> {
        *self.inner.stopped.borrow()
    }

    /// Waits until the handler is to stop. A handler that goes on is stopped after a while.
    pub async fn canceled(&self) -> Stopped {
        let mut stopped = self.inner.stopped.subscribe();
        match stopped.wait_for(Option::is_some).await.map(|why| *why) {
            Ok(Some(why)) => why,
            _ => std::future::pending().await,
        }
    }

    /// Writes a line to the run's output, which can be followed while it runs. What is beyond a
    /// megabyte, or comes while the server is away for long, is counted and not kept.
    pub fn log(&self, line: impl AsRef<str>) {
        let line = line.as_ref();
        let mut printed = self.inner.printed.lock();
        let size = line.len() + 1;
        if printed.bytes + size > OUTPUT_MAX || !self.inner.handle.has_room() {
            printed.dropped += size as u64;
            return;
        }
        printed.bytes += size;
        let mut data = Vec::with_capacity(size);
        data.extend_from_slice(line.as_bytes());
        data.push(b'\n');
        let dropped_before = std::mem::take(&mut printed.dropped);
        let chunk = Chunk { stream: 1, data: data.into(), dropped_before };
        let output = Output { sequence: printed.sequence, chunks: vec![chunk] };
        printed.sequence += 1;
        self.report(report::What::Output(output));
    }

    pub(crate) fn stop(&self, why: Stopped) {
        self.inner.stopped.send_if_modified(|stopped| {
            let first = stopped.is_none();
            stopped.get_or_insert(why);
            first
        });
    }

    /// Bytes printed in all, bytes not kept, and the number of the next chunk.
    pub(crate) fn printed(&self) -> (u64, u64, u32) {
        let printed = self.inner.printed.lock();
        (printed.bytes as u64 + printed.dropped, printed.dropped, printed.sequence)
    }

    pub(crate) fn report(&self, what: report::What) {
        let (run, token) = (self.id.clone(), self.fencing_token);
        self.inner.handle.report(Report { run, token, what: Some(what) });
    }
}
