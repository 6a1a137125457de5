//! How long this machine makes others wait: what a cluster does then shows nothing about the cluster.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Whoever stands still for so long may be taken for gone by the others.
pub const STALL: Duration = Duration::from_millis(600);
/// How often somebody looks.
const EVERY: Duration = Duration::from_millis(50);

/// A thread that does what nodes do all the time: it waits for a moment, and has something stored.
pub struct Stalls {
    looking: JoinHandle<Duration>,
    over: Sender<()>,
}

impl Stalls {
    /// Looks from now on at how long that takes, with a file in a directory.
    pub fn watch(dir: &Path) -> Stalls {
        let mut file = File::create(dir.join("stalls")).unwrap();
        let (over, ended) = mpsc::channel();
        let looking = std::thread::spawn(move || {
            let (mut longest, mut last) = (Duration::ZERO, Instant::now());
            loop {
                let is_over = ended.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout);
                file.write_all(b"x").unwrap();
                file.sync_data().unwrap();
                longest = longest.max(last.elapsed());
                last = Instant::now();
                if is_over {
                    return longest;
                }
            }
        });
        Stalls { looking, over }
    }

    /// The longest time that it took.
    pub fn longest(self) -> Duration {
        drop(self.over);
        self.looking.join().unwrap()
    }
}
