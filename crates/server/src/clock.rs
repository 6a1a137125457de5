//! The wall clock. The one place in the server where time is read.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bellwether_core::time::Time;

/// The present.
#[must_use]
pub fn now() -> Time {
    time_of(SystemTime::now())
}

/// An instant of the system's clock as a [`Time`].
#[must_use]
pub fn time_of(instant: SystemTime) -> Time {
    let ms = match instant.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX),
    };
    Time(ms)
}

/// How long it is until `time`, and not longer than `most`.
#[must_use]
pub fn until(time: Option<Time>, now: Time, most: Duration) -> Duration {
    match time {
        Some(time) => Duration::from_millis(time.since_ms(now)).min(most),
        None => most,
    }
}
