//! Zones by name, from the database that is compiled in, as stretches of constant offset.

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::error::{ScheduleError, quoted};

/// The instants are kept inside what every zone can represent.
pub(super) const EARLIEST_S: i64 = -62_135_596_800;
pub(super) const LATEST_S: i64 = crate::time::TIME_MAX.0 / 1_000;

/// A stretch of time during which the zone's offset does not change. All in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    /// Its first second; `None` if it has no beginning.
    pub(super) start: Option<i64>,
    /// The first second after it; `None` if it has no end.
    pub(super) end: Option<i64>,
    /// Wall clock minus UTC.
    pub(super) offset: i64,
    /// The offset before `start`.
    pub(super) offset_before: i64,
    /// The offset from `end` on.
    pub(super) offset_after: i64,
}

/// A zone.
#[derive(Clone, Debug)]
pub(super) struct Zone {
    name: String,
    rules: TimeZone,
    fixed_offset: Option<i64>,
}

impl Zone {
    /// Looks a zone up; the empty name is UTC.
    pub(super) fn get(name: &str) -> Result<Zone, ScheduleError> {
        let rules = if name.is_empty() {
            TimeZone::UTC
        } else {
            TimeZoneDatabase::bundled().get(name).map_err(|_| unknown(name))?
        };
        let name = rules.iana_name().unwrap_or("UTC").to_owned();
        let fixed_offset = rules.to_fixed_offset().ok().map(|offset| i64::from(offset.seconds()));
        Ok(Zone { name, rules, fixed_offset })
    }

    /// The name as the database spells it.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Wall clock minus UTC at a second.
    pub(super) fn offset_at(&self, second: i64) -> i64 {
        match (self.fixed_offset, Timestamp::from_second(second)) {
            (Some(offset), _) => offset,
            (None, Ok(instant)) => i64::from(self.rules.to_offset(instant).seconds()),
            (None, Err(_)) => 0,
        }
    }

    /// The stretch that holds a second; `None` outside the calendar.
    pub(super) fn stretch_at(&self, second: i64) -> Option<Stretch> {
        if let Some(offset) = self.fixed_offset {
            let (offset_before, offset_after) = (offset, offset);
            return Some(Stretch { start: None, end: None, offset, offset_before, offset_after });
        }
        if !(EARLIEST_S..=LATEST_S).contains(&second) {
            return None;
        }
        let instant = Timestamp::from_second(second).ok()?;
        let offset = i64::from(self.rules.to_offset(instant).seconds());
        let next = self.rules.following(instant).next();
        // `preceding` is strict, and a change at `second` itself has to be found.
        let last = self.rules.preceding(Timestamp::from_second(second + 1).ok()?).next();
        let start = last.map(|change| change.timestamp().as_second());
        Some(Stretch {
            start,
            end: next.as_ref().map(|change| change.timestamp().as_second()),
            offset,
            offset_before: start.map_or(offset, |start| self.offset_at(start - 1)),
            offset_after: next.map_or(offset, |change| i64::from(change.offset().seconds())),
        })
    }
}

/// Checks a zone's name and gives it back as the database spells it.
///
/// # Errors
/// `unknown_timezone`, with names that are near.
pub fn check_timezone(name: &str) -> Result<String, ScheduleError> {
    Zone::get(name).map(|zone| zone.name)
}

/// The names of all zones, sorted.
#[must_use]
pub fn timezone_names() -> Vec<String> {
    let database = TimeZoneDatabase::bundled();
    let mut names: Vec<String> = database.available().map(|name| name.to_string()).collect();
    names.sort_unstable();
    names
}

fn unknown(name: &str) -> ScheduleError {
    let near = near_names(name);
    let advice = if near.is_empty() {
        "use an IANA name such as Europe/Berlin, America/New_York or UTC".to_owned()
    } else {
        format!("did you mean {}?", near.join(", "))
    };
    let message = format!("there is no time zone {}; {advice}", quoted(name));
    ScheduleError::new("unknown_timezone", message).at("timezone")
}

/// Up to three zone names that a person may have meant.
fn near_names(name: &str) -> Vec<String> {
    const LEN_MAX: usize = 64;
    const SHOWN_MAX: usize = 3;
    let wanted = name.trim().to_lowercase().replace(' ', "_");
    if wanted.is_empty() || wanted.len() > LEN_MAX {
        return Vec::new();
    }
    let mut near: Vec<(usize, String)> = timezone_names()
        .into_iter()
        .filter_map(|candidate| {
            let whole = candidate.to_lowercase();
            let city = whole.rsplit('/').next().unwrap_or(&whole);
            let wanted_city = wanted.rsplit('/').next().unwrap_or(&wanted);
            // A city in the wrong continent is nearer than a misspelt one.
            let distance =
                edit_distance(&wanted, &whole).min(1 + 2 * edit_distance(wanted_city, city));
            (distance <= 1 + wanted.len() / 4).then_some((distance, candidate))
        })
        .collect();
    near.sort();
    let nearest = near.first().map_or(0, |(distance, _)| *distance);
    let good_enough = near.into_iter().take_while(|(distance, _)| *distance <= nearest + 1);
    good_enough.take(SHOWN_MAX).map(|(_, candidate)| candidate).collect()
}

/// How many letters must be added, removed or replaced to turn one text into the other.
fn edit_distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, l) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, r) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(l != *r);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[right.len()]
}
