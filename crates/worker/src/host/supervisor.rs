//! The process around one command: runs it, writes down what it prints and how it ends, and ends
//! it when the lease on it does, whether or not there is still a worker.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bellwether_agent::boot_ms;
use bellwether_protocol::v1::{HandedBack, Report, report};
use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep, sleep_until};

use super::attempt_dir::{AttemptDir, Meta};
use super::state_dir::lease_of;
use crate::control::{Control, StopReason};
use crate::executor::{Executor, ExecutorOptions};
use crate::finished::Finished;
use crate::output::LiveOutput;
use crate::wire;

/// The longest time between two looks at the lease.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// What is printed within such a time is written down together.
const OUTPUT_EVERY: Duration = Duration::from_millis(250);
/// How often, and how many times, a result is written that cannot be.
const RESULT_TRY_EVERY: Duration = Duration::from_secs(1);
const RESULT_TRIES_MAX: usize = 600;

/// Supervises the attempt in a directory to its end. Nothing is run if somebody else answers for
/// the attempt, or did.
///
/// # Errors
/// If the directory cannot be read or the result cannot be written.
pub fn supervise(path: &Path) -> io::Result<()> {
    // Whoever ends the worker's process group or terminal does not mean the commands. It fails only
    // if this process is a leader already.
    let _ = rustix::process::setsid();
    let dir = AttemptDir::at(path);
    let Some(lock) = dir.try_lock()? else { return Ok(()) };
    if dir.has_result() {
        return Ok(());
    }
    let missing = || io::Error::new(io::ErrorKind::InvalidData, "there is no attempt in it");
    let meta = dir.meta().ok_or_else(missing)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(2)
        .build()?;
    let executor = Executor::new(ExecutorOptions::default()).map_err(io::Error::other)?;
    runtime.block_on(async {
        let report = run(&dir, &meta, &executor).await.ok_or_else(missing)?;
        write_result(&dir, &report).await?;
        drop(lock);
        dir.notify();
        // What the command left running may go on printing.
        executor.leftovers_ended().await;
        Ok(())
    })
}

/// Writes the result, and tries for a while if the disk is full: it says what became of the run.
async fn write_result(dir: &AttemptDir, report: &Report) -> io::Result<()> {
    for _ in 0..RESULT_TRIES_MAX {
        if dir.write_result(report).is_ok() {
            return Ok(());
        }
        sleep(RESULT_TRY_EVERY).await;
    }
    dir.write_result(report)
}

async fn run(dir: &AttemptDir, meta: &Meta, executor: &Executor) -> Option<Report> {
    let attempt = wire::attempt_of(dir.assignment()?, &meta.instance)?;
    let control = Control::new();
    check_lease(dir, &control);
    check_stop(dir, &control);
    if control.requested().is_none() && dir.write_started().is_err() {
        // Without a mark that it began, it could be begun twice.
        control.stop(StopReason::LeaseLost);
    }
    let output = LiveOutput::new(meta.output_limit);
    let mut scribe = Scribe { dir, output: &output, written: 0, pieces: 0, broken: false };
    let execution = executor.execute(attempt, control.clone(), Arc::clone(&output));
    let finished = watch(dir, &control, execution, &mut scribe).await;
    scribe.write();
    let what = match wire::finished_of(finished, scribe.written, scribe.pieces) {
        Some(finished) => report::What::Finished(finished),
        None => report::What::HandedBack(HandedBack {}),
    };
    Some(Report { run: meta.held.run.clone(), token: meta.held.token, what: Some(what) })
}

async fn watch(
    dir: &AttemptDir,
    control: &Control,
    execution: impl Future<Output = Finished>,
    scribe: &mut Scribe<'_>,
) -> Finished {
    let mut execution = std::pin::pin!(execution);
    let orders = pipe::OpenOptions::new().read_write(true).open_receiver(dir.control()).ok();
    let mut follower = scribe.output.follow();
    let mut write_at = Instant::now();
    let mut unwritten = false;
    let mut look_at = Instant::now();
    loop {
        tokio::select! {
            biased;
            finished = &mut execution => return finished,
            () = sleep_until(look_at) => {
                check_stop(dir, control);
                look_at = Instant::now() + check_lease(dir, control);
            }
            () = order(orders.as_ref()) => check_stop(dir, control),
            () = sleep_until(write_at), if unwritten => {
                unwritten = false;
                follower = scribe.output.follow_from(scribe.output.total_bytes());
                if scribe.write() {
                    dir.notify();
                }
                write_at = Instant::now() + OUTPUT_EVERY;
            }
            Some(_) = follower.next(), if !unwritten => unwritten = true,
        }
    }
}

/// Waits for a note that there is something to look at.
async fn order(orders: Option<&pipe::Receiver>) {
    let Some(orders) = orders else { return std::future::pending().await };
    if orders.readable().await.is_err() {
        return std::future::pending().await;
    }
    while let Ok(1..) = orders.try_read(&mut [0; 64]) {}
}

fn check_stop(dir: &AttemptDir, control: &Control) {
    match dir.stop() {
        Some((reason, Some(within))) if stop_is_news(control, within) => {
            control.stop_within(reason, within);
        }
        Some((reason, None)) if control.requested().is_none() => control.stop(reason),
        _ => {}
    }
}

/// Whether a period has not been asked for already: asking again would begin it anew.
fn stop_is_news(control: &Control, within: Duration) -> bool {
    control.requested().and_then(|stop| stop.grace).is_none_or(|grace| within < grace)
}

/// Stops the command if the lease is about to end; how long until the next look.
fn check_lease(dir: &AttemptDir, control: &Control) -> Duration {
    let now_ms = boot_ms();
    let (stop_at, kill_at) = match lease_of(dir.state()) {
        Some(lease) => (lease.stop_at_ms(), lease.kill_at_ms()),
        None => (0, 0),
    };
    let left = stop_at.saturating_sub(now_ms);
    if left > 0 {
        return Duration::from_millis(left).min(LOOK_EVERY);
    }
    let within = Duration::from_millis(kill_at.saturating_sub(now_ms));
    if stop_is_news(control, within.max(Duration::from_millis(1))) {
        control.stop_within(StopReason::LeaseLost, within);
    }
    // It is not stopped twice, except by force when that time comes.
    within.clamp(Duration::from_millis(10), LOOK_EVERY)
}

/// Writes down what is printed, as far as it belongs to the head that is kept.
struct Scribe<'a> {
    dir: &'a AttemptDir,
    output: &'a Arc<LiveOutput>,
    written: u64,
    pieces: u32,
    /// Whether something could not be written, perhaps only in part: nothing may follow it.
    broken: bool,
}

impl Scribe<'_> {
    /// Whether there was something to write. What cannot be written comes with the result.
    fn write(&mut self) -> bool {
        let new = self.output.head_since(self.written);
        let Some(last) = new.last().filter(|_| !self.broken) else { return false };
        self.broken = self.dir.append_output(&new).is_err();
        if !self.broken {
            self.written = last.end();
            self.pieces = self.pieces.saturating_add(u32::try_from(new.len()).unwrap_or(0));
        }
        !self.broken
    }
}
