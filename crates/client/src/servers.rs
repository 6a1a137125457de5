//! The servers that a client knows, and which of them is asked.
//!
//! All are nodes of one cluster, so each can answer any request. The one that answered last is asked
//! first. The next is asked if no connection can be made, since nothing was sent then; if there was one
//! and no answer came, only for requests that change nothing: these wait for no server so long that no
//! time is left for the others. An answer is an answer, also if it is a refusal: a node that knows no
//! leader says what the others would say.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use reqwest::Url;

use crate::error::{Failed, Unreached};
use crate::request::Request;
use crate::{ClientError, address};

/// How long connecting may take if there is one server, and if there are others to be tried.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);
const CONNECT_TIME_MAX_OF_SEVERAL: Duration = Duration::from_secs(3);

/// One or several servers.
pub(crate) struct Servers {
    bases: Vec<Url>,
    /// The one to ask first.
    preferred: AtomicUsize,
}

impl Servers {
    /// Reads addresses that are apart by commas.
    pub(crate) fn parse(text: &str) -> Result<Servers, ClientError> {
        let bases: Result<Vec<Url>, ClientError> = text.split(',').map(address::parse).collect();
        Ok(Servers { bases: bases?, preferred: AtomicUsize::new(0) })
    }

    /// Whether any of them is to be reached by TLS.
    pub(crate) fn any_tls(&self) -> bool {
        self.bases.iter().any(|base| base.scheme() == "https")
    }

    /// How long connecting to one may take: so that of several all can be tried in time.
    pub(crate) fn connect_time_max(&self, timeout: Duration) -> Duration {
        match u32::try_from(self.bases.len()).unwrap_or(u32::MAX) {
            0 | 1 => CONNECT_TIME_MAX,
            several => CONNECT_TIME_MAX_OF_SEVERAL.min(timeout / several),
        }
    }

    /// The one that is asked first.
    pub(crate) fn first(&self) -> &Url {
        &self.bases[self.preferred.load(Ordering::Relaxed)]
    }

    /// A request's way over the servers.
    pub(crate) fn round(&self) -> Round<'_> {
        let at = self.preferred.load(Ordering::Relaxed);
        Round { servers: self, at, begun: Instant::now(), unreached: Vec::new() }
    }
}

/// The address of a server, as people know it.
pub(crate) fn name(base: &Url) -> &str {
    base.as_str().trim_end_matches('/')
}

/// Where a request stands that is sent to one server after another.
pub(crate) struct Round<'a> {
    servers: &'a Servers,
    at: usize,
    begun: Instant,
    /// Those that gave no answer.
    unreached: Vec<Unreached>,
}

impl Round<'_> {
    /// The server to ask now.
    pub(crate) fn server(&self) -> &Url {
        &self.servers.bases[self.at]
    }

    /// How much of a request's time is left.
    fn left(&self, timeout: Duration) -> Duration {
        timeout.saturating_sub(self.begun.elapsed())
    }

    /// How much of it the server to ask now may take. Of what others can be asked as well, each of
    /// those that are yet to be asked gets an equal share: one that takes connections and says nothing
    /// must not keep the others from being asked.
    pub(crate) fn share(&self, request: &Request, timeout: Duration) -> Duration {
        let untried = self.servers.bases.len() - self.unreached.len();
        let sharing = if request.only_reads() { untried.max(1) } else { 1 };
        self.left(timeout) / u32::try_from(sharing).unwrap_or(u32::MAX)
    }

    /// The server has answered, and is asked first from now on.
    pub(crate) fn answered(&self) {
        self.servers.preferred.store(self.at, Ordering::Relaxed);
    }

    /// Goes on to the next server after a failure. This one is not asked first any more.
    ///
    /// # Errors
    /// If no other may be asked, or none is left.
    pub(crate) fn failed(&mut self, request: &Request, failed: Failed) -> Result<(), ClientError> {
        let server = name(self.server()).to_owned();
        let (next, order) = ((self.at + 1) % self.servers.bases.len(), Ordering::Relaxed);
        // Unless another request has found a better one meanwhile.
        let _ = self.servers.preferred.compare_exchange(self.at, next, order, order);
        let in_time = request.timeout.is_none_or(|timeout| !self.left(timeout).is_zero());
        let may_be_repeated = failed.connecting || request.only_reads();
        self.unreached.push(Unreached { server: server.clone(), reason: failed.reason.clone() });
        let others = self.servers.bases.len() > self.unreached.len();
        if may_be_repeated && in_time && others {
            self.at = next;
            return Ok(());
        }
        if failed.connecting || (may_be_repeated && self.unreached.len() > 1) {
            return Err(ClientError::Unreachable { tried: std::mem::take(&mut self.unreached) });
        }
        Err(ClientError::Interrupted { server, reason: failed.reason })
    }
}

#[cfg(test)]
mod tests {
    use reqwest::Method;

    use super::*;

    #[test]
    fn servers_are_apart_by_commas_and_each_must_be_one() {
        let servers = Servers::parse("a, https://b.example.com,[::1]:9").unwrap();
        let names: Vec<&str> = servers.bases.iter().map(name).collect();
        assert_eq!(names, ["http://a:2355", "https://b.example.com", "http://[::1]:9"]);
        assert!(servers.any_tls() && !Servers::parse("a,b").unwrap().any_tls());
        for text in ["", "a,", ",a", "a,ftp://b"] {
            assert!(Servers::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_changes_nothing_shares_its_time_among_those_that_are_left() {
        let servers = Servers::parse("a,b,c").unwrap();
        let request = |method| Request::new(method, &["v1"], &Vec::new()).unwrap();
        let (minute, mut round) = (Duration::from_secs(60), servers.round());
        for seconds in [20, 30, 60] {
            let share = round.share(&request(Method::GET), minute);
            let most = Duration::from_secs(seconds);
            assert!(share <= most && share > most / 2, "{share:?} of {most:?}");
            assert!(
                round.share(&request(Method::POST), minute) > minute / 2,
                "it is asked nowhere else"
            );
            let failed = Failed { connecting: false, reason: "silence".to_owned() };
            let _ = round.failed(&request(Method::GET), failed);
        }
    }

    #[test]
    fn of_several_all_can_be_tried_in_time() {
        let (one, three) = (Servers::parse("a").unwrap(), Servers::parse("a,b,c").unwrap());
        let minute = Duration::from_secs(60);
        assert_eq!(one.connect_time_max(minute), CONNECT_TIME_MAX);
        assert_eq!(three.connect_time_max(minute), CONNECT_TIME_MAX_OF_SEVERAL);
        assert_eq!(three.connect_time_max(Duration::from_secs(3)), Duration::from_secs(1));
    }
}
