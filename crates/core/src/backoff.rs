//! How long to wait before the next attempt.

use xxhash_rust::xxh3::xxh3_64;

use crate::id::RunId;
use crate::record::Retry;
use crate::time::{HOUR_MS, SECOND_MS};

/// The retries of a job that says only how many.
#[must_use]
pub fn default_retry(max: u32) -> Retry {
    Retry { max, initial_ms: SECOND_MS, factor: 2.0, max_delay_ms: HOUR_MS, jitter: 0.1 }
}

/// The delay after the `failures`-th failed attempt (from 1): exponential, bounded, and spread by
/// a hash of run and attempt, so that a thousand jobs that fail together do not come back together.
#[must_use]
pub fn delay_ms(retry: &Retry, run: RunId, failures: u32) -> u64 {
    let exponent = i32::try_from(failures.saturating_sub(1)).unwrap_or(i32::MAX);
    let grown = retry.initial_ms as f64 * retry.factor.max(1.0).powi(exponent);
    let bounded = grown.min(retry.max_delay_ms as f64);
    let mut seed = [0u8; 16];
    seed[..8].copy_from_slice(&run.job.0.to_be_bytes());
    seed[8..12].copy_from_slice(&run.n.to_be_bytes());
    seed[12..].copy_from_slice(&failures.to_be_bytes());
    let spread = (xxh3_64(&seed) >> 11) as f64 / (1u64 << 53) as f64 * 2.0 - 1.0;
    (bounded * (1.0 + spread * retry.jitter.clamp(0.0, 1.0))).max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::JobId;
    use proptest::prelude::*;

    const RUN: RunId = RunId { job: JobId(77), n: 1 };

    #[test]
    fn r59_gaps_grow_up_to_the_bound() {
        let retry = Retry { jitter: 0.0, max_delay_ms: 5_000, ..default_retry(9) };
        let gaps: Vec<u64> = (1..=5).map(|n| delay_ms(&retry, RUN, n)).collect();
        assert_eq!(gaps, [1_000, 2_000, 4_000, 5_000, 5_000]);
    }

    proptest! {
        #[test]
        fn jitter_stays_within_its_part(job: u64, n in 1u32..9, failures in 1u32..2_000) {
            let retry = default_retry(3);
            let exact = Retry { jitter: 0.0, ..retry };
            let run = RunId { job: JobId(job), n };
            let (spread, middle) = (delay_ms(&retry, run, failures) as f64, delay_ms(&exact, run, failures) as f64);
            prop_assert!(spread >= middle * 0.9 - 1.0 && spread <= middle * 1.1 + 1.0);
        }
    }
}
