//! Retries, short and long.

use bellwether_api::{Problem, Retry};
use bellwether_core::backoff::default_retry;
use bellwether_core::record;

use super::limits::{RETRIES_MAX, RETRY_DELAY_MAX_MS, RETRY_FACTOR_MAX};
use super::problem::{invalid, out_of_range, span_within};

/// The retries of a job. None at all are stored as nothing.
pub(super) fn retry(
    retries: Option<u32>,
    retry: Option<Retry>,
) -> Result<Option<record::Retry>, Problem> {
    let given = match (retries, &retry) {
        (None, None) => return Ok(None),
        (Some(short), Some(long)) if short != long.max => {
            let detail = format!(
                "`retries` is {short} and `retry.max` is {}; give one of them, or the same",
                long.max
            );
            return Err(invalid("conflicting_fields", "retries", detail));
        }
        (Some(max), _) => ("retries", max),
        (None, Some(long)) => ("retry.max", long.max),
    };
    let (field, max) = given;
    if max > RETRIES_MAX {
        return Err(out_of_range(field, max, format!("from 0 to {RETRIES_MAX}")));
    }
    let stored = match retry {
        None => default_retry(max),
        Some(long) => in_full(long)?,
    };
    Ok((stored != default_retry(0)).then_some(stored))
}

fn in_full(retry: Retry) -> Result<record::Retry, Problem> {
    let mut stored = default_retry(retry.max);
    if let Some(initial) = retry.initial {
        stored.initial_ms = span_within("retry.initial", initial, 0, RETRY_DELAY_MAX_MS)?;
        // A first delay beyond the usual bound moves the bound rather than being cut.
        stored.max_delay_ms = stored.max_delay_ms.max(stored.initial_ms);
    }
    if let Some(max_delay) = retry.max_delay {
        let ms = span_within("retry.max_delay", max_delay, 0, RETRY_DELAY_MAX_MS)?;
        if ms < stored.initial_ms {
            let detail = format!(
                "`retry.max_delay` is {max_delay}, shorter than the first delay; make it longer \
                 or `retry.initial` shorter"
            );
            return Err(invalid("conflicting_fields", "retry.max_delay", detail));
        }
        stored.max_delay_ms = ms;
    }
    if let Some(factor) = retry.factor {
        if !(1.0..=RETRY_FACTOR_MAX).contains(&factor) {
            return Err(out_of_range("retry.factor", factor, "from 1 to 100"));
        }
        stored.factor = factor;
    }
    if let Some(jitter) = retry.jitter {
        if !(0.0..=1.0).contains(&jitter) {
            return Err(out_of_range("retry.jitter", jitter, "from 0 to 1"));
        }
        // Minus zero is equal to zero but would be stored and hashed as something else.
        stored.jitter = jitter.abs();
    }
    Ok(stored)
}

/// Retries as a caller would write them: short if nothing but their number is special.
pub(super) fn back(stored: &record::Retry) -> (Option<u32>, Option<Retry>) {
    let usual = default_retry(stored.max);
    if *stored == usual {
        return (Some(stored.max), None);
    }
    let span = |ms: u64, usual: u64| (ms != usual).then_some(bellwether_api::Span(ms));
    let long = Retry {
        max: stored.max,
        initial: span(stored.initial_ms, usual.initial_ms),
        factor: (stored.factor != usual.factor).then_some(stored.factor),
        max_delay: span(stored.max_delay_ms, usual.max_delay_ms.max(stored.initial_ms)),
        jitter: (stored.jitter != usual.jitter).then_some(stored.jitter),
    };
    (None, Some(long))
}
