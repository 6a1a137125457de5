//! A cron expression in plain words, from its normalised fields.
//!
//! Written by the form of the fields, not by the values they stand for: `*/15` reads as "every 15
//! minutes". The result starts in lower case.

use super::normalise::{DOM, DOW, Fields, HOUR, MINUTE, MONTH, SECOND, YEAR};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// So many single times of day are listed; more are put as a rule.
const TIMES_SHOWN_MAX: usize = 6;

/// One item of a field's list.
enum Item<'a> {
    One(u16),
    Range(u16, u16),
    Step { range: Option<(u16, u16)>, step: u16 },
    Marked(&'a str),
}

fn items(text: &str) -> Vec<Item<'_>> {
    text.split(',').map(item).collect()
}

fn item(text: &str) -> Item<'_> {
    let (base, step) = match text.split_once('/') {
        Some((base, step)) => (base, step.parse().ok()),
        None => (text, None),
    };
    let range =
        base.split_once('-').and_then(|(low, high)| Some((low.parse().ok()?, high.parse().ok()?)));
    match (step, range, base.parse()) {
        (Some(step), range, _) if range.is_some() || base == "*" => Item::Step { range, step },
        (None, Some((low, high)), _) => Item::Range(low, high),
        (None, None, Ok(value)) => Item::One(value),
        _ => Item::Marked(text),
    }
}

/// The numbers of a field that is a plain list of them.
fn numbers(text: &str) -> Option<Vec<u16>> {
    text.split(',').map(|item| item.parse().ok()).collect()
}

/// `a`, `a and b`, `a, b and c`.
fn join(mut parts: Vec<String>) -> String {
    match parts.pop() {
        None => String::new(),
        Some(last) if parts.is_empty() => last,
        Some(last) => format!("{} and {last}", parts.join(", ")),
    }
}

fn ordinal(value: u16) -> String {
    let suffix = match (value % 10, value % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{value}{suffix}")
}

/// The expression in words.
pub(super) fn describe(fields: &Fields, both_days: bool) -> String {
    let days = days(fields, both_days);
    let mut text = match fixed_times(fields) {
        Some(times) if days.is_empty() => format!("{times} every day"),
        Some(times) => times,
        None => repeated_times(fields),
    };
    text.push_str(&days);
    if fields.text[YEAR] != "*" {
        text.push_str(&format!(" in {}", years(&fields.text[YEAR])));
    }
    text
}

fn years(text: &str) -> String {
    match items(text).as_slice() {
        [Item::Step { range: Some((low, _)), step }] => {
            format!("every {} year from {low}", ordinal(*step))
        }
        _ => set(text, |year| year.to_string()),
    }
}

/// `at 02:05` or `at 09:00 and 17:30`, if there are few enough times a day to list.
fn fixed_times(fields: &Fields) -> Option<String> {
    let hours = numbers(&fields.text[HOUR])?;
    let minutes = numbers(&fields.text[MINUTE])?;
    let seconds = numbers(&fields.text[SECOND])?;
    if hours.len() * minutes.len() * seconds.len() > TIMES_SHOWN_MAX {
        return None;
    }
    let mut times = Vec::new();
    for hour in &hours {
        for minute in &minutes {
            for second in &seconds {
                let seconds = if seconds == [0] { String::new() } else { format!(":{second:02}") };
                times.push(format!("{hour:02}:{minute:02}{seconds}"));
            }
        }
    }
    times.sort();
    times.dedup();
    Some(format!("at {}", join(times)))
}

fn repeated_times(fields: &Fields) -> String {
    let (second, minute) = (&fields.text[SECOND], &fields.text[MINUTE]);
    let mut text = if second == "0" {
        every(minute, "minute", 60)
    } else {
        let mut text = every(second, "second", 60);
        match minute.as_str() {
            "*" if text.starts_with("at ") => text.push_str(" of every minute"),
            "*" => {}
            _ => text.push_str(&format!(" of {}", units(minute, "minute"))),
        }
        text
    };
    let at_minutes = text.starts_with("at ") || minute != "*" && second != "0";
    match fields.text[HOUR].as_str() {
        "*" if at_minutes && minute != "*" => text.push_str(" of every hour"),
        "*" => {}
        hour => text.push_str(&hours(hour, at_minutes)),
    }
    text
}

/// `every minute`, `every 5 minutes` or `at minutes 5 and 10`.
fn every(text: &str, unit: &str, whole: u16) -> String {
    match items(text).as_slice() {
        _ if text == "*" => format!("every {unit}"),
        [Item::Step { range: None, step: 1 }] => format!("every {unit}"),
        [Item::Step { range: None, step }] if whole.is_multiple_of(*step) => {
            format!("every {step} {unit}s")
        }
        _ => format!("at {}", units(text, unit)),
    }
}

/// `minute 5`, `minutes 5 and 10`, `minutes 0 to 30`, `every 7th minute`.
fn units(text: &str, unit: &str) -> String {
    match items(text).as_slice() {
        // A step beyond the field leaves its first value.
        [Item::Step { range: None, step: 60.. }] => format!("{unit} 0"),
        [Item::Step { range: None, step }] => format!("every {} {unit}", ordinal(*step)),
        [Item::Step { range: Some((low, high)), step }]
            if steps(*low, *high, *step).count() > TIMES_SHOWN_MAX =>
        {
            format!("every {} {unit} from {low} to {high}", ordinal(*step))
        }
        [Item::One(value)] => format!("{unit} {value}"),
        _ => format!("{unit}s {}", set(text, |value| value.to_string())),
    }
}

fn hours(text: &str, at_minutes: bool) -> String {
    let of = if at_minutes { "of" } else { "in" };
    match items(text).as_slice() {
        [Item::Range(low, high)] if !at_minutes => format!(" from {low:02}:00 to {high:02}:59"),
        [Item::One(hour)] if !at_minutes => format!(" from {hour:02}:00 to {hour:02}:59"),
        [Item::Step { range: None, step: 1 }] => format!(" {of} every hour"),
        [Item::Step { range: None, step: 24.. }] => format!(" {of} hour 0"),
        [Item::Step { range: None, step }] => format!(" {of} every {} hour", ordinal(*step)),
        [Item::One(hour)] => format!(" {of} hour {hour}"),
        _ => format!(" {of} hours {}", set(text, |hour| hour.to_string())),
    }
}

/// A list of numbers and ranges, each number named by `name`.
fn set(text: &str, name: impl Fn(u16) -> String) -> String {
    let mut parts = Vec::new();
    for item in items(text) {
        match item {
            Item::One(value) => parts.push(name(value)),
            Item::Range(low, high) => parts.push(range(low, high, &name)),
            Item::Step { range: None, step } => parts.push(format!("every {}", ordinal(step))),
            Item::Step { range: Some((low, high)), step } => {
                parts.extend(stepped(low, high, step, "", &name));
            }
            Item::Marked(text) => parts.push(text.to_owned()),
        }
    }
    join(parts)
}

fn range(low: u16, high: u16, name: impl Fn(u16) -> String) -> String {
    if low == high { name(low) } else { format!("{} to {}", name(low), name(high)) }
}

/// Few values are listed, many put as a step.
fn stepped(
    low: u16,
    high: u16,
    step: u16,
    unit: &str,
    name: impl Fn(u16) -> String,
) -> Vec<String> {
    let values: Vec<u16> = steps(low, high, step).collect();
    if values.len() <= TIMES_SHOWN_MAX {
        return values.into_iter().map(name).collect();
    }
    vec![format!("every {}{unit} from {} to {}", ordinal(step), name(low), name(high))]
}

fn days(fields: &Fields, both_days: bool) -> String {
    let (dom, dow, month) = (&fields.text[DOM], &fields.text[DOW], &fields.text[MONTH]);
    let months = match month.as_str() {
        "*" | "*/1" => None,
        text => Some(month_names(text)),
    };
    let in_months = months.as_ref().map_or(String::new(), |names| format!(" in {names}"));
    let of_months = format!(" of {}", months.as_deref().unwrap_or("every month"));
    // What depends on the month reads "of March", a plain weekday "in March".
    let dow_by_month = dow.contains(['#', 'L']);
    match (dom.as_str(), dow.as_str()) {
        ("*" | "*/1", "*" | "*/1" | "0-6" | "0-7" | "1-7") => in_months,
        (_, "*" | "*/1") => format!(" on {}{of_months}", dom_words(dom)),
        ("*" | "*/1", _) if dow_by_month => format!(" on {}{of_months}", dow_words(dow)),
        ("*" | "*/1", _) => format!(" on {}{in_months}", dow_words(dow)),
        _ if both_days || fields.starred(DOM) || fields.starred(DOW) => {
            format!(" on {}{of_months} if it falls on {}", dom_words(dom), dow_words(dow))
        }
        _ => format!(" on {} of the month or on {}{in_months}", dom_words(dom), dow_words(dow)),
    }
}

fn month_names(text: &str) -> String {
    let name = |month: u16| named(&MONTHS, month.wrapping_sub(1));
    match items(text).as_slice() {
        [Item::Step { range: None, step }] => join(steps(1, 12, *step).map(name).collect()),
        _ => set(text, name),
    }
}

fn dom_words(text: &str) -> String {
    let the = |day: u16| format!("the {}", ordinal(day));
    let items = items(text);
    let parts = items.iter().flat_map(|item| match item {
        Item::One(day) => vec![the(*day)],
        Item::Range(low, high) => vec![range(*low, *high, the)],
        Item::Step { range: None, step } => {
            vec![format!("every {} day from the 1st", ordinal(*step))]
        }
        Item::Step { range: Some((low, high)), step } => stepped(*low, *high, *step, " day", the),
        Item::Marked(text) => vec![marked_day(text)],
    });
    join(parts.collect())
}

/// `L`, `LW` and `15W`.
fn marked_day(text: &str) -> String {
    match (text, text.strip_suffix('W').and_then(|day| day.parse().ok())) {
        ("L", _) => "the last day".to_owned(),
        ("LW", _) => "the last weekday (Monday to Friday)".to_owned(),
        (_, Some(day)) => format!("the weekday (Monday to Friday) nearest the {}", ordinal(day)),
        _ => text.to_owned(),
    }
}

fn dow_words(text: &str) -> String {
    let name = |day: u16| named(&WEEKDAYS, day % 7);
    let items = items(text);
    let parts = items.iter().flat_map(|item| match item {
        Item::One(day) => vec![name(*day)],
        Item::Range(low, high) => vec![range(*low, *high, name)],
        Item::Step { range, step } => {
            let (low, high) = range.unwrap_or((0, 6));
            steps(low, high, *step).map(name).collect()
        }
        Item::Marked(text) => vec![marked_weekday(text).unwrap_or_else(|| (*text).to_owned())],
    });
    join(parts.collect())
}

/// `5#2` and `5L`, also for a range such as `1-5#2`.
fn marked_weekday(text: &str) -> Option<String> {
    let (days, which) = match text.split_once('#') {
        Some((days, nth)) => (days, nth),
        None => (text.strip_suffix('L')?, "L"),
    };
    let which = match which {
        "L" => "last",
        "1" => "first",
        "2" => "second",
        "3" => "third",
        "4" => "fourth",
        _ => "fifth",
    };
    let days = match item(days) {
        Item::One(day) => steps(day, day, 1),
        Item::Range(low, high) => steps(low, high, 1),
        _ => return None,
    };
    Some(join(days.map(|day| format!("the {which} {}", named(&WEEKDAYS, day % 7))).collect()))
}

fn steps(low: u16, high: u16, step: u16) -> impl Iterator<Item = u16> {
    (low..=high).step_by(usize::from(step.max(1)))
}

fn named(names: &[&str], index: u16) -> String {
    names.get(usize::from(index)).map_or_else(|| index.to_string(), |name| (*name).to_owned())
}
