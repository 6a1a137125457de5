//! Counts how often values were seen, by their order of magnitude.
//!
//! Openraft keeps statistics of its own in histograms of the crate `base2histogram`. Version 0.2.3 of
//! that makes tables for all of its precisions when the first histogram is made: 32 MB that are
//! never looked at, two thirds of what a server of ours takes that has nothing to do. This package
//! takes its place (`[patch.crates-io]` in the workspace): the part of its interface that openraft uses, with one
//! bucket for each power of two and nothing besides the counts. It can go as soon as that crate
//! makes only the tables that are needed.

use std::fmt;
use std::marker::PhantomData;

/// One for zero, and one for each power of two.
const BUCKETS: usize = 65;

/// How often values were seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram<T = ()> {
    counts: [u64; BUCKETS],
    slots: PhantomData<T>,
}

impl<T> Default for Histogram<T> {
    fn default() -> Histogram<T> {
        Histogram { counts: [0; BUCKETS], slots: PhantomData }
    }
}

impl<T> Histogram<T> {
    /// Nothing seen yet.
    #[must_use]
    pub fn new() -> Histogram<T> {
        Histogram::default()
    }

    /// A value was seen.
    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// A value was seen several times.
    pub fn record_n(&mut self, value: u64, times: u64) {
        let bucket = (u64::BITS - value.leading_zeros()) as usize;
        self.counts[bucket] = self.counts[bucket].saturating_add(times);
    }

    /// How many were seen.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// What a part of the values do not exceed, up to a factor of two; 0 if there are none.
    #[must_use]
    pub fn percentile(&self, part: f64) -> u64 {
        let wanted = (self.total() as f64 * part).ceil().max(1.0) as u64;
        let mut seen = 0_u64;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen = seen.saturating_add(*count);
            if seen >= wanted {
                // The largest value of the bucket.
                return u64::MAX.checked_shr(u64::BITS - bucket as u32).unwrap_or(0);
            }
        }
        0
    }

    /// The usual percentiles.
    #[must_use]
    pub fn percentile_stats(&self) -> PercentileStats {
        PercentileStats {
            samples: self.total(),
            p0_1: self.percentile(0.001),
            p1: self.percentile(0.01),
            p5: self.percentile(0.05),
            p10: self.percentile(0.1),
            p50: self.percentile(0.5),
            p90: self.percentile(0.9),
            p99: self.percentile(0.99),
            p99_9: self.percentile(0.999),
        }
    }
}

/// Percentiles of what was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PercentileStats {
    /// How many were seen.
    pub samples: u64,
    /// What one in a thousand does not exceed.
    pub p0_1: u64,
    /// What one in a hundred does not exceed.
    pub p1: u64,
    /// What one in twenty does not exceed.
    pub p5: u64,
    /// What one in ten does not exceed.
    pub p10: u64,
    /// What half of them do not exceed.
    pub p50: u64,
    /// What nine in ten do not exceed.
    pub p90: u64,
    /// What 99 in a hundred do not exceed.
    pub p99: u64,
    /// What 999 in a thousand do not exceed.
    pub p99_9: u64,
}

impl fmt::Display for PercentileStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PercentileStats { samples, p50, p90, p99, .. } = self;
        write!(f, "{samples} samples, p50 {p50}, p90 {p90}, p99 {p99}")
    }
}

/// Several histograms under one another, as text.
#[derive(Clone, Debug, Default)]
pub struct AsciiChart {
    lines: Vec<(String, PercentileStats)>,
}

impl AsciiChart {
    /// None yet.
    #[must_use]
    pub fn new() -> AsciiChart {
        AsciiChart::default()
    }

    /// One more.
    #[must_use]
    pub fn add(mut self, name: impl Into<String>, histogram: Histogram) -> AsciiChart {
        self.lines.push((name.into(), histogram.percentile_stats()));
        self
    }
}

impl fmt::Display for AsciiChart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|(name, stats)| writeln!(f, "{name}: {stats}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_up_to_a_factor_of_two() {
        let mut histogram = Histogram::<()>::new();
        assert_eq!(histogram.percentile_stats(), PercentileStats::default());
        histogram.record_n(5, 98);
        histogram.record(0);
        histogram.record(u64::MAX);
        let stats = histogram.percentile_stats();
        assert_eq!(stats.samples, 100);
        assert_eq!((stats.p1, stats.p50, stats.p99), (0, 7, 7));
        assert_eq!(stats.p99_9, u64::MAX);
        let chart = AsciiChart::new().add("waits", histogram).to_string();
        assert_eq!(chart, "waits: 100 samples, p50 7, p90 7, p99 7\n");
    }
}
