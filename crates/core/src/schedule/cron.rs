//! A cron expression as bit masks, searched on the wall clock.
//!
//! No zone here: [`Pattern::next_from`] finds the next matching wall time by skipping whole years,
//! months, days and hours that cannot match, so that 29 February is as cheap as every minute.

use croner::parser::{CronParser, Seconds, Year};
use jiff::civil::Date;

use super::days::Days;
use super::error::ScheduleError;
use super::normalise::{DOM, DOW, Fields, HOUR, KINDS, MINUTE, YEAR, normalise, wrong_field};
use super::spec::DayMatch;
use super::wall::{DAY_S, Wall, next_bit};

/// The calendar repeats after so many years; what has not matched by then never will.
const CALENDAR_CYCLE_YEARS: i16 = 400;
const YEAR_MAX: i16 = 9_999;
const ALL_MINUTES: u64 = (1 << 60) - 1;
const ALL_HOURS: u64 = (1 << 24) - 1;

/// A compiled cron expression.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    fields: Fields,
    seconds: u64,
    minutes: u64,
    hours: u64,
    months: u64,
    days: Days,
    /// Ascending; `None` for every year.
    years: Option<Vec<i16>>,
}

impl Pattern {
    /// Parses an expression.
    pub(super) fn compile(
        expression: &str,
        identity: &str,
        day_match: DayMatch,
    ) -> Result<Pattern, ScheduleError> {
        let (fields, written) = normalise(expression, identity)?;
        let both = day_match == DayMatch::Both || fields.starred(DOM) || fields.starred(DOW);
        // Every year as a list is slow to parse and not needed.
        let every_year = fields.text[YEAR] == "*";
        let mut text: [&str; 7] = std::array::from_fn(|field| fields.text[field].as_str());
        if every_year {
            text[YEAR] = "2000";
        }
        let parsed = parse(&text.join(" "), both)
            .map_err(|cause| explain(&fields, &written, &cause))?
            .pattern;
        let mask =
            |values: Vec<u16>| values.into_iter().fold(0u64, |mask, value| mask | 1 << value);
        Ok(Pattern {
            seconds: mask(parsed.seconds.values()),
            minutes: mask(parsed.minutes.values()),
            hours: mask(parsed.hours.values()),
            months: mask(parsed.months.values()),
            days: Days::new(&parsed, both)?,
            years: (!every_year).then(|| {
                parsed.years.values().into_iter().filter_map(|y| y.try_into().ok()).collect()
            }),
            fields,
        })
    }

    /// The normalised text, for describing it.
    pub(super) fn fields(&self) -> &Fields {
        &self.fields
    }

    /// cron's distinction: minute or hour starting with `*` follows the wall clock through changes.
    pub(super) fn follows_wall_clock(&self) -> bool {
        self.fields.starred(MINUTE) || self.fields.starred(HOUR)
    }

    /// The first match at or after a wall time.
    pub(super) fn next_from(&self, from: Wall) -> Option<Wall> {
        let (date, second_of_day) = from.split()?;
        if self.day_matches(date)
            && let Some(second) = self.second_from(second_of_day)
        {
            return Wall::new(date, second);
        }
        let day = self.next_day_from(date.tomorrow().ok()?)?;
        Wall::new(day, self.second_from(0)?)
    }

    /// Whether the wall time matches; without a seconds field the whole minute does.
    pub(super) fn covers(&self, wall: Wall) -> bool {
        let Some((date, second_of_day)) = wall.split() else { return false };
        let has = |mask: u64, value: u32| mask >> value & 1 == 1;
        has(self.hours, second_of_day / 3_600)
            && has(self.minutes, second_of_day / 60 % 60)
            && (self.fields.count == 5 || has(self.seconds, second_of_day % 60))
            && self.day_matches(date)
    }

    /// For a wall time that is covered: a later one up to which all are covered too. Runs of
    /// seconds, minutes, hours and days are passed at once, so that a search can skip a blackout.
    pub(super) fn covered_until(&self, wall: Wall) -> Wall {
        const DAYS_AT_ONCE: usize = 400;
        // The end of the run of set bits in which the unit of `unit_s` seconds lies.
        let run_end = |mask: u64, unit_s: i64, count: i64| {
            let units = wall.0.div_euclid(unit_s);
            let in_cycle = units.rem_euclid(count);
            let end = next_bit(!mask, in_cycle as u32).map_or(count, i64::from).min(count);
            Wall((units - in_cycle + end) * unit_s)
        };
        if self.fields.count > 5 && self.seconds != ALL_MINUTES {
            return run_end(self.seconds, 1, 60);
        }
        if self.minutes != ALL_MINUTES {
            return run_end(self.minutes, 60, 60);
        }
        if self.hours != ALL_HOURS {
            return run_end(self.hours, 3_600, 24);
        }
        let mut end = wall.next_multiple(DAY_S);
        for _ in 0..DAYS_AT_ONCE {
            match end.split() {
                Some((date, _)) if self.day_matches(date) => end = end.next_multiple(DAY_S),
                _ => break,
            }
        }
        end
    }

    fn day_matches(&self, date: Date) -> bool {
        self.months >> date.month() & 1 == 1
            && self.years.as_ref().is_none_or(|years| years.binary_search(&date.year()).is_ok())
            && self.days.of_month(date.first_of_month()) >> date.day() & 1 == 1
    }

    /// The first matching second of a day at or after one.
    fn second_from(&self, second_of_day: u32) -> Option<u32> {
        let (hour, minute) = (second_of_day / 3_600, second_of_day / 60 % 60);
        let first_second = next_bit(self.seconds, 0)?;
        if next_bit(self.hours, hour) == Some(hour) {
            if next_bit(self.minutes, minute) == Some(minute)
                && let Some(second) = next_bit(self.seconds, second_of_day % 60)
            {
                return Some(hour * 3_600 + minute * 60 + second);
            }
            if let Some(minute) = next_bit(self.minutes, minute + 1) {
                return Some(hour * 3_600 + minute * 60 + first_second);
            }
        }
        let hour = next_bit(self.hours, hour + 1)?;
        Some(hour * 3_600 + next_bit(self.minutes, 0)? * 60 + first_second)
    }

    /// The first matching day at or after one.
    fn next_day_from(&self, from: Date) -> Option<Date> {
        let (mut year, mut month, mut day) = (from.year(), from.month(), from.day());
        let last_year = match &self.years {
            None => year.saturating_add(CALENDAR_CYCLE_YEARS).min(YEAR_MAX),
            Some(years) => *years.last()?,
        };
        while year <= last_year {
            let candidate = self.next_year_from(year)?;
            if candidate != year {
                (year, month, day) = (candidate, 1, 1);
            }
            let Some(next_month) = next_bit(self.months, u32::from(month.unsigned_abs())) else {
                (year, month, day) = (year + 1, 1, 1);
                continue;
            };
            let next_month = i8::try_from(next_month).ok()?;
            if next_month != month {
                (month, day) = (next_month, 1);
            }
            let first = Date::new(year, month, 1).ok()?;
            let days = u64::from(self.days.of_month(first));
            if let Some(day) = next_bit(days, u32::from(day.unsigned_abs())) {
                return Date::new(year, month, i8::try_from(day).ok()?).ok();
            }
            (month, day) = (month + 1, 1);
        }
        None
    }

    fn next_year_from(&self, year: i16) -> Option<i16> {
        match &self.years {
            None => Some(year),
            Some(years) => years.get(years.partition_point(|listed| *listed < year)).copied(),
        }
    }
}

fn parse(text: &str, both: bool) -> Result<croner::Cron, croner::errors::CronError> {
    CronParser::builder()
        .seconds(Seconds::Required)
        .year(Year::Required)
        .dom_and_dow(both)
        .build()
        .parse(text)
}

/// croner does not say which field is wrong; trying them one by one does.
fn explain(
    fields: &Fields,
    written: &[String; 7],
    cause: &croner::errors::CronError,
) -> ScheduleError {
    for field in 0..KINDS.len() {
        let mut alone = ["0", "0", "0", "1", "1", "1", "2000"];
        alone[field] = &fields.text[field];
        if parse(&alone.join(" "), false).is_err() {
            return wrong_field(field, &written[field], "is not understood");
        }
    }
    ScheduleError::new("invalid_cron", format!("the cron expression is not understood: {cause}"))
}
