//! Instants and durations as the rest of the system uses them.
//!
//! A [`Time`] is a count of milliseconds since the Unix epoch, in UTC. Zones matter only
//! inside [`crate::schedule`]; everything stored, compared and sent is a `Time`. Reading a
//! clock is not possible here: callers pass the present in.

use std::fmt;

/// An instant, in milliseconds since the Unix epoch. Negative before 1970.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Time(pub i64);

/// The last instant that can be written with a four-digit year: 9999-12-30T22:00:00Z, which is
/// also the last one that every zone can represent.
pub const TIME_MAX: Time = Time(253_402_207_200_000);

/// One second, in milliseconds.
pub const SECOND_MS: u64 = 1_000;
/// One minute, in milliseconds.
pub const MINUTE_MS: u64 = 60 * SECOND_MS;
/// One hour, in milliseconds.
pub const HOUR_MS: u64 = 60 * MINUTE_MS;
/// One day of 24 hours, in milliseconds.
pub const DAY_MS: u64 = 24 * HOUR_MS;

impl Time {
    /// The instant `ms` milliseconds later, held at [`TIME_MAX`] rather than overflowing.
    #[must_use]
    pub fn plus_ms(self, ms: u64) -> Time {
        let ms = i64::try_from(ms).unwrap_or(i64::MAX);
        Time(self.0.saturating_add(ms)).min(TIME_MAX)
    }

    /// The instant `ms` milliseconds earlier.
    #[must_use]
    pub fn minus_ms(self, ms: u64) -> Time {
        let ms = i64::try_from(ms).unwrap_or(i64::MAX);
        Time(self.0.saturating_sub(ms))
    }

    /// Milliseconds from `earlier` to `self`; zero if `earlier` is not earlier.
    #[must_use]
    pub fn since_ms(self, earlier: Time) -> u64 {
        u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0)
    }

    /// Reads an RFC 3339 instant such as `2026-12-31T23:59:59Z` or one with an offset.
    ///
    /// # Errors
    /// A sentence that says what was expected.
    pub fn parse(text: &str) -> Result<Time, String> {
        let parsed = text.trim().parse::<jiff::Timestamp>();
        match parsed.map(|instant| Time(instant.as_millisecond())) {
            Ok(time) if time <= TIME_MAX => Ok(time),
            _ => Err(too_late(text).unwrap_or_else(|| {
                format!("'{text}' is not a time; write it like 2026-12-31T23:59:59Z")
            })),
        }
    }
}

/// What is wrong with a time that is well written but after [`TIME_MAX`]; `None` of any other.
#[must_use]
pub fn too_late(text: &str) -> Option<String> {
    let pieces = jiff::fmt::temporal::Pieces::parse(text.trim()).ok()?;
    let last = jiff::Timestamp::from_millisecond(TIME_MAX.0).ok()?;
    // Every offset is shorter than a day and two hours.
    let near_the_end = pieces.date().year() == 9999 && pieces.date().day_of_year() >= 363;
    let late = pieces.offset().is_some() && near_the_end;
    late.then(|| format!("'{text}' is too late; the last time possible is {last}"))
}

/// RFC 3339 in UTC with milliseconds, as the API writes it.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(instant) => write!(f, "{instant:.3}"),
            Err(_) => write!(f, "{}ms", self.0),
        }
    }
}

/// The longest duration accepted anywhere: ten years.
pub const DURATION_MAX_MS: u64 = 3_653 * DAY_MS;

/// Reads a duration such as `90s`, `1h30m`, `500ms`, `2 days` or `1w` into milliseconds.
///
/// # Errors
/// A sentence that says what was expected.
pub fn parse_duration_ms(text: &str) -> Result<u64, String> {
    let bad = || format!("'{text}' is not a duration; write it like 90s, 5m, 1h30m or 2d");
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(bad());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
        let count: u64 = rest[..digits].parse().map_err(|_| bad())?;
        rest = rest[digits..].trim_start();
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let unit_ms = match &rest[..letters] {
            "ms" | "millis" | "millisecond" | "milliseconds" => 1,
            "s" | "sec" | "secs" | "second" | "seconds" => SECOND_MS,
            "m" | "min" | "mins" | "minute" | "minutes" => MINUTE_MS,
            "h" | "hr" | "hrs" | "hour" | "hours" => HOUR_MS,
            "d" | "day" | "days" => DAY_MS,
            "w" | "week" | "weeks" => 7 * DAY_MS,
            _ => return Err(bad()),
        };
        rest = rest[letters..].trim_start();
        total = count
            .checked_mul(unit_ms)
            .and_then(|part| total.checked_add(part))
            .filter(|sum| *sum <= DURATION_MAX_MS)
            .ok_or_else(|| format!("'{text}' is longer than ten years, the longest allowed"))?;
    }
    Ok(total)
}

/// Writes milliseconds as the shortest exact text that [`parse_duration_ms`] reads back:
/// `1h30m`, `90s` becomes `1m30s`, zero is `0s`.
#[must_use]
pub fn format_duration_ms(ms: u64) -> String {
    if ms == 0 {
        return "0s".to_owned();
    }
    let mut rest = ms;
    let mut text = String::new();
    for (unit_ms, name) in
        [(DAY_MS, "d"), (HOUR_MS, "h"), (MINUTE_MS, "m"), (SECOND_MS, "s"), (1, "ms")]
    {
        if rest >= unit_ms {
            text.push_str(&format!("{}{name}", rest / unit_ms));
            rest %= unit_ms;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_round_trips_with_milliseconds() {
        for text in
            ["2026-12-31T23:59:59.000Z", "1970-01-01T00:00:00.000Z", "2038-01-19T03:14:08.123Z"]
        {
            assert_eq!(Time::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(
            Time::parse("2026-01-01T01:00:00+01:00").unwrap(),
            Time::parse("2026-01-01T00:00:00Z").unwrap()
        );
        assert!(Time::parse("tomorrow").unwrap_err().contains("2026-12-31T23:59:59Z"));
        assert_eq!(TIME_MAX.to_string(), "9999-12-30T22:00:00.000Z");
    }

    #[test]
    fn a_time_after_the_last_one_is_told_the_bound() {
        assert_eq!(Time::parse("9999-12-30T22:00:00Z"), Ok(TIME_MAX));
        for text in [
            "9999-12-30T22:00:00.001Z",
            "9999-12-30T22:00:01Z",
            "9999-12-31T23:59:59Z",
            "9999-12-31T00:00:00-02:00",
        ] {
            let error = Time::parse(text).unwrap_err();
            assert!(error.ends_with("the last time possible is 9999-12-30T22:00:00Z"), "{error}");
        }
        for text in ["9999-12-31", "9999-12-32T00:00:00Z", "99999-01-01T00:00:00Z"] {
            assert!(Time::parse(text).unwrap_err().contains("is not a time"), "{text}");
        }
    }

    #[test]
    fn durations_read_and_write() {
        for (text, ms) in [
            ("90s", 90_000),
            ("1h30m", 5_400_000),
            ("500ms", 500),
            ("5 minutes", 300_000),
            ("1d 2h", 26 * HOUR_MS),
            ("1w", 7 * DAY_MS),
            ("0s", 0),
        ] {
            assert_eq!(parse_duration_ms(text), Ok(ms), "{text}");
            assert_eq!(parse_duration_ms(&format_duration_ms(ms)), Ok(ms), "{text}");
        }
        for text in ["", "5", "m", "5 parsecs", "-5m", "1.5h", "99999999999999999999s", "11000d"] {
            assert!(parse_duration_ms(text).is_err(), "{text}");
        }
    }
}
