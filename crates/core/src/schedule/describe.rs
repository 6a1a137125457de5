//! A whole schedule in plain words: rules, exceptions, zone, bounds.
//!
//! The words of a single cron expression are in `words.rs`.

use super::compile::Source;
use super::compiled::Inner;
use super::exclude::Exclusion;
use super::spec::{Dst, Fold, Gap};
use super::words;
use crate::time::{DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, Time};

/// The sentence, without a full stop.
pub(super) fn describe(inner: &Inner) -> String {
    let both_days = inner.spec.day_match == super::DayMatch::Both;
    let rules: Vec<String> =
        inner.any.iter().map(|source| describe_source(source, both_days)).collect();
    let mut text = rules.join("; and ");
    for exclusion in &inner.except {
        text.push_str("; except ");
        text.push_str(&describe_exclusion(exclusion, both_days));
    }
    let has_cron = inner.any.iter().any(|source| matches!(source, Source::Cron(_)));
    let excepts_cron = inner.except.iter().any(|e| matches!(e, Exclusion::Cron(_)));
    if has_cron || excepts_cron {
        match inner.zone.name() {
            "UTC" | "Etc/UTC" => text.push_str(", UTC"),
            zone => text.push_str(&format!(", {zone} time")),
        }
    }
    text.push_str(&describe_dst(inner.spec.dst));
    if let Some(start) = inner.start {
        text.push_str(&format!(", from {}", instant(start)));
    }
    if let Some(end) = inner.end {
        text.push_str(&format!(", until {}", instant(end)));
    }
    match inner.spec.max_runs {
        None => {}
        Some(1) => text.push_str(", at most once"),
        Some(most) => text.push_str(&format!(", at most {most} times")),
    }
    if inner.spec.jitter_ms > 0 {
        text.push_str(&format!(", each delayed by up to {}", duration(inner.spec.jitter_ms)));
    }
    capitalised(&text)
}

fn describe_source(source: &Source, both_days: bool) -> String {
    match source {
        Source::Cron(ticks) => words::describe(ticks.pattern.fields(), both_days),
        Source::Grid { period_ms, .. } => every(*period_ms),
        Source::AfterFinish { period_ms, .. } => {
            format!("{} after the last run has ended", duration(*period_ms))
        }
        Source::Once(time) => format!("once at {}", instant(*time)),
    }
}

fn describe_exclusion(exclusion: &Exclusion, both_days: bool) -> String {
    match exclusion {
        Exclusion::Cron(pattern) => words::describe(pattern.fields(), both_days),
        Exclusion::Every { period_ms, .. } => every(*period_ms),
        Exclusion::At(time) => format!("at {}", instant(*time)),
    }
}

fn describe_dst(dst: Dst) -> String {
    let gap = match dst.gap {
        None => "",
        Some(Gap::Skip) => ", left out when the clock goes forward over it",
        Some(Gap::RunAfter) => ", right afterwards when the clock goes forward over it",
    };
    let fold = match dst.fold {
        None => "",
        Some(Fold::First) => ", the first time when the clock goes back over it",
        Some(Fold::Second) => ", the second time when the clock goes back over it",
        Some(Fold::Both) => ", both times when the clock goes back over it",
    };
    format!("{gap}{fold}")
}

fn every(period_ms: u64) -> String {
    let text = duration(period_ms);
    // "every hour", but "every 2 hours" and "every 1 hour 30 minutes".
    match text.strip_prefix("1 ") {
        Some(unit) if !unit.contains(' ') => format!("every {unit}"),
        _ => format!("every {text}"),
    }
}

/// A duration such as `1 hour 30 minutes`.
fn duration(ms: u64) -> String {
    let mut rest = ms;
    let mut parts = Vec::new();
    for (unit_ms, name) in [
        (DAY_MS, "day"),
        (HOUR_MS, "hour"),
        (MINUTE_MS, "minute"),
        (SECOND_MS, "second"),
        (1, "millisecond"),
    ] {
        let count = rest / unit_ms;
        if count > 0 {
            parts.push(format!("{count} {name}{}", if count == 1 { "" } else { "s" }));
            rest %= unit_ms;
        }
    }
    if parts.is_empty() { "0 seconds".to_owned() } else { parts.join(" ") }
}

/// An instant, without milliseconds if it has none.
fn instant(time: Time) -> String {
    time.to_string().replace(".000Z", "Z")
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => String::new(),
    }
}
