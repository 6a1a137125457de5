//! Planned restarts, and upgrades from another program.
//!
//! `UPGRADE_FROM=/path/to/bellwether` names the program that the nodes are before; without it they are the one under
//! test before and after, and what is tested is a restart. `make upgrade FROM=REVISION` builds the
//! program of a revision and does that. What the two programs are is not this test's business: it
//! shows that these two work together, not that any two do.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use bellwether_api::{RunStatus, Tick, TickFate};

use crate::check::{contiguous, ledger};
use crate::load::{Load, Recurring};
use crate::random::Random;
use crate::server::{Cluster, PATIENCE, PROGRAM, Shape, until};
use crate::trial::Trial;

/// How late a run may be started on a machine that is busy with other tests.
const START_WITHIN_MS: u64 = 15_000;
/// For how long nodes of two versions work together at each step, in milliseconds.
const TOGETHER: u64 = 3_000;

/// R117: nodes are restarted one after the other, perhaps as another version, and no tick is missed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r117_all_nodes_are_restarted_one_after_the_other_and_no_tick_is_missed() {
    let test = "r117_all_nodes_are_restarted_one_after_the_other_and_no_tick_is_missed";
    let shape = Shape::of(&["", "", ""]);
    let new = Path::new(PROGRAM);
    let other = std::env::var_os("UPGRADE_FROM").filter(|path| !path.is_empty()).map(PathBuf::from);
    let old = other.as_deref().unwrap_or(new);
    let Some(trial) = Trial::begin_with(test, shape, old).await else { return };
    let (cluster, load) = (&trial.cluster, trial.load(6).await);
    let mut random = Random::new(trial.seed);
    let restarting = async {
        let steps = match other {
            None => vec![(0, new), (1, new), (2, new)],
            // As long as not all are new, one may go back.
            Some(_) => vec![(0, new), (1, new), (1, old), (1, new), (2, new)],
        };
        for (at, program) in steps {
            restart(cluster, at, program).await;
            if other.is_some() {
                Random::new(1).moment_after(TOGETHER, 1).await;
            }
        }
        load.end();
    };
    tokio::join!(restarting, load.keep_creating_brief(&mut random));
    let tally = trial.checked(&load).await;
    assert_eq!(tally.lost, 0, "what ran was finished or handed over: {tally:?}");
    assert!(tally.acknowledged > 3, "jobs are taken all the time: {tally:?}");
    none_missed(cluster, &load).await;
    trial.compared(&tally).await;
}

/// Stops a node in order and starts it again as a program. Afterwards every node leads something, so that if
/// they are of two versions, there are leaders of both.
async fn restart(cluster: &Cluster, at: usize, program: &Path) {
    let begun = Instant::now();
    let name = cluster.name(at);
    cluster.history.note(format!("{name} is restarted as {}", program.display()));
    cluster.stop(at).await;
    cluster.install(at, program);
    cluster.start_node(at);
    cluster.until_ready(at).await;
    cluster.settled().await;
    assert!(begun.elapsed() < PATIENCE, "it took {:?}", begun.elapsed());
    let version = version_of(program);
    for client in &cluster.clients {
        until("every node knows who runs what", async || {
            let Ok(status) = client.cluster().await else { return false };
            let node = status.nodes.iter().find(|node| node.name == name);
            node.is_some_and(|node| node.version.as_ref() == Some(&version))
        })
        .await;
    }
}

/// What a program says that it is.
fn version_of(program: &Path) -> String {
    let said = Command::new(program).arg("--version").output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    said.trim().trim_start_matches("bellwether ").to_owned()
}

/// Every tick of every job was launched, unless the run before took long.
async fn none_missed(cluster: &Cluster, load: &Load<'_>) {
    for job in &load.recurring {
        let mut ticks = ledger(cluster, job).await;
        ticks.reverse();
        contiguous(job, &ticks, load.stopped());
        for tick in &ticks {
            if !matches!(tick.fate, TickFate::Fired | TickFate::Late) {
                was_running(cluster, job, tick).await;
            }
        }
    }
}

/// A run may still be open a second later on a machine with much to do: commands take long, and so does it until
/// somebody leads. Whoever leads then decides what has come due before it hears from other nodes which runs
/// have ended meanwhile, and the job says that no other one is started while one is open. But that one must have
/// been started in time.
async fn was_running(cluster: &Cluster, job: &Recurring, tick: &Tick) {
    assert_eq!(tick.reason.as_deref(), Some("overlap"), "R117: {tick:?} of {}", job.key);
    let open = tick.detail.as_deref().and_then(|detail| detail.split(' ').next()).unwrap();
    let run = cluster.anywhere("the open run", async |client| client.run(open).await).await;
    cluster.history.note(format!("{tick:?} of {} was skipped for {run:?}", job.key));
    let started = run.started_at.unwrap().0.since_ms(run.scheduled_at.0);
    assert!(
        run.status == RunStatus::Succeeded && started < START_WITHIN_MS,
        "R117: {tick:?} of {} while {run:#?}",
        job.key
    );
}
