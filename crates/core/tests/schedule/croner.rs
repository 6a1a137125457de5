//! What croner itself does where the schedule language differs from it. When an upgrade of croner
//! makes one of these fail, look at `normalise.rs`: a workaround may have become needless or wrong.

use std::str::FromStr;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};

fn accepts(expression: &str) -> bool {
    Cron::from_str(expression).is_ok()
}

fn day_matches(expression: &str, day: u32, weekday: croner::Weekday) -> bool {
    // Of January 2026, which starts on a Thursday.
    Cron::from_str(expression).unwrap().pattern.day_match(2026, 1, day, weekday).unwrap()
}

#[test]
fn croner_accepts_what_means_nothing() {
    for expression in [
        "1,,2 * * * *", // an empty item is passed over
        ", * * * *",    // and a field of nothing matches nothing
        "MON * * * *",  // names are replaced in every field
        "0 0 15W3 * *", // what follows a W is not looked at
        "0 0 * * L",    // accepted, but matches no day
        "0 0 * * +1",   // `+` is a way to write `day_match: both`
        "0 0 L,LW * *", // accepted, but L is forgotten
        "*/90 * * * *", // a step beyond the field leaves its first value, as in cron
        "0 0 30 2 *",   // whether a day exists is found only by searching
    ] {
        assert!(accepts(expression), "{expression}");
    }
    assert!(!day_matches("0 0 * * L", 31, croner::Weekday::Saturday));
    assert!(!day_matches("0 0 L,LW * *", 31, croner::Weekday::Saturday));
    // 7 is Sunday, but not with L.
    assert!(day_matches("0 0 * * 7", 25, croner::Weekday::Sunday));
    assert!(day_matches("0 0 * * 7#4", 25, croner::Weekday::Sunday));
    assert!(!day_matches("0 0 * * 7L", 25, croner::Weekday::Sunday));
    assert!(day_matches("0 0 * * 0L", 25, croner::Weekday::Sunday));
}

#[test]
fn croner_refuses_what_the_language_has() {
    for expression in [
        "5/15 * * * *", // needs its option for sloppy ranges
        "*,5 * * * *",  // knows the star only as a whole field
        "H * * * *",
        "@midnight",
        "@every 5m",
        "0 0 L-3 * *",     // refused by both
        "0 0 * * FRI-MON", // refused by both
        "*/0 * * * *",
        "60 * * * *",
    ] {
        assert!(!accepts(expression), "{expression}");
    }
}

#[test]
fn croner_sees_a_star_only_in_a_bare_star() {
    // cron's star rule makes `*/2` count as unrestricted; for croner it is restricted, so the
    // parser is told to match both.
    let plain = Cron::from_str("0 0 */2 * 1").unwrap();
    assert!(!plain.pattern.is_dom_wildcard());
    assert!(!plain.pattern.matches_dom_and_dow());
    let both = CronParser::builder().dom_and_dow(true).build().parse("0 0 */2 * 1").unwrap();
    assert!(both.pattern.matches_dom_and_dow());
}

#[test]
fn croner_takes_seven_fields_when_told_to() {
    let parser = CronParser::builder().seconds(Seconds::Required).year(Year::Required).build();
    assert!(parser.parse("0 5 2 * * 6 2000").is_ok());
    assert!(parser.parse("0 5 2 * * 6").is_err());
    let all_years = parser.parse("0 5 2 * * 6 *").unwrap().pattern.years.values();
    assert_eq!((all_years.first(), all_years.last()), (Some(&1), Some(&5_000)));
}
