//! What must hold for every schedule.

use bellwether_core::schedule::{
    DayMatch, Dst, Fold, Gap, Rule, Schedule, ScheduleSpec, parse_expression,
};
use bellwether_core::time::{TIME_MAX, Time};
use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use proptest::collection::{btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::oracle::{Case, Field};

/// Zones whose clocks do all that clocks have done, with years in which they do it.
const ZONES: &[(&str, i64, i64)] = &[
    ("Europe/Berlin", 2020, 2040),
    ("America/New_York", 2000, 2030),
    ("America/Sao_Paulo", 2005, 2019),
    ("Australia/Sydney", 2010, 2030),
    ("Australia/Lord_Howe", 2010, 2030),
    ("Africa/Cairo", 2005, 2030),
    ("Africa/Casablanca", 2010, 2030),
    ("Pacific/Apia", 2010, 2021),
    ("Europe/Dublin", 2015, 2030),
    ("Asia/Tehran", 2005, 2023),
    ("Asia/Pyongyang", 2014, 2019),
    ("America/Havana", 2015, 2030),
    ("Antarctica/Troll", 2015, 2030),
    ("Asia/Kolkata", 2015, 2030),
];

fn field(low: u32, high: u32) -> impl Strategy<Value = Field> {
    let list = btree_set(low..=high, 1..4).prop_map(|values| {
        let text: Vec<String> = values.iter().map(u32::to_string).collect();
        Field { text: text.join(","), values }
    });
    let step = (1..=high).prop_map(move |step| Field {
        text: format!("*/{step}"),
        values: (low..=high).step_by(step as usize).collect(),
    });
    let range =
        (low..=high).prop_flat_map(move |from| (Just(from), from..=high)).prop_map(|(from, to)| {
            Field { text: format!("{from}-{to}"), values: (from..=to).collect() }
        });
    let any = Field { text: "*".into(), values: (low..=high).collect() };
    prop_oneof![3 => list, 2 => step, 2 => range, 3 => Just(any)]
}

/// Mostly the hours around midnight to four, when clocks are changed.
fn hours() -> impl Strategy<Value = Field> {
    prop_oneof![1 => field(0, 23), 2 => field(0, 4)].prop_map(|mut field| {
        if field.text.starts_with('*') {
            let step = field.text.strip_prefix("*/").map_or(1, |step| step.parse().unwrap());
            field.values = (0..=23).step_by(step).collect();
        }
        field
    })
}

fn case(seconds: bool) -> impl Strategy<Value = Case> {
    let any = Field { text: "*".into(), values: (1..=31).collect() };
    let dom = prop_oneof![2 => Just(any), 1 => field(1, 31)];
    let day_match = select(&[DayMatch::Either, DayMatch::Both][..]);
    let gap = option::of(select(&[Gap::RunAfter, Gap::Skip][..]));
    let fold = option::of(select(&[Fold::First, Fold::Second, Fold::Both][..]));
    let days = (dom, field(1, 12), field(0, 6), day_match);
    (field(0, 59), field(0, 59), hours(), days, gap, fold).prop_map(
        move |(second, minute, hour, (dom, month, dow, day_match), gap, fold)| {
            let second = seconds.then_some(second);
            Case { second, minute, hour, dom, month, dow, day_match, gap, fold }
        },
    )
}

fn spec(case: &Case, zone: &str) -> ScheduleSpec {
    ScheduleSpec {
        any: vec![Rule::Cron(case.expression())],
        timezone: zone.into(),
        day_match: case.day_match,
        dst: Dst { gap: case.gap, fold: case.fold },
        ..ScheduleSpec::default()
    }
}

/// A change of the zone's clock, or just some instant if it has none.
fn change(zone: &TimeZone, years: (i64, i64), at: f64) -> Timestamp {
    let year_s = 31_556_952.0;
    let year = years.0 as f64 + (years.1 - years.0) as f64 * at;
    let hour = ((year - 1970.0) * year_s) as i64 / 3_600;
    let some = Timestamp::from_second(hour * 3_600).unwrap();
    zone.following(some).next().map_or(some, |change| change.timestamp())
}

/// Compares stepping, jumping and counting with the oracle within some hours of a clock change.
fn agrees_with_oracle(case: &Case, zone: usize, at: f64, hours: i64) -> Result<(), TestCaseError> {
    let (name, first, last) = ZONES[zone];
    let zone = TimeZoneDatabase::bundled().get(name).unwrap();
    let around = change(&zone, (first, last), at).as_second();
    let from = Timestamp::from_second(around - hours * 3_600).unwrap();
    let to = Timestamp::from_second(around + hours * 3_600).unwrap();
    let expected = case.ticks(&zone, from, to);
    let (from, to) = (Time(from.as_millisecond()), Time(to.as_millisecond()));
    let Ok(schedule) = Schedule::compile(&spec(case, name), "id", from) else {
        // Refused as never firing, so nothing may fire.
        prop_assert_eq!(expected, vec![]);
        return Ok(());
    };
    let mut stepped = Vec::new();
    let mut now = from.minus_ms(1);
    while let Some(tick) = schedule.next_after(now).filter(|tick| *tick < to) {
        prop_assert!(tick > now, "strictly later");
        stepped.push(tick);
        now = tick;
    }
    prop_assert_eq!(&stepped, &expected, "{} in {}", case.expression(), name);
    // Jumping into the middle finds the same ticks as stepping there.
    for part in 0..60 {
        let into = Time(from.0 + (to.0 - from.0) / 60 * part + part);
        let next = expected.iter().copied().find(|tick| *tick > into);
        prop_assert_eq!(schedule.next_after(into).filter(|tick| *tick < to), next);
    }
    let until = to.minus_ms(1);
    let (count, last) = schedule.count_between(from.minus_ms(1), until, 1_000_000);
    prop_assert_eq!((count as usize, last), (expected.len(), expected.last().copied()));
    prop_assert_eq!(schedule.last_between(from.minus_ms(1), until), expected.last().copied());
    prop_assert_eq!(schedule.count_between(from.minus_ms(1), until, 2).1, last);
    Ok(())
}

/// A share of the usual number of cases, which `PROPTEST_CASES` sets.
fn cases(share: u32) -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig { cases: usual.cases.div_ceil(share), failure_persistence: None, ..usual }
}

proptest! {
    #![proptest_config(cases(8))]

    #[test]
    fn r9_minutes_agree_with_the_oracle(
        case in case(false), zone in 0..ZONES.len(), at in 0.0..1.0,
    ) {
        agrees_with_oracle(&case, zone, at, 60)?;
    }

    #[test]
    fn r9_r11_seconds_agree_with_the_oracle(
        case in case(true), zone in 0..ZONES.len(), at in 0.0..1.0,
    ) {
        agrees_with_oracle(&case, zone, at, 2)?;
    }

    #[test]
    fn r5_next_is_strictly_later_for_any_union(
        crons in vec(case(true), 1..4),
        except in vec(case(false), 0..3),
        zone in 0..ZONES.len(),
        period_s in 1u64..100_000,
        from in -100_000_000_000i64..TIME_MAX.0,
    ) {
        let (name, ..) = ZONES[zone];
        let cron = |case: &Case| Rule::Cron(case.expression());
        let mut any: Vec<Rule> = crons.iter().map(cron).collect();
        any.push(Rule::Every { period_ms: period_s * 1_000, after: Default::default() });
        let spec = ScheduleSpec {
            any: any.clone(),
            except: except.iter().map(cron).collect(),
            timezone: name.into(),
            ..ScheduleSpec::default()
        };
        if let Ok(schedule) = Schedule::compile(&spec, "id", Time(0)) {
            let mut now = Time(from);
            for tick in schedule.times(now, 20) {
                prop_assert!(tick > now);
                prop_assert_eq!(schedule.next_after(now), Some(tick));
                prop_assert_eq!(schedule.next_after(tick.minus_ms(1)), Some(tick));
                now = tick;
            }
        }
    }

    #[test]
    fn r9_exceptions_remove_exactly_what_they_match(
        mut except in vec(case(false), 1..3), zone in 0..ZONES.len(), at in 0.0..1.0,
    ) {
        // One setting holds for all rules of a schedule.
        except.iter_mut().for_each(|case| case.day_match = DayMatch::Either);
        let (name, first, last) = ZONES[zone];
        let zone = TimeZoneDatabase::bundled().get(name).unwrap();
        let from = change(&zone, (first, last), at).as_second() - 30 * 3_600;
        let spec = ScheduleSpec {
            any: vec![Rule::Cron("*/7 * * * *".into())],
            except: except.iter().map(|case| Rule::Cron(case.expression())).collect(),
            timezone: name.into(),
            ..ScheduleSpec::default()
        };
        let Ok(schedule) = Schedule::compile(&spec, "id", Time(from * 1_000)) else { return Ok(()) };
        let mut expected = Vec::new();
        for minute in 0..60 * 60 {
            let instant = Timestamp::from_second(from + minute * 60).unwrap();
            let wall = zone.to_datetime(instant);
            if wall.minute() % 7 == 0 && !except.iter().any(|case| case.matches(wall)) {
                expected.push(Time(instant.as_millisecond()));
            }
        }
        let end = Time((from + 60 * 60 * 60) * 1_000);
        let mut found = schedule.times(Time(from * 1_000 - 1), expected.len() + 1);
        found.retain(|tick| *tick < end);
        let differ = found.iter().zip(&expected).find(|(found, expected)| found != expected);
        prop_assert!(found == expected, "first difference: {differ:?}");
    }
}

proptest! {
    #![proptest_config(cases(1))]

    #[test]
    fn r8_describing_never_fails_and_names_the_zone(case in case(true), zone in 0..ZONES.len()) {
        let (name, ..) = ZONES[zone];
        if let Ok(schedule) = Schedule::compile(&spec(&case, name), "id", Time(0)) {
            let text = schedule.describe();
            prop_assert!(text.contains(name) && text.starts_with(char::is_uppercase), "{text}");
        }
    }

    #[test]
    fn r6_a_grid_stays_on_its_phase(
        period_ms in 1_000u64..10_000_000, anchor in 0i64..4_000_000_000_000, t in 0i64..4_000_000_000_000,
        limit in 0u32..50,
    ) {
        let any = vec![Rule::Every { period_ms, after: Default::default() }];
        let spec = ScheduleSpec { any, ..ScheduleSpec::default() };
        let schedule = Schedule::compile(&spec, "id", Time(anchor)).unwrap();
        let next = schedule.next_after(Time(t)).unwrap();
        prop_assert!(next > Time(t) && next > Time(anchor));
        prop_assert_eq!(next.since_ms(Time(anchor)) % period_ms, 0);
        prop_assert!(t < anchor || next.since_ms(Time(t)) <= period_ms);
        // The closed form counts as stepping does.
        let until = next.plus_ms(20 * period_ms + 1);
        let expected = (21.min(limit), Some(next.plus_ms(20 * period_ms)));
        prop_assert_eq!(schedule.count_between(Time(t), until, limit), expected);
    }

    #[test]
    fn arbitrary_text_never_panics(text in "\\PC{0,60}") {
        let _ = parse_expression(&text);
    }

    #[test]
    fn cron_like_text_never_panics(text in "[-*/,0-9HLW#?()@a-zA-Z ]{0,40}", t in any::<i64>()) {
        let any = vec![Rule::Cron(text)];
        let spec = ScheduleSpec { any, timezone: "Europe/Berlin".into(), ..ScheduleSpec::default() };
        if let Ok(schedule) = Schedule::compile(&spec, "id", Time(0)) {
            let next = schedule.next_after(Time(t));
            prop_assert!(next.is_none_or(|next| next > Time(t)));
            prop_assert!(!schedule.describe().is_empty());
        }
    }

    #[test]
    fn near_cron_text_never_panics(fields in vec(
        "[*]|[0-9]{1,2}|[0-9]{1,2}-[0-9]{1,2}|[*]/[0-9]{1,2}|H|H/[0-9]{1,2}|[0-9]L|L|LW|[0-9]{1,2}W|[0-7]#[0-6]|[A-Z]{3}|SUN|JAN|[?]",
        5..8,
    ), t in any::<i64>()) {
        let any = vec![Rule::Cron(fields.join(" "))];
        let spec = ScheduleSpec { any, timezone: "America/Havana".into(), ..ScheduleSpec::default() };
        if let Ok(schedule) = Schedule::compile(&spec, "id", Time(0)) {
            let next = schedule.next_after(Time(t));
            prop_assert!(next.is_none_or(|next| next > Time(t)));
            prop_assert!(!schedule.describe().is_empty());
        }
    }
}
