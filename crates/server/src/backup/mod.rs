//! Backups of a running server: by command and on a schedule, one at a time.
//!
//! What a backup is made of and how it is taken is the business of `bellwether_backup`; here is who
//! may begin one and when, what is remembered of it, and where its views come from. A view is taken
//! for each shard anew and dropped when the shard has been copied. Of a shard that this node has no
//! replica of, another node keeps one for as long as that takes.
//!
//! Whoever has taken a backup on the schedule removes the oldest beyond those that are to be kept.
//! One that was asked for removes nothing.
//!
//! What is being taken and what has failed is in the memory of the node that does it: others ask it
//! (`http::backups`).

mod combine;
mod schedule;

use std::collections::VecDeque;
use std::sync::Arc;

use anyhow::bail;
use bellwether_api::{Backup, BackupState, Instant, Problem};
use bellwether_backup::{BackupError, Listed, Manifest, Pace, Place, Progress, Source, Take};
use bellwether_core::time::Time;
use bellwether_core::waist::{Shard, StoreError, View};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock;
use crate::config::{Config, InvalidConfig};
use crate::node::Node;

pub use combine::combined;
pub use schedule::keep_schedule;

/// Backups that have failed and are remembered.
const FAILED_MAX: usize = 10;
/// The most backups that are listed.
pub const LISTED_MAX: usize = 100;

/// The backups of a server.
#[derive(Default)]
pub struct Backups {
    state: Mutex<State>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

#[derive(Default)]
struct State {
    running: Option<Running>,
    /// Those that failed, and those that went elsewhere than to the configured place; newest first.
    ended: VecDeque<Backup>,
}

/// One that is being taken.
struct Running {
    backup: Backup,
    progress: Arc<Progress>,
}

impl Running {
    fn seen(&self) -> Backup {
        Backup {
            shards_done: self.progress.shards_done(),
            rows: self.progress.rows(),
            bytes: self.progress.bytes(),
            stored_bytes: self.progress.stored_bytes(),
            ..self.backup.clone()
        }
    }
}

/// Before anything is made on disk.
///
/// # Errors
/// When the settings cannot be used, or the directory is what an interrupted restore has left.
pub fn check(config: &Config) -> anyhow::Result<()> {
    if let Some(to) = &config.backup.to {
        Place::check(to).map_err(|error| InvalidConfig(format!("--backup-to: {error}")))?;
    } else if config.backup.every.is_some() {
        bail!(InvalidConfig("--backup-every needs --backup-to: say where to".to_owned()));
    }
    Ok(bellwether_backup::check_not_restoring(&config.data_dir)?)
}

impl Backups {
    /// Begins a backup, which goes on by itself.
    ///
    /// # Errors
    /// A problem if one is being taken already, or there is no place for it.
    pub fn begin(&self, node: &Arc<Node>, to: Option<String>) -> Result<Backup, Problem> {
        let Some(to) = to.or_else(|| node.config.backup.to.clone()) else {
            let detail = "say `to` where, or start the server with --backup-to";
            return Err(Problem::new(422, "no_backup_place", detail).at("to"));
        };
        let bad = |error: BackupError| {
            Problem::new(422, "invalid_backup_place", error.to_string()).at("to")
        };
        Place::check(&to).map_err(bad)?;
        let (backup, work) = self.enter(node, to)?;
        let node = node.clone();
        self.tasks.spawn(async move {
            // What went wrong is logged and remembered.
            let _ = work.run(&node).await;
        });
        Ok(backup)
    }

    /// Makes one the one that is being taken.
    fn enter(&self, node: &Arc<Node>, to: String) -> Result<(Backup, Work), Problem> {
        let mut state = self.state.lock();
        if let Some(running) = &state.running {
            let detail = format!("{} is being taken; wait for it", running.backup.name);
            return Err(Problem::new(409, "backup_running", detail));
        }
        if self.stop.is_cancelled() {
            return Err(Problem::new(503, "stopping", "the server is stopping"));
        }
        let take = Take {
            cluster: node.cluster.identity.cluster.clone(),
            program: env!("CARGO_PKG_VERSION").to_owned(),
            shards: node.shards.len() as u16,
            pace: Pace::Gentle,
            begun: clock::now(),
        };
        let backup = Backup {
            name: take.name(),
            to: to.clone(),
            state: BackupState::Running,
            node: Some(node.cluster.row().name),
            begun_at: Some(Instant(take.begun)),
            ended_at: None,
            shards: u32::from(take.shards),
            shards_done: 0,
            rows: 0,
            bytes: 0,
            stored_bytes: 0,
            cluster: Some(take.cluster.clone()),
            version: Some(take.program.clone()),
            error: None,
        };
        let progress = Arc::new(Progress::default());
        let running = Running { backup: backup.clone(), progress: progress.clone() };
        state.running = Some(running);
        Ok((backup, Work { take, to, progress }))
    }

    /// What this node has in memory: the one that is being taken, those that failed, and those that
    /// went elsewhere than to the configured place.
    #[must_use]
    pub fn known(&self) -> Vec<Backup> {
        let state = self.state.lock();
        let running = state.running.iter().map(Running::seen);
        running.chain(state.ended.iter().cloned()).collect()
    }

    /// What there is in the configured place, newest first.
    ///
    /// # Errors
    /// A problem if the place cannot be read.
    pub async fn found(&self, node: &Node) -> Result<Vec<Backup>, Problem> {
        let Some(to) = &node.config.backup.to else { return Ok(Vec::new()) };
        let place = Place::open(to).map_err(unreadable)?;
        let listed = bellwether_backup::list(&place, LISTED_MAX).await.map_err(unreadable)?;
        Ok(listed.into_iter().map(|listed| shown(to, listed)).collect())
    }

    /// A backup in the configured place.
    ///
    /// # Errors
    /// A problem if the place cannot be read.
    pub async fn find(&self, node: &Node, name: &str) -> Result<Option<Backup>, Problem> {
        let Some(to) = &node.config.backup.to else { return Ok(None) };
        let place = Place::open(to).map_err(unreadable)?;
        let listed = bellwether_backup::look(&place, name).await.map_err(unreadable)?;
        Ok(listed.map(|listed| shown(to, listed)))
    }

    /// Stops what is being taken, and waits until that has ended.
    pub async fn stop(&self) {
        self.stop.cancel();
        if let Some(running) = &self.state.lock().running {
            running.progress.stop();
        }
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn leave(&self, node: &Node, result: &Result<Manifest, BackupError>) {
        let mut state = self.state.lock();
        let Some(running) = state.running.take() else { return };
        let mut backup = running.seen();
        backup.ended_at = Some(Instant(clock::now()));
        match result {
            Ok(_) => backup.state = BackupState::Complete,
            Err(error) => {
                backup.state = BackupState::Failed;
                backup.error = Some(error.to_string());
            }
        }
        // What is in the configured place is found there.
        if result.is_err() || node.config.backup.to.as_ref() != Some(&backup.to) {
            state.ended.push_front(backup);
            state.ended.truncate(FAILED_MAX);
        }
    }
}

/// A backup that is to be taken now.
struct Work {
    take: Take,
    to: String,
    progress: Arc<Progress>,
}

impl Work {
    async fn run(self, node: &Arc<Node>) -> Result<Manifest, BackupError> {
        let taken = self.take(node).await;
        node.backups.leave(node, &taken);
        match &taken {
            Ok(manifest) => {
                node.metrics.backed_up(Time(manifest.begun_ms));
                let took_ms = Time(manifest.ended_ms).since_ms(Time(manifest.begun_ms));
                tracing::info!(
                    backup = manifest.name,
                    to = self.to,
                    rows = manifest.rows(),
                    stored_bytes = manifest.stored_bytes(),
                    took_ms,
                    "backup taken"
                );
            }
            Err(error) => {
                node.metrics.backup_failed();
                tracing::warn!(backup = self.take.name(), to = self.to, %error, "no backup taken");
            }
        }
        taken
    }

    async fn take(&self, node: &Arc<Node>) -> Result<Manifest, BackupError> {
        let place = Place::open(&self.to)?;
        let source = NodeSource(node.clone());
        let taking = bellwether_backup::take(&place, &source, &self.take, &self.progress);
        // Storage that does not answer must not keep a server from stopping.
        let stopped = node.backups.stop.run_until_cancelled(taking).await;
        stopped.unwrap_or(Err(BackupError::Stopped))
    }
}

struct NodeSource(Arc<Node>);

impl Source for NodeSource {
    fn view(&self, shard: Shard) -> BoxFuture<'_, Result<Arc<dyn View>, StoreError>> {
        Box::pin(async move {
            let view = self.0.cluster.steady_view(shard).await;
            view.map_err(|error| StoreError::Failed(error.to_string()))
        })
    }

    fn now(&self) -> Time {
        clock::now()
    }
}

fn unreadable(error: BackupError) -> Problem {
    Problem::new(502, "backup_place_unreadable", error.to_string())
}

/// A backup as it was found.
fn shown(to: &str, listed: Listed) -> Backup {
    let state = match (&listed.manifest, &listed.problem) {
        (Some(_), _) => BackupState::Complete,
        (None, Some(_)) => BackupState::Damaged,
        (None, None) => BackupState::Incomplete,
    };
    let of = listed.manifest.as_ref();
    let shards = of.map_or(0, |manifest| manifest.shards.len() as u32);
    Backup {
        name: listed.name,
        to: to.to_owned(),
        state,
        node: None,
        begun_at: of.map(|manifest| Instant(Time(manifest.begun_ms))),
        ended_at: of.map(|manifest| Instant(Time(manifest.ended_ms))),
        shards,
        shards_done: shards,
        rows: of.map_or(0, Manifest::rows),
        bytes: of.map_or(0, Manifest::bytes),
        stored_bytes: of.map_or(0, Manifest::stored_bytes),
        cluster: of.map(|manifest| manifest.cluster.clone()),
        version: of.map(|manifest| manifest.program.clone()),
        error: listed.problem,
    }
}
