//! What was done to a cluster, for whoever wants to know why a check failed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Lines with their times. All of them are shown if the test fails.
#[derive(Clone)]
pub struct History(Arc<Lines>);

struct Lines {
    begun: Instant,
    test: &'static str,
    seed: u64,
    dir: PathBuf,
    lines: Mutex<Vec<String>>,
}

/// Lines of each node's log that are shown.
const LOG_LINES: usize = 30;

impl History {
    /// The history of a test that is begun from a seed; nodes have their logs in a directory.
    pub fn new(test: &'static str, seed: u64, dir: PathBuf) -> History {
        println!("{test}: NEMESIS_SEED={seed}");
        let (begun, lines) = (Instant::now(), Mutex::default());
        History(Arc::new(Lines { begun, test, seed, dir, lines }))
    }

    /// The time since it began, by which all its lines are.
    pub fn elapsed(&self) -> Duration {
        self.0.begun.elapsed()
    }

    /// Notes something.
    pub fn note(&self, what: String) {
        let line = format!("{:8.3} s  {what}", self.elapsed().as_secs_f64());
        if std::env::var_os("NEMESIS_SHOW").is_some() {
            println!("{line}");
        }
        self.0.lines.lock().push(line);
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        println!("what happened:");
        for line in &*self.lines.lock() {
            println!("  {line}");
        }
        let entries = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()) {
            if path.extension().is_some_and(|ending| ending == "log") {
                let said = std::fs::read_to_string(&path).unwrap_or_default();
                let lines: Vec<&str> = said.lines().collect();
                println!("the end of {}:", path.display());
                for line in &lines[lines.len().saturating_sub(LOG_LINES)..] {
                    println!("  {line}");
                }
            }
        }
        println!(
            "again with:\n  NEMESIS_SEED={} cargo test -p bellwether --test nemesis {} -- --nocapture",
            self.seed, self.test
        );
    }
}
