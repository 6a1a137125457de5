//! An oracle that shares nothing with the implementation but the zone data.
//!
//! It walks through time second by second or minute by minute, reads the wall clock at each step,
//! and applies the policy by looking at what the clock did: which wall times were shown twice, and
//! which were never shown.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use bellwether_core::schedule::{DayMatch, Fold, Gap};
use bellwether_core::time::Time;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

/// A cron field: the text for the implementation, the values for the oracle.
#[derive(Clone, Debug)]
pub struct Field {
    pub text: String,
    pub values: BTreeSet<u32>,
}

impl Field {
    fn starred(&self) -> bool {
        self.text.starts_with('*')
    }
}

/// A cron rule with its policy.
#[derive(Clone)]
pub struct Case {
    /// `None` for five fields.
    pub second: Option<Field>,
    pub minute: Field,
    pub hour: Field,
    pub dom: Field,
    pub month: Field,
    pub dow: Field,
    pub day_match: DayMatch,
    pub gap: Option<Gap>,
    pub fold: Option<Fold>,
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, gap, fold) = (self.day_match, self.gap, self.fold);
        write!(f, "{} days {days:?} gap {gap:?} fold {fold:?}", self.expression())
    }
}

impl Case {
    pub fn expression(&self) -> String {
        let five = [&self.minute, &self.hour, &self.dom, &self.month, &self.dow];
        let five: Vec<&str> = five.iter().map(|field| field.text.as_str()).collect();
        match &self.second {
            Some(second) => format!("{} {}", second.text, five.join(" ")),
            None => five.join(" "),
        }
    }

    /// Whether a wall-clock time matches all fields.
    pub fn matches(&self, wall: DateTime) -> bool {
        let has =
            |field: &Field, value: i8| field.values.contains(&u32::from(value.unsigned_abs()));
        let second = match &self.second {
            Some(second) => has(second, wall.second()),
            None => wall.second() == 0,
        };
        let dom = has(&self.dom, wall.day());
        let dow = has(&self.dow, wall.weekday().to_sunday_zero_offset());
        let day = if self.dom.starred() || self.dow.starred() || self.day_match == DayMatch::Both {
            dom && dow
        } else {
            dom || dow
        };
        second
            && has(&self.minute, wall.minute())
            && has(&self.hour, wall.hour())
            && has(&self.month, wall.month())
            && day
    }

    /// All ticks with `from <= tick < to`. Both must lie well away from a change of the clock.
    pub fn ticks(&self, zone: &TimeZone, from: Timestamp, to: Timestamp) -> Vec<Time> {
        let step_s = if self.second.is_some() { 1 } else { 60 };
        let follows = self.minute.starred() || self.hour.starred();
        let gap = self.gap.unwrap_or(if follows { Gap::Skip } else { Gap::RunAfter });
        let fold = self.fold.unwrap_or(if follows { Fold::Both } else { Fold::First });
        let mut shown: BTreeMap<DateTime, Vec<i64>> = BTreeMap::new();
        let mut ticks = BTreeSet::new();
        let mut before: Option<DateTime> = None;
        let mut second = from.as_second();
        while second < to.as_second() {
            let wall = zone.to_datetime(Timestamp::from_second(second).unwrap());
            shown.entry(wall).or_default().push(second);
            let expected = before.map(|before| before.saturating_add(step_s.seconds()));
            if let Some(mut left_out) = expected {
                while gap == Gap::RunAfter && left_out < wall {
                    if self.matches(left_out) {
                        ticks.insert(second);
                    }
                    left_out = left_out.saturating_add(step_s.seconds());
                }
            }
            before = Some(wall);
            second += step_s;
        }
        for (wall, seconds) in shown {
            if self.matches(wall) {
                match fold {
                    Fold::Both => ticks.extend(seconds),
                    Fold::First => ticks.extend(seconds.first()),
                    Fold::Second => ticks.extend(seconds.last()),
                }
            }
        }
        ticks.into_iter().map(|second| Time(second * 1_000)).collect()
    }
}
