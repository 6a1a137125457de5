//! Ids of jobs, runs and batches.
//!
//! A job's id is 64 bits: milliseconds since the Unix epoch (42 bits), the shard (10), a sequence
//! number (12). It sorts by time of creation, is unique without coordination because a shard has
//! one leader, and tells any node which shard to ask. It is written `job_` and 13 characters of
//! Crockford base32. The n-th run of a job is written `run_<the job's 13 characters>-n`.
//! A batch has an id of the same make, written `batch_…`, whose shard is the batch's home.

use std::fmt;
use std::str::FromStr;

use crate::time::Time;
use crate::waist::Shard;

const SEQUENCE_BITS: u32 = 12;
const SHARD_BITS: u32 = 10;

/// The largest number of shards that ids can carry.
pub const SHARDS_MAX: u16 = 1 << SHARD_BITS;

const SEQUENCE_MAX: u64 = (1 << SEQUENCE_BITS) - 1;
const TEXT_LEN: usize = 13;
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// The id of a job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct JobId(pub u64);

/// The id of a run: its job and its number, counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RunId {
    /// The job that ran.
    pub job: JobId,
    /// Which of its runs.
    pub n: u32,
}

/// The id of a batch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BatchId(pub u64);

/// A text that is not an id.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "'{0}' is not an id; ids look like job_06D1R3M0G0400, run_06D1R3M0G0400-1 and batch_06D1R3M0G0400"
)]
pub struct BadId(pub String);

impl JobId {
    /// Puts an id together from its parts.
    #[must_use]
    pub fn new(time: Time, shard: Shard, sequence: u16) -> JobId {
        let ms = u64::try_from(time.0).unwrap_or(0);
        JobId(
            ms << (SHARD_BITS + SEQUENCE_BITS)
                | u64::from(shard & (SHARDS_MAX - 1)) << SEQUENCE_BITS
                | u64::from(sequence) & SEQUENCE_MAX,
        )
    }

    /// The shard that owns the job.
    #[must_use]
    pub fn shard(self) -> Shard {
        ((self.0 >> SEQUENCE_BITS) as u16) & (SHARDS_MAX - 1)
    }

    /// When the id was made.
    #[must_use]
    pub fn time(self) -> Time {
        Time((self.0 >> (SHARD_BITS + SEQUENCE_BITS)) as i64)
    }

    /// The 13 characters after `job_`.
    #[must_use]
    pub fn text(self) -> String {
        let mut text = [0u8; TEXT_LEN];
        let mut rest = self.0;
        for slot in text.iter_mut().rev() {
            *slot = ALPHABET[(rest & 31) as usize];
            rest >>= 5;
        }
        text.iter().map(|byte| char::from(*byte)).collect()
    }

    fn from_text(text: &str) -> Option<JobId> {
        if text.len() != TEXT_LEN {
            return None;
        }
        let mut value: u64 = 0;
        for (place, byte) in text.bytes().enumerate() {
            let upper = match byte.to_ascii_uppercase() {
                b'O' => b'0',
                b'I' | b'L' => b'1',
                other => other,
            };
            let digit = ALPHABET.iter().position(|letter| *letter == upper)? as u64;
            if place == 0 && digit > 15 {
                return None;
            }
            value = value << 5 | digit;
        }
        Some(JobId(value))
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job_{}", self.text())
    }
}

impl FromStr for JobId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<JobId, BadId> {
        text.strip_prefix("job_")
            .and_then(JobId::from_text)
            .ok_or_else(|| BadId(text.chars().take(64).collect()))
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run_{}-{}", self.job.text(), self.n)
    }
}

impl FromStr for RunId {
    type Err = BadId;

    /// Reads `run_…-n` as well as `job_…/n`.
    fn from_str(text: &str) -> Result<RunId, BadId> {
        let parts = match text.strip_prefix("run_") {
            Some(rest) => rest.split_once('-'),
            None => text.strip_prefix("job_").and_then(|rest| rest.split_once('/')),
        };
        parts
            .and_then(|(job, n)| {
                let n: u32 = n.parse().ok().filter(|n| *n > 0)?;
                Some(RunId { job: JobId::from_text(job)?, n })
            })
            .ok_or_else(|| BadId(text.chars().take(64).collect()))
    }
}

impl BatchId {
    /// The shard in which the batch is at home.
    #[must_use]
    pub fn shard(self) -> Shard {
        JobId(self.0).shard()
    }
}

impl fmt::Display for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "batch_{}", JobId(self.0).text())
    }
}

impl FromStr for BatchId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<BatchId, BadId> {
        text.strip_prefix("batch_")
            .and_then(JobId::from_text)
            .map(|id| BatchId(id.0))
            .ok_or_else(|| BadId(text.chars().take(64).collect()))
    }
}

/// Makes the ids of one shard: strictly increasing, whatever the clock does.
#[derive(Clone, Debug)]
pub struct IdSource {
    shard: Shard,
    last: JobId,
}

impl IdSource {
    /// Starts after `last`, the highest id the shard has ever given out (zero if none).
    #[must_use]
    pub fn new(shard: Shard, last: JobId) -> IdSource {
        IdSource { shard, last }
    }

    /// The next id. If the clock stands still or goes back, the sequence goes on from the last
    /// id, borrowing from the next millisecond when it is full.
    pub fn next(&mut self, now: Time) -> JobId {
        let last_sequence = self.last.0 & SEQUENCE_MAX;
        self.last = if now > self.last.time() {
            JobId::new(now, self.shard, 0)
        } else if last_sequence < SEQUENCE_MAX {
            JobId(self.last.0 + 1)
        } else {
            JobId::new(self.last.time().plus_ms(1), self.shard, 0)
        };
        self.last
    }

    /// The highest id given out so far.
    #[must_use]
    pub fn last(&self) -> JobId {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_round_trip_and_carry_time_and_shard() {
        let id = JobId::new(Time(1_794_700_000_123), 1023, 4095);
        assert_eq!(id.shard(), 1023);
        assert_eq!(id.time(), Time(1_794_700_000_123));
        assert_eq!(id.to_string().parse::<JobId>(), Ok(id));
        assert_eq!(id.to_string().to_lowercase().parse::<JobId>(), Ok(id));
        let batch = BatchId(id.0);
        assert_eq!((batch.to_string().parse(), batch.shard()), (Ok(batch), 1023));
        let run = RunId { job: id, n: 7 };
        assert_eq!(run.to_string().parse::<RunId>(), Ok(run));
        assert_eq!(format!("{id}/7").parse::<RunId>(), Ok(run));
        for bad in [
            "",
            "job_",
            "job_ZZZZZZZZZZZZZ",
            "run_06D1R3M0G0400",
            "run_06D1R3M0G0400-0",
            "job_06D1R3M0G040U",
        ] {
            assert!(bad.parse::<JobId>().is_err() && bad.parse::<RunId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn r19_a_million_ids_are_unique_and_sort_by_time() {
        let mut all = Vec::new();
        for shard in 0..8 {
            let mut source = IdSource::new(shard, JobId(0));
            // A clock that stalls, jumps forward and goes back.
            for step in 0..125_000_i64 {
                let now = Time(1_794_700_000_000 + step / 5_000 - (step % 7));
                all.push(source.next(now));
            }
        }
        for pair in all.chunks(125_000) {
            assert!(pair.windows(2).all(|two| two[0] < two[1]));
        }
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 1_000_000);
        assert!(all.windows(2).all(|two| two[0].time() <= two[1].time()));
    }
}
