//! What callers rely on beyond the tables: counting, ends, jitter, limits.

use bellwether_core::schedule::{
    EXPRESSION_LEN_MAX, RULES_MAX, Rule, Schedule, ScheduleSpec, check_timezone, parse_expression,
    parse_period_ms, timezone_names,
};
use bellwether_core::time::{TIME_MAX, Time};

use crate::table::{compile, time};

#[test]
fn r2_only_a_plain_instant_is_once() {
    let at = compile("at 2026-01-01T00:00Z", "").unwrap();
    assert_eq!(at.is_once(), Some(time("2026-01-01T00:00Z")));
    let delay = compile("in 30m", "anchor=2026-01-01T00:00Z").unwrap();
    assert_eq!(delay.is_once(), Some(time("2026-01-01T00:30Z")));
    for (expression, options) in [
        ("@daily", ""),
        ("every 1h", ""),
        ("0 0 0 1 1 * 2027", ""),
        ("at 2026-01-01T00:00Z", "any=[at 2026-01-02T00:00Z]"),
        ("at 2026-01-01T00:00Z", "except=[* * 2 1 *]"),
    ] {
        assert_eq!(compile(expression, options).unwrap().is_once(), None, "{expression}");
    }
}

#[test]
fn r6_after_finish_counts_from_the_end_of_the_run() {
    let schedule = compile("every 10m after finish", "anchor=2026-01-01T00:00Z").unwrap();
    assert!(schedule.counts_from_finish());
    let first = time("2026-01-01T00:10Z");
    assert_eq!(schedule.next_after(time("2026-01-01T00:00Z")), Some(first));
    assert_eq!(schedule.next_after(first), None);
    let ended = time("2026-01-01T00:13:30Z");
    assert_eq!(schedule.next_after_finish(ended), Some(time("2026-01-01T00:23:30Z")));

    let with_cron = compile("every 10m after finish", "any=[0 * * * *]").unwrap();
    let ended = time("2026-01-01T00:55Z");
    assert_eq!(with_cron.next_after_finish(ended), Some(time("2026-01-01T01:00Z")));
    assert!(!compile("every 10m", "").unwrap().counts_from_finish());

    let bounded = compile("every 10m after finish", "end=2026-01-01T01:00Z").unwrap();
    assert_eq!(bounded.next_after_finish(time("2026-01-01T00:55Z")), None);
}

#[test]
fn r11_an_hour_has_sixty_minutes_and_a_day_every_second() {
    let hour = (time("2026-01-01T00:00Z"), time("2026-01-01T01:00Z"));
    let minutes = compile("* * * * *", "").unwrap();
    assert_eq!(minutes.count_between(hour.0, hour.1, 1_000), (60, Some(hour.1)));
    let seconds = compile("* * * * * *", "").unwrap();
    assert_eq!(seconds.count_between(hour.0, hour.1, 10_000), (3_600, Some(hour.1)));
    // Beyond the limit the count stops, and the last tick is still the true one.
    assert_eq!(seconds.count_between(hour.0, hour.1, 7), (7, Some(hour.1)));
    assert_eq!(seconds.count_between(hour.1, hour.0, 7), (0, None));
    let rate = compile("rate(5 minutes)", "").unwrap();
    assert_eq!(rate.count_between(hour.0, hour.1, 1_000), (12, Some(hour.1)));
    let ended = compile("rate(5 minutes)", "end=2026-01-01T00:17Z").unwrap();
    assert_eq!(ended.count_between(hour.0, hour.1, 1_000), (3, Some(time("2026-01-01T00:15Z"))));
}

#[test]
fn r118_the_last_tick_of_a_long_outage_is_found_without_stepping() {
    let schedule = compile("* * * * * *", "zone=Europe/Berlin except=[* 2 * * *]").unwrap();
    let (down, up) = (time("2020-01-01T00:00Z"), time("2026-07-01T00:30Z"));
    assert_eq!(schedule.last_between(down, up), Some(time("2026-06-30T23:59:59Z")));
    let yearly = compile("0 0 29 2 *", "").unwrap();
    assert_eq!(yearly.last_between(down, up), Some(time("2024-02-29T00:00Z")));
    assert_eq!(yearly.last_between(time("2024-02-29T00:00Z"), up), None);
}

#[test]
fn r13_the_next_times_are_as_many_as_asked_for() {
    let schedule = compile("0 9 * * *", "zone=Europe/Berlin").unwrap();
    assert_eq!(schedule.times(time("2026-01-01T00:00Z"), 3).len(), 3);
    assert_eq!(schedule.times(time("2026-01-01T00:00Z"), 0), vec![]);
    assert_eq!(schedule.times(TIME_MAX, 3), vec![]);
}

#[test]
fn any_instant_may_be_asked_about() {
    for (expression, options) in [
        ("* * * * * *", "zone=Pacific/Apia"),
        ("@yearly", ""),
        ("every 3650d", ""),
        ("at 2026-01-01T00:00Z", ""),
        ("0 0 1 1 *", "zone=Europe/Berlin except=[* * * * 0]"),
    ] {
        let schedule = compile(expression, options).unwrap();
        for t in [i64::MIN, i64::MIN + 1, -1, 0, TIME_MAX.0 - 1, TIME_MAX.0, i64::MAX] {
            let next = schedule.next_after(Time(t));
            assert!(next.is_none_or(|next| next > Time(t) && next <= TIME_MAX), "{expression} {t}");
            let _ = schedule.next_after_finish(Time(t));
            let _ = schedule.count_between(Time(t), Time(i64::MAX), 3);
        }
    }
}

#[test]
fn jitter_is_the_same_for_the_same_tick_and_spreads_over_others() {
    let schedule = compile("@hourly", "jitter=1m").unwrap();
    let ticks = schedule.times(time("2026-01-01T00:00Z"), 500);
    let delays: Vec<u64> = ticks.iter().map(|tick| schedule.jitter_ms("job", *tick)).collect();
    assert_eq!(delays[7], schedule.clone().jitter_ms("job", ticks[7]));
    assert_ne!(delays[7], schedule.jitter_ms("other", ticks[7]));
    assert!(delays.iter().all(|delay| *delay <= 60_000));
    assert!(delays.iter().any(|delay| *delay < 6_000));
    assert!(delays.iter().any(|delay| *delay > 54_000));
    assert_eq!(compile("@hourly", "").unwrap().jitter_ms("job", ticks[7]), 0);
}

#[test]
fn hashed_minutes_spread_over_the_hour() {
    let mut jobs_at = [0; 60];
    for job in 0..6_000 {
        let schedule = compile("H * * * *", &format!("id=default/job-{job}")).unwrap();
        let tick = schedule.next_after(time("2026-01-01T00:59:59Z")).unwrap();
        jobs_at[(tick.0 / 60_000 % 60) as usize] += 1;
    }
    // A hundred each, give or take five standard deviations.
    assert!(jobs_at.iter().all(|jobs| (50..150).contains(jobs)), "{jobs_at:?}");
}

#[test]
fn limits_are_said_in_the_error() {
    let rule = Rule::Cron("@daily".into());
    let spec = ScheduleSpec { any: vec![rule.clone(); RULES_MAX + 1], ..ScheduleSpec::default() };
    assert_eq!(Schedule::compile(&spec, "", Time(0)).unwrap_err().code, "too_many_rules");
    let spec = ScheduleSpec { any: vec![rule; RULES_MAX], ..ScheduleSpec::default() };
    assert!(Schedule::compile(&spec, "", Time(0)).is_ok());

    let long = format!("{} * * * *", "1,".repeat(EXPRESSION_LEN_MAX / 2));
    let error = parse_expression(&long).unwrap_err();
    assert!(error.message.contains("512") && error.message.len() < 200);
    let spec = ScheduleSpec { any: vec![Rule::Cron(long)], ..ScheduleSpec::default() };
    assert_eq!(Schedule::compile(&spec, "", Time(0)).unwrap_err().code, "invalid_cron");
    let hostile = parse_expression("\u{1b}[31m\n").unwrap_err();
    assert!(!hostile.message.contains('\u{1b}'));
}

#[test]
fn periods_and_zones_can_be_checked_alone() {
    assert_eq!(parse_period_ms("rate(5 minutes)"), Ok(300_000));
    assert_eq!(parse_period_ms(" 5m "), Ok(300_000));
    assert_eq!(parse_period_ms("hour"), Ok(3_600_000));
    assert_eq!(parse_period_ms("5").unwrap_err().code, "invalid_rate");
    assert_eq!(check_timezone("europe/berlin").as_deref(), Ok("Europe/Berlin"));
    assert_eq!(check_timezone("").as_deref(), Ok("UTC"));
    let names = timezone_names();
    assert!(names.len() > 400 && names.is_sorted() && names.contains(&"Asia/Tokyo".to_owned()));
}

fn first(expression: &str, from: &str) -> String {
    let rule = parse_expression(expression).unwrap();
    let spec = ScheduleSpec { any: vec![rule], ..ScheduleSpec::default() };
    let from = Time::parse(from).unwrap();
    let schedule = Schedule::compile(&spec, "", from).unwrap();
    schedule.next_after(from).unwrap().to_string()
}

#[test]
fn r1_five_fields_and_sunday_is_zero_and_seven() {
    let from = "2026-11-15T12:00:00Z";
    assert_eq!(first("5 2 * * 6", from), "2026-11-21T02:05:00.000Z", "a Saturday");
    assert_eq!(first("0 0 * * 0", from), first("0 0 * * 7", from));
    assert_eq!(first("0 0 * * 0", from), "2026-11-22T00:00:00.000Z");
}

#[test]
fn r7_presets_need_no_cron_string() {
    let from = "2026-11-15T12:34:56Z";
    for (preset, next) in [
        ("@hourly", "2026-11-15T13:00:00.000Z"),
        ("@daily", "2026-11-16T00:00:00.000Z"),
        ("@midnight", "2026-11-16T00:00:00.000Z"),
        ("@weekly", "2026-11-22T00:00:00.000Z"),
        ("@monthly", "2026-12-01T00:00:00.000Z"),
        ("@yearly", "2027-01-01T00:00:00.000Z"),
    ] {
        assert_eq!(first(preset, from), next, "{preset}");
    }
}
