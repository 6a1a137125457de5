//! Replicas that begin with nothing, on nodes that may have had one before.
//!
//! A replica that is removed is erased, with all that it had promised. If its node takes part again some
//! day, it may be sent the log from its beginning, and on the way finds itself in a past in which it voted,
//! perhaps alone: the node that founded a shard did. It must not act on that. Led by itself it would be a
//! second shard with the number of the first, and its votes could make others lead that are as far behind.
//!
//! So a replica that was begun anew neither stands for election nor votes until it has all that was agreed upon
//! when a leader first spoke to it. That it was removed is part of that, since it is erased only after that was
//! agreed. A file says so for as long as it lasts, and up to where, whatever happens to the node meanwhile; whoever is
//! needed for a majority has arrived before: [`crate::engine::RaftEngine::wait_until_arrived`].

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bellwether_core::waist::Shard;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// How far a replica has to get before it counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wait {
    /// No leader has spoken to it yet.
    Unheard,
    /// It lacks something up to this entry.
    Until(u64),
    /// It does not wait, or no more.
    Over,
}

/// Whether a replica has yet to arrive.
pub struct Arrival {
    wait: Mutex<Wait>,
    news: Notify,
}

impl Default for Arrival {
    fn default() -> Arrival {
        Arrival::new(false)
    }
}

impl Arrival {
    /// That of a replica that was begun anew, or of any other.
    #[must_use]
    pub fn new(anew: bool) -> Arrival {
        Arrival::of(if anew { Wait::Unheard } else { Wait::Over })
    }

    fn of(wait: Wait) -> Arrival {
        Arrival { wait: Mutex::new(wait), news: Notify::new() }
    }

    /// That of a replica with a mark.
    ///
    /// # Errors
    /// When that cannot be read.
    pub fn read(mark: &Path) -> io::Result<Arrival> {
        let text = fs::read_to_string(mark)?;
        // A line that was not finished says nothing.
        let agreed = text.strip_suffix('\n').and_then(|agreed| agreed.parse().ok());
        Ok(Arrival::of(agreed.map_or(Wait::Unheard, Wait::Until)))
    }

    /// A leader says up to which entry everything is agreed upon.
    pub fn hear(&self, agreed: Option<u64>) {
        let mut wait = self.wait.lock();
        if let (Wait::Unheard, Some(agreed)) = (*wait, agreed) {
            *wait = Wait::Until(agreed);
            self.news.notify_one();
        }
    }

    /// Whether it counts, given the last entry that it has. Once it does, it does for good.
    pub fn arrived(&self, last: Option<u64>) -> bool {
        let mut wait = self.wait.lock();
        if let (Wait::Until(agreed), Some(last)) = (*wait, last)
            && last >= agreed
        {
            *wait = Wait::Over;
        }
        *wait == Wait::Over
    }

    /// Whether it has yet to.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        *self.wait.lock() != Wait::Over
    }

    /// Waits until a leader has spoken for the first time. Up to where the replica has to get.
    pub async fn news(&self) -> Option<u64> {
        self.news.notified().await;
        match *self.wait.lock() {
            Wait::Until(agreed) => Some(agreed),
            Wait::Unheard | Wait::Over => None,
        }
    }
}

/// The replicas of a node that have yet to arrive: a file for each.
pub struct Arrivals(PathBuf);

impl Arrivals {
    /// Those in a directory, which is made with the first.
    #[must_use]
    pub fn new(dir: PathBuf) -> Arrivals {
        Arrivals(dir)
    }

    /// Where it is said of a replica.
    #[must_use]
    pub fn mark(&self, shard: Shard) -> PathBuf {
        self.0.join(format!("shard-{shard}"))
    }

    /// Says of a replica that it is begun anew, for good.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn add(&self, shard: Shard) -> io::Result<()> {
        fs::create_dir_all(&self.0)?;
        File::create(self.mark(shard))?.sync_all()?;
        File::open(&self.0)?.sync_all()
    }
}

/// Says up to where a replica has to get.
///
/// # Errors
/// When it cannot be written.
pub fn write(mark: &Path, agreed: u64) -> io::Result<()> {
    let mut file = File::create(mark)?;
    file.write_all(format!("{agreed}\n").as_bytes())?;
    file.sync_all()
}

/// Says no more of a replica that it has yet to arrive.
///
/// # Errors
/// When it cannot be removed.
pub fn remove(mark: &Path) -> io::Result<()> {
    match fs::remove_file(mark) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => mark.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn r92_one_that_was_begun_anew_counts_when_it_has_what_was_agreed_upon_at_first() {
        let arrival = Arrival::new(true);
        assert!(!arrival.arrived(None) && !arrival.arrived(Some(5)), "nobody has spoken to it");
        arrival.hear(None);
        assert!(!arrival.arrived(Some(5)));
        arrival.hear(Some(191));
        arrival.hear(Some(300));
        assert!(!arrival.arrived(Some(190)) && arrival.is_awaited());
        assert!(arrival.arrived(Some(191)) && !arrival.is_awaited());
        assert!(arrival.arrived(None), "for good");
        assert!(Arrival::new(false).arrived(None), "others count at once");
    }

    #[test]
    fn r92_after_a_start_it_waits_for_what_it_waited_for_before() {
        let dir = tempfile::tempdir().unwrap();
        let arrivals = Arrivals::new(dir.path().join("arrivals"));
        arrivals.add(3).unwrap();
        let mark = arrivals.mark(3);
        assert!(!Arrival::read(&mark).unwrap().arrived(Some(500)), "nobody had spoken to it");
        write(&mark, 191).unwrap();
        let again = Arrival::read(&mark).unwrap();
        assert!(!again.arrived(Some(190)) && again.arrived(Some(191)));
        fs::write(&mark, "19").unwrap();
        assert!(!Arrival::read(&mark).unwrap().arrived(Some(500)), "that was interrupted");
        remove(&mark).unwrap();
        assert!(!mark.exists());
    }
}
