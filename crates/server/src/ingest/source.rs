//! Where jobs come from besides the API, as it is written in the settings: a URL with parameters.

use std::fmt;
use std::str::FromStr;

use bellwether_api::MASK;
use url::Url;

/// The consumer of a stream, if none is named.
const CONSUMER: &str = "bellwether";
/// Parameters of an AMQP URL that are not ours and are left in it.
const AMQP_PARAMETERS: [&str; 5] =
    ["heartbeat", "channel_max", "frame_max", "connection_timeout", "auth_mechanism"];

/// A place that jobs are read from.
#[derive(Clone, PartialEq, Eq)]
pub struct Source {
    /// The broker, with credentials.
    pub(super) url: String,
    pub(super) kind: Kind,
    /// The namespace that all jobs go to; any if `None`.
    pub(super) namespace: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// A stream of NATS, read through a durable consumer.
    Nats { stream: String, consumer: String, subject: Option<String> },
    /// A queue of an AMQP broker.
    Amqp { queue: String },
}

impl Source {
    /// The source as it can be shown: user and password are masked.
    #[must_use]
    pub fn shown(&self) -> String {
        let mut shown = self.url.clone();
        if let Some((scheme, rest)) = self.url.split_once("://") {
            let host = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
            if let Some((_, bare)) = host.0.rsplit_once('@') {
                shown = format!("{scheme}://{MASK}@{bare}{}", host.1);
            }
        }
        let parameters = match &self.kind {
            Kind::Nats { stream, consumer, subject } => vec![
                ("stream", Some(stream)),
                ("consumer", Some(consumer)),
                ("subject", subject.as_ref()),
            ],
            Kind::Amqp { queue } => vec![("queue", Some(queue))],
        };
        let all = parameters.into_iter().chain([("namespace", self.namespace.as_ref())]);
        for (name, value) in all.filter_map(|(name, value)| Some((name, value?))) {
            let separator = if shown.contains('?') { '&' } else { '?' };
            shown = format!("{shown}{separator}{name}={value}");
        }
        shown
    }

    /// Scheme, host and port.
    fn address(&self) -> String {
        bellwether_worker::publish::public_address(&self.url)
    }

    /// A name for logs and the audit log.
    pub(super) fn name(&self) -> String {
        match &self.kind {
            Kind::Nats { stream, .. } => format!("{} stream {stream}", self.address()),
            Kind::Amqp { queue } => format!("{} queue {queue}", self.address()),
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())
    }
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Source, String> {
        let mut url = Url::parse(text).map_err(|error| format!("it is not a URL: {error}"))?;
        if url.host_str().is_none_or(str::is_empty) {
            return Err("the URL has no host".to_owned());
        }
        let (ours, left): (&[&str], &[&str]) = match url.scheme() {
            "nats" | "tls" => (&["stream", "consumer", "subject", "namespace"], &[]),
            "amqp" | "amqps" => (&["queue", "namespace"], &AMQP_PARAMETERS),
            other => {
                return Err(format!("'{other}' is no broker; use nats, tls, amqp or amqps"));
            }
        };
        let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
        let get = |name: &str| {
            let found = pairs.iter().find(|(found, _)| found == name);
            found.map(|(_, value)| value.clone()).filter(|value| !value.is_empty())
        };
        let known = |name: &str| ours.contains(&name) || left.contains(&name);
        if let Some((name, _)) = pairs.iter().find(|(name, _)| !known(name)) {
            return Err(format!("the parameter '{name}' is unknown; use {}", ours.join(", ")));
        }
        let kind = match url.scheme() {
            "nats" | "tls" => Kind::Nats {
                stream: get("stream").ok_or("the parameter 'stream' is missing")?,
                consumer: get("consumer").unwrap_or_else(|| CONSUMER.to_owned()),
                subject: get("subject"),
            },
            _ => Kind::Amqp { queue: get("queue").ok_or("the parameter 'queue' is missing")? },
        };
        let namespace = get("namespace");
        let kept: Vec<_> = pairs.iter().filter(|(name, _)| left.contains(&name.as_str())).collect();
        url.set_query(None);
        if !kept.is_empty() {
            url.query_pairs_mut().extend_pairs(kept);
        }
        Ok(Source { url: url.into(), kind, namespace })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r22_sources_are_urls_with_parameters() {
        let nats: Source =
            "nats://ana:pw@h:4222?stream=JOBS&subject=jobs.>&namespace=team".parse().unwrap();
        assert_eq!(nats.url, "nats://ana:pw@h:4222");
        assert_eq!(nats.namespace.as_deref(), Some("team"));
        let (stream, consumer) = ("JOBS".to_owned(), "bellwether".to_owned());
        assert_eq!(nats.kind, Kind::Nats { stream, consumer, subject: Some("jobs.>".to_owned()) });
        let amqp: Source = "amqps://u:p@h/v%2f?heartbeat=10&queue=jobs".parse().unwrap();
        assert_eq!(amqp.url, "amqps://u:p@h/v%2f?heartbeat=10");
        assert_eq!(amqp.kind, Kind::Amqp { queue: "jobs".to_owned() });
    }

    #[test]
    fn r55_a_source_is_shown_without_its_password() {
        let shown = |text: &str| format!("{:?}", text.parse::<Source>().unwrap());
        assert_eq!(
            shown("nats://ana:s3cr3t@h:4222?stream=JOBS&namespace=team"),
            "nats://********@h:4222?stream=JOBS&consumer=bellwether&namespace=team"
        );
        assert_eq!(
            shown("amqp://u:s3cr3t@h/v?heartbeat=5&queue=q"),
            "amqp://********@h/v?heartbeat=5&queue=q"
        );
        assert_eq!(shown("amqp://h/v?queue=q"), "amqp://h/v?queue=q");
    }

    #[test]
    fn what_is_no_source_says_why() {
        for (text, why) in [
            ("nats://h", "'stream' is missing"),
            ("amqp://h", "'queue' is missing"),
            ("http://h?queue=q", "'http' is no broker"),
            ("nats://h?stream=a&queue=b", "'queue' is unknown"),
            ("h:4222", "no broker"),
            ("", "not a URL"),
        ] {
            let error = text.parse::<Source>().map(|_| ()).or_else(|error| {
                if error.contains(why) || error.contains("no host") { Ok(()) } else { Err(error) }
            });
            assert!(text.parse::<Source>().is_err(), "{text}");
            assert_eq!(error, Ok(()), "{text}");
        }
    }
}
