//! Entries that a replica is sent and does not answer.
//!
//! A node whose log is stuck in a write, because its disk is, still answers the pings of a connection, so a
//! stream of entries to it stays open. Until that ends, openraft keeps all that is on its way there, and
//! the log of a healthy leader would grow without bound. So a stream ends when something was asked and
//! nothing has been answered for too long; both sides see to it, since only the one that answers can
//! get rid of what the other cannot send. While nothing is outstanding there is no deadline, and no
//! timer either: most groups of a node have nothing to say most of the time.
//!
//! A stream whose answers nobody waits for any more asks for nothing more.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use futures::{Stream, StreamExt};
use openraft::EntryPayload;
use openraft::raft::AppendEntriesRequest;
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep};

use crate::types::Types;

type Request = AppendEntriesRequest<Types>;

/// How long an answer may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Besides what large requests take.
    pub quiet: Duration,
    /// Bytes of them a second at least. A large one takes its time.
    pub bytes_a_second: u64,
}

/// What was asked, and what of it was answered.
struct Outstanding {
    /// Bytes of each request that is yet to be answered, in order.
    bytes: VecDeque<u64>,
    /// When the last answer came, or the first of these was asked.
    since: Instant,
    /// Whether a timer runs: then nobody has to be told that there is something to wait for.
    timed: bool,
    /// Whom to tell.
    waits: Option<Waker>,
}

impl Outstanding {
    fn ask(&mut self, now: Instant, bytes: u64) -> Option<Waker> {
        if self.bytes.is_empty() {
            self.since = now;
        }
        self.bytes.push_back(bytes);
        if self.timed { None } else { self.waits.take() }
    }

    fn answer(&mut self, now: Instant) {
        self.bytes.pop_front();
        self.since = now;
    }

    /// When the next answer has to be there, if any has.
    fn deadline(&self, patience: Patience) -> Option<Instant> {
        let millis = self.bytes.front()?.saturating_mul(1_000) / patience.bytes_a_second;
        Some(self.since + patience.quiet + Duration::from_millis(millis))
    }
}

struct Shared<S> {
    /// Where requests come from, until their answers are not wanted any more; and who waits for them.
    input: Mutex<(Option<S>, Option<Waker>)>,
    outstanding: Mutex<Outstanding>,
}

/// Requests, as they are sent.
pub(super) struct Requests<S>(Arc<Shared<S>>);

/// The other end of these: requests are taken as long as it is there.
pub(super) struct Asked<S>(Arc<Shared<S>>);

/// Counts requests that are yet to be answered.
pub(super) fn counted<S>(input: S) -> (Requests<S>, Asked<S>) {
    let bytes = VecDeque::new();
    let outstanding = Outstanding { bytes, since: Instant::now(), timed: false, waits: None };
    let (input, outstanding) = (Mutex::new((Some(input), None)), Mutex::new(outstanding));
    let shared = Arc::new(Shared { input, outstanding });
    (Requests(shared.clone()), Asked(shared))
}

fn bytes_of(request: &Request) -> u64 {
    let bytes = request.entries.iter().map(|entry| match &entry.payload {
        EntryPayload::Normal(command) => command.0.len() as u64,
        EntryPayload::Blank | EntryPayload::Membership(_) => 0,
    });
    bytes.sum()
}

impl<S: Stream<Item = Request> + Unpin> Stream for Requests<S> {
    type Item = Request;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Request>> {
        let next = {
            let mut guard = self.0.input.lock();
            let (input, waits) = &mut *guard;
            let Some(input) = input else { return Poll::Ready(None) };
            let next = input.poll_next_unpin(context);
            if next.is_pending() {
                *waits = Some(context.waker().clone());
            }
            ready!(next)
        };
        if let Some(request) = &next {
            let told = self.0.outstanding.lock().ask(Instant::now(), bytes_of(request));
            told.into_iter().for_each(Waker::wake);
        }
        Poll::Ready(next)
    }
}

impl<S> Drop for Asked<S> {
    fn drop(&mut self) {
        let (input, waits) = std::mem::take(&mut *self.0.input.lock());
        drop(input);
        waits.into_iter().for_each(Waker::wake);
    }
}

impl<S> Asked<S> {
    /// The answers, of which the last one says that they stay away, should they do so for this long.
    pub fn answered<A: Stream + Unpin>(
        self,
        answers: A,
        patience: Patience,
        silent: impl Fn() -> A::Item,
    ) -> impl Stream<Item = A::Item> {
        let answers =
            Answers { asked: self, answers: answers.fuse(), patience, silent, timer: None };
        // The last one drops what it was made of, and with it where requests come from.
        futures::stream::unfold(Some(answers), |answers| async {
            let mut answers = answers?;
            match std::future::poll_fn(|context| answers.poll(context)).await {
                Said::Answer(answer) => Some((answer, Some(answers))),
                Said::Silent => Some(((answers.silent)(), None)),
                Said::End => None,
            }
        })
    }
}

/// What came of waiting for an answer.
enum Said<T> {
    Answer(T),
    Silent,
    End,
}

struct Answers<S, A, F> {
    asked: Asked<S>,
    answers: A,
    patience: Patience,
    silent: F,
    timer: Option<Pin<Box<Sleep>>>,
}

impl<S, A: Stream + Unpin, F> Answers<S, A, F> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Said<A::Item>> {
        match self.answers.poll_next_unpin(context) {
            Poll::Ready(Some(answer)) => {
                self.asked.0.outstanding.lock().answer(Instant::now());
                return Poll::Ready(Said::Answer(answer));
            }
            Poll::Ready(None) => return Poll::Ready(Said::End),
            Poll::Pending => {}
        }
        loop {
            let Some(timer) = self.timer(context) else { return Poll::Pending };
            ready!(timer.poll(context));
            let mut outstanding = self.asked.0.outstanding.lock();
            outstanding.timed = false;
            if outstanding.deadline(self.patience).is_some_and(|at| at <= Instant::now()) {
                return Poll::Ready(Said::Silent);
            }
        }
    }

    /// The timer that runs until the next answer has to be there, at most; none if nothing has been asked.
    /// One that runs is left alone, whatever is asked and answered meanwhile: nothing that is
    /// asked from now on can be due before it. But one for something large that was answered would
    /// come too late.
    fn timer(&mut self, context: &mut Context<'_>) -> Option<Pin<&mut Sleep>> {
        let mut outstanding = self.asked.0.outstanding.lock();
        let running =
            self.timer.as_ref().filter(|_| outstanding.timed).map(|timer| timer.deadline());
        let deadline = outstanding.deadline(self.patience);
        let latest = deadline.unwrap_or_else(|| Instant::now() + self.patience.quiet);
        if running.is_none_or(|ends| ends > latest) {
            let Some(deadline) = deadline else {
                outstanding.timed = false;
                outstanding.waits = Some(context.waker().clone());
                return None;
            };
            outstanding.timed = true;
            match &mut self.timer {
                Some(timer) => timer.as_mut().reset(deadline),
                None => self.timer = Some(Box::pin(tokio::time::sleep_until(deadline))),
            }
        }
        self.timer.as_mut().map(Pin::as_mut)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures::stream;
    use openraft::vote::{RaftLeaderId, RaftVote};
    use tokio::sync::mpsc;
    use tokio_stream::wrappers::UnboundedReceiverStream;

    use super::*;
    use crate::types::{Command, Entry, LogId, Vote};

    const PATIENCE: Patience =
        Patience { quiet: Duration::from_secs(10), bytes_a_second: 256 * 1024 };

    fn request(bytes: usize) -> Request {
        let leader = <Types as openraft::RaftTypeConfig>::LeaderId::new(1, 1);
        let payload = EntryPayload::Normal(Command(Bytes::from(vec![7; bytes])));
        Request {
            vote: Vote::from_leader_id(leader, true),
            prev_log_id: None,
            entries: vec![Entry { log_id: LogId::new(leader.to_committed(), 1), payload }],
            leader_commit: None,
        }
    }

    /// A stream of requests, the sending and the answering side of which are these.
    struct Open {
        ask: mpsc::UnboundedSender<Request>,
        sent: Requests<UnboundedReceiverStream<Request>>,
        answer: mpsc::UnboundedSender<&'static str>,
        answers: Pin<Box<dyn Stream<Item = &'static str>>>,
    }

    fn open() -> Open {
        let (ask, input) = mpsc::unbounded_channel();
        let (answer, answers) = mpsc::unbounded_channel();
        let (sent, asked) = counted(UnboundedReceiverStream::new(input));
        let answers = asked.answered(UnboundedReceiverStream::new(answers), PATIENCE, || "silence");
        Open { ask, sent, answer, answers: Box::pin(answers) }
    }

    impl Open {
        async fn send(&mut self, bytes: usize) {
            self.ask.send(request(bytes)).unwrap();
            self.sent.next().await.unwrap();
        }

        /// What is answered within so many seconds.
        async fn within(&mut self, seconds: u64) -> Option<&'static str> {
            let next = self.answers.next();
            tokio::time::timeout(Duration::from_secs(seconds), next).await.ok().flatten()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn r112_a_stream_ends_when_what_was_asked_is_not_answered() {
        let mut open = open();
        assert_eq!(open.within(3_600).await, None, "nothing was asked");
        for _ in 0..3 {
            open.send(10).await;
        }
        for _ in 0..2 {
            assert_eq!(open.within(9).await, None);
            open.answer.send("yes").unwrap();
            assert_eq!(open.within(0).await, Some("yes"));
        }
        assert_eq!(open.within(9).await, None, "the others were answered since");
        assert_eq!(open.within(2).await, Some("silence"));
        assert_eq!(open.within(1).await, None, "that was the last");
        assert!(open.ask.is_closed(), "nothing more is asked");
        assert!(open.sent.next().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn r112_what_is_asked_after_a_while_has_a_deadline_as_well() {
        let mut open = open();
        for _ in 0..2 {
            open.send(10).await;
            open.answer.send("yes").unwrap();
            assert_eq!(open.within(0).await, Some("yes"));
            assert_eq!(open.within(3_600).await, None, "nothing is outstanding");
        }
        // Whoever waits is told that there is something to wait for.
        let Open { ask, mut sent, answer: _answer, mut answers } = open;
        let waits = async { answers.next().await };
        let asks = async {
            tokio::time::sleep(PATIENCE.quiet * 6).await;
            ask.send(request(10)).unwrap();
            sent.next().await.unwrap();
            Instant::now()
        };
        let (last, asked) = tokio::join!(waits, asks);
        assert_eq!(last, Some("silence"));
        assert!(asked.elapsed() < PATIENCE.quiet + Duration::from_secs(1), "{:?}", asked.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn r65_a_large_entry_may_take_its_time() {
        let mut open = open();
        open.send(32 * 1024 * 1024).await;
        assert_eq!(open.within(10 + 127).await, None);
        assert_eq!(open.within(2).await, Some("silence"));
    }

    #[tokio::test(start_paused = true)]
    async fn r112_what_is_asked_after_something_large_has_no_more_time_than_else() {
        let mut open = open();
        for another in [false, true] {
            open.send(32 * 1024 * 1024).await;
            assert_eq!(open.within(1).await, None);
            if another {
                open.send(10).await;
            }
            open.answer.send("yes").unwrap();
            assert_eq!(open.within(0).await, Some("yes"));
            if !another {
                assert_eq!(open.within(20).await, None, "nothing is outstanding");
            }
        }
        assert_eq!(open.within(9).await, None);
        assert_eq!(open.within(2).await, Some("silence"));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_drops_the_answers_lets_go_of_what_asks() {
        let Open { ask, mut sent, answers, .. } = open();
        let asking = tokio::spawn(async move { sent.next().await });
        tokio::task::yield_now().await;
        drop(answers);
        assert!(ask.is_closed());
        assert!(asking.await.unwrap().is_none(), "it is woken, and ends");
        let (requests, asked) = counted(stream::pending::<Request>());
        drop(asked);
        assert_eq!(requests.count().await, 0, "also before there are answers");
    }
}
