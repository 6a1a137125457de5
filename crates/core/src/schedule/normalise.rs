//! Turns what people write as cron into what croner reads without surprises.
//!
//! croner parses numbers, ranges, steps, `L`, `W` and `#`. This file does what it does not do or
//! does loosely: presets, names only where they belong, hashed `H`, `*` in a list, `n/step`, and
//! refusing what croner lets pass without meaning (empty list items, text after `W`, a lone `L` as
//! weekday). The result is plain digits and marks, seven fields, seconds first.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::EXPRESSION_LEN_MAX;
use super::error::{ScheduleError, quoted};

pub(super) const SECOND: usize = 0;
pub(super) const MINUTE: usize = 1;
pub(super) const HOUR: usize = 2;
pub(super) const DOM: usize = 3;
pub(super) const MONTH: usize = 4;
pub(super) const DOW: usize = 5;
pub(super) const YEAR: usize = 6;

/// What may stand in a field.
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) min: u16,
    pub(super) max: u16,
    /// The greatest value that `H` picks, and that `n/step` runs to.
    open_max: u16,
    names: &'static [&'static str],
}

const fn kind(name: &'static str, min: u16, max: u16, open_max: u16) -> Kind {
    Kind { name, min, max, open_max, names: &[] }
}

const MONTHS: &[&str] =
    &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: &[&str] = &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// The seven fields in order.
pub(super) const KINDS: [Kind; 7] = [
    kind("second", 0, 59, 59),
    kind("minute", 0, 59, 59),
    kind("hour", 0, 23, 23),
    kind("day-of-month", 1, 31, 31),
    Kind { names: MONTHS, ..kind("month", 1, 12, 12) },
    Kind { names: WEEKDAYS, ..kind("day-of-week", 0, 7, 6) },
    kind("year", 1970, 5000, 5000),
];

/// The last day of the month that `H` picks, so that it exists in every month.
const HASHED_DAY_MAX: u16 = 28;

/// A cron expression in seven plain fields.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Fields {
    /// Second, minute, hour, day-of-month, month, day-of-week, year.
    pub(super) text: [String; 7],
    /// How many fields were written: 5, 6 or 7.
    pub(super) count: usize,
    stars: [bool; 7],
}

impl Fields {
    /// cron's star rule: a field that starts with `*` counts as unrestricted, `*/2` too.
    pub(super) fn starred(&self, field: usize) -> bool {
        self.stars[field]
    }
}

fn invalid(message: impl Into<String>) -> ScheduleError {
    ScheduleError::new("invalid_cron", message)
}

/// Reads an expression; `identity` decides what `H` stands for. The fields are also given as they
/// were written, for error messages.
pub(super) fn normalise(
    expression: &str,
    identity: &str,
) -> Result<(Fields, [String; 7]), ScheduleError> {
    if expression.len() > EXPRESSION_LEN_MAX {
        return Err(invalid(format!(
            "the cron expression is longer than {EXPRESSION_LEN_MAX} characters; split it into several rules"
        )));
    }
    if !expression.is_ascii() {
        return Err(invalid(format!(
            "the cron expression {} contains characters that are not ASCII; retype it with plain digits, * , - and /",
            quoted(expression)
        )));
    }
    let expression = expression.trim();
    let written: Vec<&str> = if expression.starts_with('@') {
        preset(expression)?.split(' ').collect()
    } else {
        expression.split_ascii_whitespace().collect()
    };
    let count = written.len();
    let mut text: [String; 7] = ["0", "*", "*", "*", "*", "*", "*"].map(str::to_owned);
    let first = match count {
        5 => MINUTE,
        6 | 7 => SECOND,
        _ => return Err(wrong_count(expression, count)),
    };
    for (field, raw) in (first..).zip(&written) {
        text[field] = raw.to_ascii_uppercase();
    }
    let written = text.clone();
    resolve_question_marks(&mut text, count);
    let stars = std::array::from_fn(|field| text[field].starts_with('*'));
    for (field, text) in text.iter_mut().enumerate() {
        *text = normalise_field(field, text, identity)?;
    }
    Ok((Fields { text, count, stars }, written))
}

fn wrong_count(expression: &str, count: usize) -> ScheduleError {
    invalid(format!(
        "{} has {count} field{}; cron needs 5 (minute hour day-of-month month day-of-week), \
         6 (seconds first) or 7 (year last)",
        quoted(expression),
        if count == 1 { "" } else { "s" }
    ))
}

fn preset(text: &str) -> Result<&'static str, ScheduleError> {
    match text.to_ascii_lowercase().as_str() {
        "@yearly" | "@annually" => Ok("0 0 1 1 *"),
        "@monthly" => Ok("0 0 1 * *"),
        "@weekly" => Ok("0 0 * * 0"),
        "@daily" | "@midnight" => Ok("0 0 * * *"),
        "@hourly" => Ok("0 * * * *"),
        "@reboot" => Err(ScheduleError::new(
            "unsupported_reboot",
            "@reboot is not a time; start the command from the machine's service manager \
             (a systemd unit, for example), or schedule it with `at` or `every`",
        )),
        _ => Err(invalid(format!(
            "there is no preset {}; use @yearly, @monthly, @weekly, @daily, @hourly or @every 5m",
            quoted(text)
        ))),
    }
}

/// `?` is `H`, except in a day field where that would make no sense: where seconds are written (as
/// Quartz does, which means "no particular value" by it) or where the other day field is given.
fn resolve_question_marks(text: &mut [String; 7], count: usize) {
    for (field, other) in [(DOM, DOW), (DOW, DOM)] {
        let other_given = !text[other].starts_with(['*', '?']);
        if text[field] == "?" && (count > 5 || other_given) {
            text[field] = "*".to_owned();
        }
    }
}

fn normalise_field(field: usize, text: &str, identity: &str) -> Result<String, ScheduleError> {
    let items: Vec<&str> = text.split(',').collect();
    if field == DOM && items.contains(&"L") && items.contains(&"LW") {
        return Err(invalid("L and LW cannot stand in one list; use two rules"));
    }
    let mut plain = Vec::with_capacity(items.len());
    for item in &items {
        if item.is_empty() {
            return Err(wrong_field(field, text, "has an empty item in its list"));
        }
        let item = if let Some(rest) = hashed_rest(item) {
            hashed(field, item, rest, identity)?
        } else {
            normalise_item(field, item, items.len() > 1)?
        };
        plain.push(item);
    }
    Ok(plain.join(","))
}

pub(super) fn wrong_field(field: usize, text: &str, what: &str) -> ScheduleError {
    let kind = &KINDS[field];
    let marks = match field {
        DOM => ", L for the last day, 15W for the nearest weekday",
        DOW => ", names SUN to SAT, 5#2 for the second Friday, 5L for the last",
        MONTH => ", names JAN to DEC",
        _ => "",
    };
    invalid(format!(
        "the {} field {} {what}; write {} to {}, a list 1,2, a range 1-5, a step */5{marks}",
        kind.name,
        quoted(text),
        kind.min,
        kind.max
    ))
}

/// What follows the `H` or `?` of a hashed item.
fn hashed_rest(item: &str) -> Option<&str> {
    let rest = item.strip_prefix(['H', '?'])?;
    (rest.is_empty() || rest.starts_with(['(', '/'])).then_some(rest)
}

/// `H`, `H(a-b)`, `H/n` and `H(a-b)/n`: a value, or the start of a step, that depends only on the
/// identity and the field. Part of the stored contract: a new version must pick the same.
fn hashed(field: usize, item: &str, rest: &str, identity: &str) -> Result<String, ScheduleError> {
    let bad = |what: &str| {
        invalid(format!(
            "{} in the {} field {what}; write H, H(0-7), H/15 or H(0-29)/10",
            quoted(item),
            KINDS[field].name
        ))
    };
    if field == YEAR {
        return Err(bad("is not possible"));
    }
    let (range, step) = match rest.split_once('/') {
        Some((range, step)) => (range, Some(step)),
        None => (rest, None),
    };
    let kind = &KINDS[field];
    let greatest = if field == DOM { HASHED_DAY_MAX } else { kind.open_max };
    let (low, high) = if range.is_empty() {
        (kind.min, greatest)
    } else {
        let bounds = range.strip_prefix('(').and_then(|r| r.strip_suffix(')'));
        let (low, high) =
            bounds.and_then(|b| b.split_once('-')).ok_or_else(|| bad("is unclear"))?;
        (
            number(low).ok_or_else(|| bad("is unclear"))?,
            number(high).ok_or_else(|| bad("is unclear"))?,
        )
    };
    if low > high || low < kind.min || high > greatest {
        return Err(bad(&format!("must stay within {} to {greatest}", kind.min)));
    }
    let hash = xxh3_64_with_seed(identity.as_bytes(), field as u64);
    let pick = |count: u16| u16::try_from(hash % u64::from(count)).unwrap_or(0);
    let span = high - low + 1;
    let Some(step) = step else { return Ok((low + pick(span)).to_string()) };
    let step = number(step).ok_or_else(|| bad("has no number as step"))?;
    if step == 0 || step > span {
        return Err(bad(&format!("needs a step from 1 to {span}")));
    }
    Ok(format!("{}-{high}/{step}", low + pick(step)))
}

fn number(text: &str) -> Option<u16> {
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

fn normalise_item(field: usize, item: &str, in_list: bool) -> Result<String, ScheduleError> {
    let kind = &KINDS[field];
    if item == "*" {
        // croner knows the star only as a whole field.
        let all = format!("{}-{}", kind.min, kind.open_max);
        return Ok(if in_list { all } else { "*".to_owned() });
    }
    let written = item;
    let item = resolve_names(field, item)?;
    let (base, step) = match item.split_once('/') {
        Some((base, step)) => (base, Some(step)),
        None => (item.as_str(), None),
    };
    if base.is_empty() || base.starts_with('+') {
        return Err(wrong_field(field, written, "is not understood"));
    }
    if let Some((low, high)) = base.split_once('-') {
        check_range(field, written, low, high)?;
    }
    if base.contains('W') && !base.ends_with('W') {
        return Err(wrong_field(field, written, "has something after its W"));
    }
    if field == DOW && base == "L" {
        return Err(wrong_field(field, written, "does not say the last of which weekday"));
    }
    if field == DOW && base == "7L" {
        return Ok("0L".to_owned());
    }
    match (number(base), step) {
        (Some(low), Some(step)) => Ok(format!("{low}-{}/{step}", kind.open_max.max(low))),
        // croner would count years from year 1.
        (None, Some(step)) if field == YEAR && base == "*" => {
            Ok(format!("{}-{}/{step}", kind.min, kind.max))
        }
        _ => Ok(item),
    }
}

fn check_range(field: usize, item: &str, low: &str, high: &str) -> Result<(), ScheduleError> {
    if low == "L" {
        return Err(wrong_field(
            field,
            item,
            "counts back from the last day, which is not supported",
        ));
    }
    let high = high.split('#').next().unwrap_or(high);
    match (number(low), number(high)) {
        (Some(low), Some(high)) if low > high => Err(wrong_field(
            field,
            item,
            "runs backwards, which needs two ranges such as FRI-SUN,MON or 22-23,0-2",
        )),
        _ => Ok(()),
    }
}

/// Replaces names by numbers. A Sunday that ends a range is 7, as in FRI-SUN.
fn resolve_names(field: usize, item: &str) -> Result<String, ScheduleError> {
    let mut out = String::with_capacity(item.len());
    let mut rest = item;
    while let Some(at) = rest.find(|c: char| c.is_ascii_alphabetic()) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        if matches!((field, word), (DOM, "L" | "W" | "LW") | (DOW, "L")) {
            out.push_str(word);
            continue;
        }
        let (name, last) = match word.strip_suffix('L') {
            Some(name) if field == DOW && word.len() == 4 => (name, "L"),
            _ => (word, ""),
        };
        let Some(position) = KINDS[field].names.iter().position(|known| *known == name) else {
            return Err(wrong_field(field, item, &format!("has an unknown name {}", quoted(word))));
        };
        let mut value = position + usize::from(KINDS[field].min);
        if field == DOW && value == 0 && out.ends_with('-') && out != "0-" {
            value = 7;
        }
        out.push_str(&format!("{value}{last}"));
    }
    out.push_str(rest);
    Ok(out)
}
