//! Which days of a month match the day fields.
//!
//! Whether a day matches depends on nothing but the month's length and the weekday of its first
//! day: 28 kinds of month. So even `L`, `W` and `#` become a table of 28 masks, filled by asking
//! croner once, and searching needs no further look at the expression.

use croner::{CronPattern, Weekday};
use jiff::civil::Date;

use super::error::ScheduleError;

/// All days of the longest month; day `d` is bit `d`.
const ALL_DAYS: u32 = 0xffff_fffe;

/// The day fields of a cron expression, ready to be searched.
#[derive(Clone, Debug)]
pub(super) enum Days {
    /// Day numbers and weekdays, combined by `and` or by `or`.
    Plain {
        /// Bit `d` for day-of-month `d`.
        dom: u32,
        /// Bit 0 for Sunday to bit 6 for Saturday.
        dow: u32,
        /// Both must match, rather than either.
        both: bool,
    },
    /// A mask for each kind of month; see [`kind`].
    Table(Box<[u32; 28]>),
}

impl Days {
    /// Takes the day fields out of a parsed expression. `both` says how plain fields combine; for
    /// the other forms croner was already told.
    pub(super) fn new(pattern: &CronPattern, both: bool) -> Result<Days, ScheduleError> {
        if pattern.days.has_modifiers() || pattern.days_of_week.has_modifiers() {
            return Ok(Days::Table(Box::new(table(pattern)?)));
        }
        let mask = |values: Vec<u16>| values.into_iter().fold(0, |mask, value| mask | 1 << value);
        Ok(Days::Plain {
            dom: mask(pattern.days.values()),
            dow: mask(pattern.days_of_week.values()),
            both,
        })
    }

    /// The matching days of a month as a mask, day `d` at bit `d`. `first` is its first day.
    pub(super) fn of_month(&self, first: Date) -> u32 {
        let month_days = ALL_DAYS >> (31 - first.days_in_month());
        match self {
            Days::Table(masks) => masks[kind(first)],
            Days::Plain { dom, dow, both } => {
                // Weekdays from the first of the month on, then the same week five times over.
                let first_weekday = first.weekday().to_sunday_zero_offset();
                let week = (dow >> first_weekday | dow << (7 - first_weekday)) & 0x7f;
                let weeks = u64::from(week) * (1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28);
                let weekdays = (weeks << 1) as u32;
                month_days & if *both { dom & weekdays } else { dom | weekdays }
            }
        }
    }
}

/// The kind of month, 0 to 27, that starts on this date.
fn kind(first: Date) -> usize {
    let length = first.days_in_month().unsigned_abs() as usize;
    let weekday = first.weekday().to_sunday_zero_offset().unsigned_abs() as usize;
    (length - 28) * 7 + weekday
}

fn table(pattern: &CronPattern) -> Result<[u32; 28], ScheduleError> {
    let mut masks = [0; 28];
    let mut filled = [false; 28];
    // The calendar repeats every 28 years within a century, so these hold all kinds of month.
    for year in 2001..2029 {
        for month in 1..=12 {
            let Ok(first) = Date::new(year, month, 1) else { continue };
            if !std::mem::replace(&mut filled[kind(first)], true) {
                masks[kind(first)] = ask(pattern, first)?;
            }
        }
    }
    Ok(masks)
}

fn ask(pattern: &CronPattern, first: Date) -> Result<u32, ScheduleError> {
    const WEEK: [Weekday; 7] = [
        Weekday::Sunday,
        Weekday::Monday,
        Weekday::Tuesday,
        Weekday::Wednesday,
        Weekday::Thursday,
        Weekday::Friday,
        Weekday::Saturday,
    ];
    let first_weekday = first.weekday().to_sunday_zero_offset().unsigned_abs() as usize;
    let mut mask = 0;
    for day in 1..=first.days_in_month().unsigned_abs() {
        let weekday = WEEK[(first_weekday + usize::from(day) - 1) % 7];
        let month = u32::from(first.month().unsigned_abs());
        let matched = pattern
            .day_match(i32::from(first.year()), month, u32::from(day), weekday)
            .map_err(|error| ScheduleError::new("invalid_cron", error.to_string()))?;
        if matched {
            mask |= 1 << day;
        }
    }
    Ok(mask)
}
