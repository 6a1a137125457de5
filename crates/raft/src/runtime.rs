//! The runtime that groups run on: tokio's, of which a part can be paused, ended and given its
//! chance by a seed.
//!
//! In production a task runs as it does in tokio, and its chance is the system's. Only timers are
//! different, for the sake of nodes with many groups that have nothing to do: long waits end on a
//! common beat, so that groups wake up together and not one after the other, and waits that are
//! shorter than a timer can measure are none. A simulation puts all that belongs to one
//! simulated node into a scope. What those tasks spawn is in the scope as well. So a node can be
//! stopped in the midst of whatever it does, as a signal stops a process, and ended as a lost
//! power supply does; and with one thread and paused time, one seed decides about everything.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use openraft::{AsyncRuntime, Instant as _, OptionalSend};
use openraft_rt_tokio::TokioRuntime;
use parking_lot::Mutex;
use rand_of_openraft::SeedableRng;
use rand_of_openraft::rngs::SmallRng;
use tokio::task::{AbortHandle, JoinHandle};

type Instant = <TokioRuntime as AsyncRuntime>::Instant;

thread_local! {
    static CURRENT: RefCell<Option<Arc<Scope>>> = const { RefCell::new(None) };
}

fn current() -> Option<Arc<Scope>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Waits of this length and longer end on a beat.
const LONG: Duration = Duration::from_millis(1);
/// The time between two beats.
const BEAT: Duration = Duration::from_millis(150);
/// A timer takes a millisecond, however short the wait; shorter ones than this are none.
const SHORT: Duration = Duration::from_micros(2);
/// So long ago that no timer has to be set.
const OVER: Duration = Duration::from_millis(2);

/// When the beat began: in each process at another time, so that nodes do not keep in step.
fn beat_began() -> Instant {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    match current() {
        Some(scope) => scope.began,
        None => *BEGAN.get_or_init(Instant::now),
    }
}

/// When to end a wait that is to end at some time.
fn end_of_wait(deadline: Instant, now: Instant, began: Instant) -> Instant {
    let wait = if deadline > now { deadline - now } else { Duration::ZERO };
    // Virtual time goes on only while all wait, so there every wait is one.
    if wait < SHORT && current().is_none() {
        return now - OVER;
    }
    if wait < LONG || deadline < began {
        return deadline;
    }
    let since = (deadline - began).as_nanos();
    let over = since % BEAT.as_nanos();
    if over == 0 {
        return deadline;
    }
    // Less than a beat, which has few nanoseconds.
    deadline + Duration::from_nanos((BEAT.as_nanos() - over) as u64)
}

/// Tasks that are paused and ended together, and share their chance.
pub struct Scope {
    began: Instant,
    state: Mutex<State>,
}

struct State {
    seed: u64,
    paused: bool,
    ended: bool,
    /// Tasks that would have gone on, had they not been paused.
    waiting: Vec<Waker>,
    tasks: Vec<AbortHandle>,
    /// Looked through for tasks that have ended when there are so many.
    tasks_max: usize,
}

/// Tasks of a scope that are remembered without looking which have ended.
const TASKS_MIN: usize = 64;

impl Scope {
    /// An empty scope.
    #[must_use]
    pub fn new(seed: u64) -> Arc<Scope> {
        let (waiting, tasks) = (Vec::new(), Vec::new());
        let (paused, ended, tasks_max) = (false, false, TASKS_MIN);
        Arc::new(Scope {
            began: Instant::now(),
            state: Mutex::new(State { seed, paused, ended, waiting, tasks, tasks_max }),
        })
    }

    /// Runs a task in this scope.
    pub fn spawn<F>(self: &Arc<Self>, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let scoped = Scoped { scope: self.clone(), future: Box::pin(future) };
        let handle = tokio::spawn(scoped);
        let mut state = self.state.lock();
        if state.ended {
            handle.abort();
        }
        if state.tasks.len() >= state.tasks_max {
            state.tasks.retain(|task| !task.is_finished());
            state.tasks_max = TASKS_MIN.max(2 * state.tasks.len());
        }
        state.tasks.push(handle.abort_handle());
        handle
    }

    /// From here on none of its tasks goes on.
    pub fn pause(&self) {
        self.state.lock().paused = true;
    }

    /// Its tasks go on where they were.
    pub fn resume(&self) {
        let mut state = self.state.lock();
        state.paused = false;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Ends all of its tasks where they are. Not to be called by one of them.
    pub fn end(&self) {
        let mut state = self.state.lock();
        state.ended = true;
        state.waiting.clear();
        let tasks = std::mem::take(&mut state.tasks);
        drop(state);
        tasks.iter().for_each(AbortHandle::abort);
    }

    /// Whether it is over.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.state.lock().ended
    }

    /// Whether a task has to wait; it is woken when it need not any longer.
    fn must_wait(&self, waker: &Waker) -> bool {
        let mut state = self.state.lock();
        if state.paused && !state.ended {
            state.waiting.push(waker.clone());
        }
        state.paused || state.ended
    }

    /// SplitMix64.
    fn random(&self) -> u64 {
        let mut state = self.state.lock();
        state.seed = state.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = state.seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

/// A task of a scope.
struct Scoped<F> {
    scope: Arc<Scope>,
    future: Pin<Box<F>>,
}

/// The scope that is current again when this is dropped.
struct Before(Option<Arc<Scope>>);

impl Drop for Before {
    fn drop(&mut self) {
        CURRENT.replace(self.0.take());
    }
}

impl<F: Future> Future for Scoped<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        if self.scope.must_wait(context.waker()) {
            return Poll::Pending;
        }
        let _before = Before(CURRENT.replace(Some(self.scope.clone())));
        self.future.as_mut().poll(context)
    }
}

/// Does something that takes its time where it holds nobody up; in a scope, at once.
///
/// # Errors
/// When it panicked.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    match current() {
        Some(_) => Ok(work()),
        None => tokio::task::spawn_blocking(work).await.map_err(io::Error::other),
    }
}

/// Tokio, unless it is in a [`Scope`].
#[derive(Debug)]
pub struct Runtime(TokioRuntime);

impl AsyncRuntime for Runtime {
    type JoinError = <TokioRuntime as AsyncRuntime>::JoinError;
    type JoinHandle<T: OptionalSend + 'static> = <TokioRuntime as AsyncRuntime>::JoinHandle<T>;
    type Sleep = <TokioRuntime as AsyncRuntime>::Sleep;
    type Instant = <TokioRuntime as AsyncRuntime>::Instant;
    type TimeoutError = <TokioRuntime as AsyncRuntime>::TimeoutError;
    type Timeout<R, T: Future<Output = R> + OptionalSend> =
        <TokioRuntime as AsyncRuntime>::Timeout<R, T>;
    type ThreadLocalRng = SmallRng;
    type Mpsc = <TokioRuntime as AsyncRuntime>::Mpsc;
    type Watch = crate::watch::Watch;
    type Oneshot = <TokioRuntime as AsyncRuntime>::Oneshot;
    type Mutex<T: OptionalSend + 'static> = <TokioRuntime as AsyncRuntime>::Mutex<T>;

    fn spawn<T>(future: T) -> Self::JoinHandle<T::Output>
    where
        T: Future + OptionalSend + 'static,
        T::Output: OptionalSend + 'static,
    {
        match current() {
            Some(scope) => scope.spawn(future),
            None => TokioRuntime::spawn(future),
        }
    }

    fn sleep(duration: Duration) -> Self::Sleep {
        TokioRuntime::sleep(duration)
    }

    fn sleep_until(deadline: Self::Instant) -> Self::Sleep {
        TokioRuntime::sleep_until(end_of_wait(deadline, Instant::now(), beat_began()))
    }

    fn timeout<R, F: Future<Output = R> + OptionalSend>(
        duration: Duration,
        future: F,
    ) -> Self::Timeout<R, F> {
        TokioRuntime::timeout(duration, future)
    }

    fn timeout_at<R, F: Future<Output = R> + OptionalSend>(
        deadline: Self::Instant,
        future: F,
    ) -> Self::Timeout<R, F> {
        TokioRuntime::timeout_at(deadline, future)
    }

    fn is_panic(error: &Self::JoinError) -> bool {
        TokioRuntime::is_panic(error)
    }

    fn thread_rng() -> SmallRng {
        match current() {
            Some(scope) => SmallRng::seed_from_u64(scope.random()),
            None => SmallRng::from_rng(&mut TokioRuntime::thread_rng()),
        }
    }

    fn new(threads: usize) -> Runtime {
        Runtime(TokioRuntime::new(threads))
    }

    fn block_on<F, T>(&mut self, future: F) -> T
    where
        F: Future<Output = T>,
    {
        self.0.block_on(future)
    }

    async fn spawn_blocking<F, T>(work: F) -> Result<T, io::Error>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        blocking(work).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use rand_of_openraft::Rng;

    use super::*;

    fn on_paused_time(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            tokio::time::pause();
            test.await;
        });
    }

    /// Counts on, once a second, in a task that was spawned by a task of the scope.
    fn count(scope: &Arc<Scope>) -> Arc<AtomicUsize> {
        let counted = Arc::new(AtomicUsize::new(0));
        let counting = counted.clone();
        scope.spawn(async move {
            Runtime::spawn(async move {
                loop {
                    counting.fetch_add(1, Ordering::Relaxed);
                    Runtime::sleep(Duration::from_secs(1)).await;
                }
            });
        });
        counted
    }

    #[test]
    fn what_a_scope_runs_is_paused_and_ended_as_a_whole() {
        on_paused_time(async {
            let scope = Scope::new(1);
            let counted = count(&scope);
            let after = async |ms| {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                counted.load(Ordering::Relaxed)
            };
            assert_eq!(after(2_500).await, 3);
            scope.pause();
            assert_eq!(after(5_000).await, 3);
            scope.resume();
            assert_eq!(after(1).await, 4, "it goes on where it was");
            scope.end();
            assert_eq!(after(5_000).await, 4);
            assert_eq!(Arc::strong_count(&counted), 1, "what it had is gone");
        });
    }

    #[test]
    fn long_waits_end_together_and_the_shortest_are_none() {
        let began = Instant::now();
        let at = |ms: u64| began + Duration::from_millis(ms);
        let end = |from, to| end_of_wait(at(to), at(from), began);
        assert_eq!(end(10, 70), at(150));
        assert_eq!(end(30, 150), at(150));
        assert_eq!(end(151, 211), at(300));
        let now = at(1_000);
        let soon = now + Duration::from_micros(300);
        assert_eq!(end_of_wait(soon, now, began), soon, "a short wait is as long as it is");
        assert!(end_of_wait(now + Duration::from_micros(1), now, began) < now);
        assert!(end_of_wait(at(1), now, began) < now, "what is over is over");
    }

    #[test]
    fn chance_in_a_scope_is_the_seeds() {
        let draw = |seed| {
            let mut drawn = 0;
            on_paused_time(async {
                let scope = Scope::new(seed);
                drawn = scope.spawn(async { Runtime::thread_rng().next_u64() }).await.unwrap();
            });
            drawn
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert_ne!(Runtime::thread_rng().next_u64(), Runtime::thread_rng().next_u64());
    }
}
