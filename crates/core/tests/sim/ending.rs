//! After everything: with a healthy worker and nobody in the way, all open runs end and the queue
//! drains; and once all jobs are deleted, nothing is left of them.

use bellwether_core::id::{JobId, RunId};
use bellwether_core::key;
use bellwether_core::time::{HOUR_MS, Time};
use bellwether_core::turn::{BatchInput, Ending, GroupChange, Input};
use bellwether_core::waist::Family;

use crate::life::Life;
use crate::world::Crash;
use crate::world::batches::batch_id;
use crate::world::consistency::{check, picture};
use crate::world::job::ANA;
use crate::world::worker::finished;

/// How long the healthy time lasts.
const HEALTHY_MS: u64 = 90_000;
/// The step in which it passes.
const STEP_MS: u64 = 5_000;

pub fn comes_to_rest(life: &mut Life) {
    life.world.present.extend(["w1", "w2", "w3"].map(str::to_owned));
    release_all(life);
    let end = life.now().plus_ms(HEALTHY_MS);
    while life.now() < end {
        life.world.now = life.world.now.plus_ms(STEP_MS);
        // As often as there can be something to do: with few slots and few entries a turn.
        for _ in 0..400 {
            let before = (life.world.store.version, life.begun.len());
            work(life);
            let due = life.world.store.first_due().is_some_and(|first| first <= life.now());
            if before == (life.world.store.version, life.begun.len()) && !due {
                break;
            }
        }
    }
    check(&life.world);
    let picture = picture(&life.world);
    for (id, (run, _)) in &picture.open {
        let since = run.events.last().map_or(0, |event| event.at_ms);
        assert!(since >= life.now().0 - 20_000, "R36: {id} is stuck: {run:?}");
    }
    let due = life.world.store.first_due();
    assert!(due.is_none_or(|due| due > life.now()), "R71: an entry is due and is not taken");
}

/// Everything that is paused, held or blocked goes on.
fn release_all(life: &mut Life) {
    let actor = || ANA.to_owned();
    let mut wishes: Vec<Input> =
        life.jobs.keys().map(|job| Input::Resume { actor: actor(), job: *job }).collect();
    for group in ["g1", "g2"] {
        let (namespace, group) = ("default".to_owned(), group.to_owned());
        let change = GroupChange::Resume;
        wishes.push(Input::Group { actor: actor(), namespace, group, change });
    }
    life.act(wishes, Crash::No);
}

/// A worker does all it has, well; what blocks an ordering key is given up.
fn work(life: &mut Life) {
    for (key, value) in life.world.store.rows(Family::Order) {
        if key[2] == 3 {
            let run = key::read_order(&value).unwrap();
            if !life.world.store.has(Family::Active, &key::run(run)) {
                life.act(vec![Input::Cancel { actor: ANA.to_owned(), run }], Crash::No);
            }
        }
    }
    let runs: Vec<RunId> = life.world.with_workers();
    let mut reports = Vec::new();
    for run in runs {
        let token = life.world.running[&run].token;
        if life.alive.get(&run) != Some(&token) {
            life.begin(run);
        }
        life.alive.remove(&run);
        life.world.running.remove(&run);
        reports.push(finished(run, token, life.now(), Ending::Succeeded));
    }
    life.act(reports, Crash::No);
}

pub fn leaves_nothing(life: &mut Life) {
    let jobs: Vec<JobId> = life.jobs.keys().copied().collect();
    let deletes = jobs.into_iter().map(|job| Input::Delete { actor: ANA.to_owned(), job });
    life.act(deletes.collect(), Crash::No);
    let over = [1, 2].map(|n| Input::Batch {
        batch: batch_id(n),
        input: Box::new(BatchInput::PartEnd { keep_ms: HOUR_MS }),
    });
    life.act(over.to_vec(), Crash::No);
    for ms in [0, 6_000, 6_000, 60_000, 2 * HOUR_MS, 24 * 400 * HOUR_MS, 6_000, 6_000] {
        life.world.now = life.world.now.plus_ms(ms);
        for _ in 0..300 {
            let due = life.world.store.first_due().is_some_and(|first: Time| first <= life.now());
            work(life);
            if !due && life.world.running.is_empty() {
                break;
            }
        }
    }
    life.act(vec![Input::Prune, Input::Prune, Input::Prune, Input::Prune], Crash::No);
    check(&life.world);
    assert_eq!(life.world.leftovers(), [], "nothing is left of deleted jobs");
}
