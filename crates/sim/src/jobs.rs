//! Jobs of all kinds.

use bellwether_core::backoff::default_retry;
use bellwether_core::record::{
    self, CommandTarget, Definition, Delivery, Misfire, MisfirePolicy, OnFailure, Overlap,
    OverlapPolicy, Retry, Rule, RuleForm, Schedule, Target,
};
use bellwether_core::time::Time;
use bellwether_core::turn::NewJob;

use crate::chance::Chance;

/// Groups that jobs may be in.
pub const GROUPS: [&str; 2] = ["g1", "g2"];

/// A job of any kind, under a caller's key.
pub fn some_job(chance: &mut Chance, key: String, now: Time) -> NewJob {
    let target = CommandTarget { line: "true".to_owned(), ..CommandTarget::default() };
    let mut job = Definition {
        key,
        target: Some(Target::Command(target)),
        schedule: Some(some_schedule(chance, now)),
        ..Definition::default()
    };
    if chance.one_in(3) {
        job.group = GROUPS[chance.below(2) as usize].to_owned();
    }
    if chance.one_in(3) {
        job.ordering_key = ["o1", "o2"][chance.below(2) as usize].to_owned();
    }
    job.delivery = match chance.below(3) {
        0 => Delivery::Default,
        1 => Delivery::AtMostOnce,
        _ => Delivery::AtLeastOnce,
    } as i32;
    if chance.one_in(3) {
        let max = 1 + chance.below(3) as u32;
        job.retry = Some(Retry { jitter: 0.0, ..default_retry(max) });
    }
    if chance.one_in(2) {
        let policies = [MisfirePolicy::Once, MisfirePolicy::Skip, MisfirePolicy::All];
        let policy = policies[chance.below(3) as usize] as i32;
        let window_ms = [None, Some(10_000), Some(7_200_000)][chance.below(3) as usize];
        job.misfire = Some(Misfire { policy, window_ms, max: chance.below(6) as u32 });
    }
    if chance.one_in(2) {
        let policies = [
            OverlapPolicy::Skip,
            OverlapPolicy::Queue,
            OverlapPolicy::Replace,
            OverlapPolicy::Allow,
        ];
        let policy = policies[chance.below(4) as usize] as i32;
        job.overlap = Some(Overlap { policy, max: chance.below(4) as u32 });
    }
    if chance.one_in(2) {
        job.on_failure = OnFailure::Continue as i32;
    }
    NewJob { hash: record::encode(&job), definition: job, reserved: None }
}

/// The template of a batch.
pub fn some_template(chance: &mut Chance) -> Definition {
    let target = CommandTarget { line: "true".to_owned(), ..CommandTarget::default() };
    let delivery = match chance.below(3) {
        0 => Delivery::Default,
        1 => Delivery::AtMostOnce,
        _ => Delivery::AtLeastOnce,
    };
    let retry = chance.one_in(3).then(|| Retry { jitter: 0.0, ..default_retry(1) });
    Definition {
        target: Some(Target::Command(target)),
        delivery: delivery as i32,
        retry,
        ..Definition::default()
    }
}

/// A schedule of any kind.
pub fn some_schedule(chance: &mut Chance, now: Time) -> Schedule {
    let form = match chance.below(7) {
        0 => RuleForm::AtMs(now.0 + chance.below(40_000) as i64 - 5_000),
        1 | 2 => RuleForm::DelayMs(chance.below(30_000)),
        3 => RuleForm::Cron("*/10 * * * * *".to_owned()),
        4 => RuleForm::Cron("*/7 * * * * *".to_owned()),
        5 => RuleForm::EveryMs(4_000 + chance.below(15_000)),
        _ => RuleForm::EveryAfterFinishMs(3_000 + chance.below(10_000)),
    };
    let max_runs = if chance.one_in(6) { 1 + chance.below(3) as u32 } else { 0 };
    Schedule { any: vec![Rule { form: Some(form) }], max_runs, ..Schedule::default() }
}
