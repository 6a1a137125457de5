//! Lists that say how far behind they may be.
//!
//! Every list has the header: 0 where leaders were asked, or there is nobody else; otherwise the most that
//! what replicas show can be behind what is true now (see `cluster::listing`).

use std::time::{Duration, Instant};

use axum::Json;
use axum::http::HeaderValue;
use axum::response::{IntoResponse, Response};
use bellwether_api::{Problem, STALENESS_HEADER};
use serde::Serialize;

use super::answer::Refusal;
use crate::cluster::{Listing, TooOld};

/// A list, and how far behind it may be.
pub struct Listed<T> {
    list: T,
    behind: Duration,
}

impl<T> Listed<T> {
    /// A list that has just been made from a listing.
    pub fn of(list: T, from: &Listing) -> Listed<T> {
        Listed { list, behind: from.behind(Instant::now()) }
    }

    /// The same, with something in it that other nodes said some time ago.
    #[must_use]
    pub fn with_heard(self, ago: Duration) -> Listed<T> {
        Listed { behind: self.behind.max(ago), ..self }
    }

    /// A list that shows what is true now.
    pub fn now(list: T) -> Listed<T> {
        Listed { list, behind: Duration::ZERO }
    }
}

/// Whole milliseconds, and what is left of one counts as one.
fn ms(behind: Duration) -> u64 {
    u64::try_from(behind.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

impl<T: Serialize> IntoResponse for Listed<T> {
    fn into_response(self) -> Response {
        let mut response = Json(self.list).into_response();
        response.headers_mut().insert(STALENESS_HEADER, HeaderValue::from(ms(self.behind)));
        response
    }
}

impl From<TooOld> for Refusal {
    fn from(why: TooOld) -> Refusal {
        Problem::new(503, "no_leader", why.to_string()).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_never_says_less_than_it_may_be_behind() {
        assert_eq!(ms(Duration::ZERO), 0);
        assert_eq!(ms(Duration::from_micros(1)), 1);
        assert_eq!(ms(Duration::from_millis(7)), 7);
        assert_eq!(ms(Duration::from_micros(7_001)), 8);
    }
}
