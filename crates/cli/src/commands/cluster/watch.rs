//! A bar for work on a backup, fed by whoever does it.

use std::sync::Arc;
use std::time::Duration;

use bellwether_backup::Progress;
use indicatif::ProgressBar;

use super::bytes_text;
use crate::show::items_bar;

/// How often the bar is brought up to date.
const EVERY: Duration = Duration::from_millis(100);

/// Does something with a bar that shows how far it is.
pub async fn watched<T>(what: &str, progress: &Arc<Progress>, work: impl Future<Output = T>) -> T {
    let bar = items_bar(0);
    let mut work = std::pin::pin!(work);
    let mut tick = tokio::time::interval(EVERY);
    loop {
        tokio::select! {
            done = &mut work => {
                bar.finish_and_clear();
                return done;
            }
            _ = tick.tick() => {
                let done = (progress.shards_done(), progress.shards());
                tell(&bar, what, done, progress.rows(), progress.stored_bytes());
            }
        }
    }
}

/// Brings a bar up to date.
pub fn tell(bar: &ProgressBar, what: &str, (done, all): (u32, u32), rows: u64, stored: u64) {
    bar.set_length(u64::from(all));
    bar.set_position(u64::from(done));
    let stored = bytes_text(stored);
    bar.set_message(format!("{what}: {done} of {all} shards, {rows} rows, {stored}"));
}
