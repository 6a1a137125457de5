//! Times and durations as people say them, and as they type them.

use bellwether_core::time::{
    DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, Time, parse_duration_ms, too_late,
};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// Beyond this the date says more than a count of days.
const RELATIVE_MAX_MS: u64 = 400 * DAY_MS;

/// An instant as seen from another: `in 5m`, `3s ago`, `now`. To the nearest unit, so that half an
/// hour from now is `in 30m` also a moment later.
pub fn relative_text(now: Time, time: Time) -> String {
    let distance_ms = time.since_ms(now).max(now.since_ms(time));
    if distance_ms > RELATIVE_MAX_MS {
        return time.to_string().chars().take(10).collect();
    }
    if distance_ms < SECOND_MS {
        return "now".to_owned();
    }
    let text = distance_text(distance_ms);
    if time > now { format!("in {text}") } else { format!("{text} ago") }
}

/// The two largest units that matter, rounded.
fn distance_text(ms: u64) -> String {
    let unit = match rounded(ms, SECOND_MS) {
        short if short < 10 * MINUTE_MS => SECOND_MS,
        _ if rounded(ms, MINUTE_MS) < DAY_MS => MINUTE_MS,
        _ if rounded(ms, HOUR_MS) < 10 * DAY_MS => HOUR_MS,
        _ => DAY_MS,
    };
    let ms = rounded(ms, unit);
    let parts = [(ms / DAY_MS, "d"), (ms % DAY_MS / HOUR_MS, "h")];
    let fine = [(ms % HOUR_MS / MINUTE_MS, "m"), (ms % MINUTE_MS / SECOND_MS, "s")];
    let parts = parts.into_iter().chain(fine).filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts.map(|(count, unit)| format!("{count}{unit}")).collect();
    if parts.is_empty() { "0s".to_owned() } else { parts.join(" ") }
}

fn rounded(ms: u64, unit: u64) -> u64 {
    ms.saturating_add(unit / 2) / unit * unit
}

/// How long something took: `350ms`, `1.2s`, `2m 3s`.
pub fn duration_text(ms: u64) -> String {
    match ms {
        0..SECOND_MS => format!("{ms}ms"),
        SECOND_MS..10_000 => format!("{}.{}s", ms / SECOND_MS, ms % SECOND_MS / 100),
        _ => distance_text(ms),
    }
}

/// An instant on the clock of a zone: `2026-12-31 23:59:59 +01:00`.
pub fn clock_text(zone: &TimeZone, time: Time) -> String {
    match Timestamp::from_millisecond(time.0) {
        Ok(instant) => instant.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S %:z").to_string(),
        Err(_) => time.to_string(),
    }
}

/// An instant on the clock of a zone by name, if that shows another time than `here` does:
/// `00:59:59 in Europe/Berlin`.
pub fn clock_elsewhere(here: &TimeZone, name: &str, time: Time) -> Option<String> {
    let instant = Timestamp::from_millisecond(time.0).ok()?;
    let there = instant.to_zoned(TimeZone::get(name).ok()?);
    if there.datetime() == instant.to_zoned(here.clone()).datetime() {
        return None;
    }
    Some(format!("{} in {name}", there.strftime("%H:%M:%S")))
}

/// Reads a time as people type it: RFC 3339, a wall clock time such as `2026-12-31 23:59` or
/// `23:59` in `zone`, `now`, `in 5m` or `5m ago`.
///
/// # Errors
/// A sentence that says what may be written.
pub fn parse_time(text: &str, zone: &TimeZone, now: Time) -> Result<Time, String> {
    let text = text.trim();
    if let Ok(time) = Time::parse(text) {
        return Ok(time);
    }
    if text == "now" {
        return Ok(now);
    }
    if let Some(ms) = text.strip_prefix("in ").and_then(|rest| parse_duration_ms(rest).ok()) {
        return Ok(now.plus_ms(ms));
    }
    if let Some(ms) = text.strip_suffix("ago").and_then(|rest| parse_duration_ms(rest).ok()) {
        return Ok(now.minus_ms(ms));
    }
    let wall = text.parse::<DateTime>().or_else(|_| {
        let today = Timestamp::from_millisecond(now.0)?.to_zoned(zone.clone()).date();
        Ok::<_, jiff::Error>(today.to_datetime(text.parse()?))
    });
    wall.and_then(|wall| wall.to_zoned(zone.clone()))
        .map(|zoned| Time(zoned.timestamp().as_millisecond()))
        .map_err(|_| {
            too_late(text).unwrap_or_else(|| {
                format!(
                    "'{text}' is not a time; write it like 2026-12-31T23:59:59Z, \
                     '2026-12-31 23:59', 'in 5m' or '5m ago'"
                )
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_told_from_now() {
        let now = Time(1_000_000_000_000);
        for (ms, text) in [
            (400, "now"),
            (45_000, "in 45s"),
            (90_000, "in 1m 30s"),
            (5 * 60_000, "in 5m"),
            (25 * 60_000 + 7_000, "in 25m"),
            (30 * 60_000 - 20, "in 30m"),
            (2 * 60_000 - 20, "in 2m"),
            (10 * 60_000 - 20, "in 10m"),
            (3_600_000 - 20, "in 1h"),
            (86_400_000 - 20, "in 1d"),
            (10 * 86_400_000 - 20, "in 10d"),
            (-59_600, "1m ago"),
            (3 * 3_600_000, "in 3h"),
            (3 * 3_600_000 + 60_000, "in 3h 1m"),
            (2 * 86_400_000 + 4 * 3_600_000, "in 2d 4h"),
            (40 * 86_400_000 + 3_600_000, "in 40d"),
            (-3_000, "3s ago"),
            (500 * 86_400_000, "2003-01-22"),
        ] {
            assert_eq!(relative_text(now, Time(now.0 + ms)), text);
        }
        for (ms, text) in [(0, "0ms"), (999, "999ms"), (1_250, "1.2s"), (125_000, "2m 5s")] {
            assert_eq!(duration_text(ms), text);
        }
    }

    #[test]
    fn times_may_be_typed_in_several_ways() {
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        let now = Time::parse("2026-06-01T12:00:00Z").unwrap();
        for (text, time) in [
            ("2026-12-31T23:59:59Z", "2026-12-31T23:59:59Z"),
            ("2026-12-31T23:59", "2026-12-31T22:59:00Z"),
            ("2026-12-31 23:59:30", "2026-12-31T22:59:30Z"),
            ("18:30", "2026-06-01T16:30:00Z"),
            ("in 30m", "2026-06-01T12:30:00Z"),
            ("2h ago", "2026-06-01T10:00:00Z"),
            ("now", "2026-06-01T12:00:00Z"),
        ] {
            assert_eq!(parse_time(text, &berlin, now), Time::parse(time), "{text}");
        }
        assert!(parse_time("tomorrow", &berlin, now).unwrap_err().contains("in 5m"));
        let late = parse_time("9999-12-31T23:59:59Z", &berlin, now).unwrap_err();
        assert!(late.ends_with("the last time possible is 9999-12-30T22:00:00Z"), "{late}");
        let shown = clock_text(&berlin, now);
        assert_eq!(shown, "2026-06-01 14:00:00 +02:00");
        let elsewhere = |name| clock_elsewhere(&berlin, name, now);
        assert_eq!(elsewhere("Asia/Tokyo").as_deref(), Some("21:00:00 in Asia/Tokyo"));
        assert_eq!(elsewhere("Europe/Paris"), None, "the clocks show the same");
    }
}
