//! Single faults, looked at closely.

use std::collections::BTreeSet;

use bellwether_api::RunEvent;
use bellwether_client::Client;

use crate::check::until_all_ended;
use crate::load::{Kind, Load};
use crate::random::{Random, setting};
use crate::record::{Effect, Record};
use crate::server::{Shape, until};
use crate::trial::Trial;

/// In which ways a node is away while its machine lives on.
#[derive(Clone, Copy, Debug)]
enum Away {
    /// It is cut off: from what it is sent, and from what it sends.
    Cut { inwards: bool, outwards: bool },
    /// It is killed, and what it has started is not.
    Killed,
    /// It stands still, and what it has started does not.
    StandsStill,
}
/// Jobs that run when a node goes away, half of each delivery.
const JOBS_A_ROUND: usize = 8;

/// Waits until every job that ticks has begun anew so often since this was called.
async fn ticks_on(load: &Load<'_>, record: &Record, times: usize) {
    let begun = |effects: &[Effect], key: &str| {
        effects.iter().filter(|effect| effect.begins() && effect.key == key).count()
    };
    let before = record.read();
    for job in &load.recurring {
        let key = &job.key;
        let first = begun(&before, key);
        until(&format!("{key} goes on"), async || begun(&record.read(), key) >= first + times)
            .await;
    }
}

/// R92: it has been replaced, so nothing of what it led is its business any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r92_r97_a_leader_that_stood_still_launches_nothing_of_what_it_led() {
    let test = "r92_r97_a_leader_that_stood_still_launches_nothing_of_what_it_led";
    let shape = Shape::of(&["", "", ""]);
    let Some(trial) = Trial::begin(test, shape).await else { return };
    let (cluster, load, record) = (&trial.cluster, trial.load(8).await, &trial.record);
    ticks_on(&load, record, 2).await;
    let victim = load.leader_of(&load.recurring[0]).await;
    let led = load.to_go_on_without(&[victim]).await;
    assert!(led.values().all(|term| *term > 0), "it leads some of what ticks: {led:?}");
    cluster.history.note(format!("Pause {}, which leads {led:?}", cluster.name(victim)));
    let paused = record.mark();
    cluster.pause(victim);
    // What it led goes on elsewhere; then some time for more to become due: longer than what is launched later may be
    // late.
    ticks_on(&load, record, 2).await;
    let still = if setting("NEMESIS_SECONDS", 0) > 100 { 60_000 } else { 12_000 };
    Random::new(1).moment_after(still, 1).await;
    let before = record.read();
    let meanwhile = record.since(paused);
    for (key, term) in &led {
        let newer =
            |effect: &Effect| effect.begins() && effect.key == *key && effect.term() > *term;
        assert!(meanwhile.iter().any(newer), "R92: others launched {key} of term {term} meanwhile");
    }
    cluster.history.note(format!("{} goes on", cluster.name(victim)));
    let (resumed, back) = (record.mark(), jiff::Timestamp::now());
    cluster.resume(victim);
    cluster.settled().await;
    ticks_on(&load, record, 3).await;
    let tally = trial.checked(&load).await;
    // Nothing begins any more under a term in which it led.
    for effect in record.since(resumed).iter().filter(|effect| effect.begins()) {
        let old = led.get(&effect.key).is_some_and(|term| effect.term() <= *term);
        assert!(!old, "R92: {effect:?}, and it led {led:?}");
    }
    // What began after it was back was due about then: nothing old was launched, but for what had been given to a
    // worker by then that never began it, as that of a node which stood still a moment later.
    let known: BTreeSet<&str> = before.iter().map(|effect| &*effect.run).collect();
    for effect in record.read().iter().filter(|effect| !known.contains(&*effect.run)) {
        let due: jiff::Timestamp = effect.due.parse().unwrap();
        let late = back.duration_since(due);
        if late >= jiff::SignedDuration::from_secs(8) {
            let asked = async |client: &Client| client.run_events(&effect.run).await;
            let events = cluster.anywhere("what happened to a run", asked).await.items;
            let given =
                |event: &RunEvent| event.event != "queued" && event.at.0.0 < back.as_millisecond();
            assert!(events.iter().any(given), "R92: {late} late: {effect:?}: {events:#?}");
        }
    }
    trial.compared(&tally).await;
}

/// R65: what a node runs that is away for longer than its lease has ended before it is given to another.
async fn nothing_overlaps(test: &'static str, ways: &[Away]) {
    let shape = Shape::of(&["", "", ""]);
    let Some(trial) = Trial::begin(test, shape).await else { return };
    let (cluster, load, record) = (&trial.cluster, trial.load(2).await, &trial.record);
    let mut random = Random::new(trial.seed);
    let mut interrupted = BTreeSet::new();
    for (round, away) in ways.iter().enumerate() {
        let mark = record.mark();
        let keys: Vec<String> = (0..JOBS_A_ROUND).map(|n| format!("away{round}-{n}")).collect();
        for (key, kind) in keys.iter().zip([Kind::AtLeastOnce, Kind::AtMostOnce].iter().cycle()) {
            load.add_long(key, *kind, &mut random).await;
        }
        let begun =
            || record.since(mark).into_iter().filter(|e| e.begins() && keys.contains(&e.key));
        until("all have begun", async || begun().count() >= JOBS_A_ROUND).await;
        // The node that runs the first of them, which is to be started again.
        let first = begun().find(|effect| effect.key == keys[0]).unwrap();
        let victim = cluster.at(first.node().unwrap());
        cluster.history.note(format!("{}: {away:?}", cluster.name(victim)));
        match *away {
            Away::Cut { inwards, outwards } => {
                for at in (0..cluster.len()).filter(|at| *at != victim) {
                    if inwards {
                        cluster.net.cut(at, victim);
                    }
                    if outwards {
                        cluster.net.cut(victim, at);
                    }
                }
            }
            Away::Killed => cluster.kill(victim, false),
            Away::StandsStill => cluster.pause(victim),
        }
        until("another attempt begins", async || {
            begun().any(|effect| effect.run == first.run && effect.token > first.token)
        })
        .await;
        interrupted.insert(first.run);
        // And some time in which the older one would show that it is still there.
        Random::new(1).moment_after(1_500, 1).await;
        cluster.history.note(format!("{} is back", cluster.name(victim)));
        match away {
            Away::Cut { .. } => cluster.net.heal(),
            Away::Killed => cluster.start_node(victim),
            Away::StandsStill => cluster.resume(victim),
        }
        cluster.settled().await;
    }
    let tally = trial.concluded(&load).await;
    assert!(tally.again >= interrupted.len(), "{tally:?}, interrupted: {interrupted:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r65_attempts_do_not_overlap_when_nodes_are_cut_off_for_longer_than_their_lease() {
    let test = "r65_attempts_do_not_overlap_when_nodes_are_cut_off_for_longer_than_their_lease";
    let [both, deaf] = [true, false].map(|inwards| Away::Cut { inwards, outwards: true });
    nothing_overlaps(test, &[both, deaf]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r65_attempts_do_not_overlap_when_nodes_are_killed_or_stand_still_and_machines_live_on() {
    let test =
        "r65_attempts_do_not_overlap_when_nodes_are_killed_or_stand_still_and_machines_live_on";
    nothing_overlaps(test, &[Away::Killed, Away::StandsStill]).await;
}

/// R116, R123: of three zones one may be lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r116_r123_a_zone_is_lost_and_everything_goes_on() {
    let test = "r116_r123_a_zone_is_lost_and_everything_goes_on";
    let shape = Shape::of(&["x", "x", "y", "y", "z"]);
    let Some(trial) = Trial::begin(test, shape).await else { return };
    let (cluster, load) = (&trial.cluster, trial.load(8).await);
    ticks_on(&load, &trial.record, 1).await;
    let of_zone = |name: &String| match &**name {
        "a" | "b" => "x",
        "c" | "d" => "y",
        _ => "z",
    };
    until("R123: every shard has replicas in all zones", async || {
        let Ok(now) = cluster.clients[4].cluster().await else { return false };
        now.shards.iter().all(|shard| {
            let zones: BTreeSet<&str> = shard.voters.iter().map(of_zone).collect();
            zones.len() == 3
        })
    })
    .await;
    cluster.history.note("a and b are lost".to_owned());
    cluster.kill(0, true);
    cluster.kill(1, true);
    ticks_on(&load, &trial.record, 3).await;
    let mut random = Random::new(trial.seed);
    let some = async {
        Random::new(2).moment_after(3_000, 1).await;
        load.end();
    };
    tokio::join!(some, load.keep_creating(&mut random));
    until_all_ended(cluster, &load).await;
    cluster.history.note("a and b are back".to_owned());
    cluster.start_node(0);
    cluster.start_node(1);
    cluster.settled().await;
    let tally = trial.concluded(&load).await;
    assert!(tally.acknowledged > 3, "jobs are taken without the zone: {tally:?}");
}

/// R111, R70: what cannot be written was not acknowledged, and whoever cannot write says so and ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r111_a_node_whose_disk_is_full_says_so_and_ends_and_is_back_when_there_is_room() {
    let test = "r111_a_node_whose_disk_is_full_says_so_and_ends_and_is_back_when_there_is_room";
    let shape = Shape::of(&["", "", ""]);
    let Some(trial) = Trial::begin(test, shape).await else { return };
    let (cluster, load) = (&trial.cluster, trial.load(6).await);
    for victim in cluster.most_leading_first().await.into_iter().take(2) {
        cluster.fill_disk(victim);
        let ended = cluster.until_ended(victim).await;
        let said = cluster.node(victim).log();
        assert_eq!(ended.code(), Some(1), "{said}");
        assert!(said.contains("ERROR"), "it is in the log as well: {said}");
        let last = said.lines().next_back().unwrap_or_default();
        let clear = ["nothing acknowledged is lost", "is the disk full", "No space left on device"];
        assert!(clear.iter().all(|words| last.contains(words)), "what to do about it: {last}");
        ticks_on(&load, &trial.record, 2).await;
        // Started again too early it ends again, or waits: it does no harm.
        cluster.start_node(victim);
        ticks_on(&load, &trial.record, 2).await;
        cluster.node(victim).disk.free();
        cluster.kill(victim, false);
        cluster.start_node(victim);
        cluster.settled().await;
    }
    trial.concluded(&load).await;
}
