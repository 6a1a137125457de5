//! A message for a broker, and what can be said against it before it is sent.

use std::fmt;

use bytes::Bytes;
use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};

/// Bytes of a name in AMQP, and of a subject.
const SHORT_BYTES_MAX: usize = 255;
/// Characters of a topic.
const TOPIC_CHARS_MAX: usize = 249;
/// Brokers in a list.
const BROKERS_MAX: usize = 32;

/// User name and password.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Login {
    /// The user name.
    pub username: String,
    /// The password.
    pub password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login(***)")
    }
}

/// Which broker, and where in it.
#[derive(Clone, PartialEq, Eq)]
pub enum Broker {
    /// A subject of NATS.
    Nats {
        /// `nats://` or `tls://`.
        url: String,
        /// The subject.
        subject: String,
        /// Whether a stream has to confirm the message.
        jetstream: bool,
    },
    /// An exchange of an AMQP broker.
    Amqp {
        /// `amqp://` or `amqps://`.
        url: String,
        /// The exchange; empty is the default one.
        exchange: String,
        /// The routing key.
        routing_key: String,
    },
    /// A topic of Kafka.
    Kafka {
        /// Brokers to ask for the others, as `host:port`.
        brokers: Vec<String>,
        /// The topic.
        topic: String,
        /// The record's key; may be empty.
        key: String,
        /// Whether to speak TLS.
        tls: bool,
        /// For SASL PLAIN.
        sasl: Option<Login>,
    },
}

/// A message to publish.
#[derive(Clone, PartialEq, Eq)]
pub struct PublishTarget {
    /// Where to.
    pub broker: Broker,
    /// Headers in addition to those every message gets.
    pub headers: Vec<(String, String)>,
    /// The body; may be empty.
    pub body: Bytes,
}

/// Something that is wrong with a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Flaw {
    /// Which part, such as `nats.url` or `headers`.
    pub part: &'static str,
    /// What is wrong, in a sentence that repeats no URL and no header's value.
    pub message: String,
}

impl PublishTarget {
    /// A message without headers.
    #[must_use]
    pub fn new(broker: Broker, body: impl Into<Bytes>) -> PublishTarget {
        PublishTarget { broker, headers: Vec::new(), body: body.into() }
    }

    /// Checks what can be checked without a connection.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn validate(&self) -> Result<(), Flaw> {
        self.broker.validate()?;
        for (name, value) in &self.headers {
            check_header(name, value).map_err(|message| Flaw { part: "headers", message })?;
        }
        Ok(())
    }
}

impl Broker {
    /// Checks what can be checked without a connection.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn validate(&self) -> Result<(), Flaw> {
        let flaw = |part: &'static str| move |message: String| Flaw { part, message };
        match self {
            Broker::Nats { url, subject, .. } => {
                broker_url(url, &["nats", "tls"]).map_err(flaw("nats.url"))?;
                check_subject(subject).map_err(flaw("nats.subject"))
            }
            Broker::Amqp { url, exchange, routing_key } => {
                broker_url(url, &["amqp", "amqps"]).map_err(flaw("amqp.url"))?;
                check_short("the exchange", exchange).map_err(flaw("amqp.exchange"))?;
                check_short("the routing key", routing_key).map_err(flaw("amqp.routing_key"))?;
                if exchange.is_empty() && routing_key.is_empty() {
                    let message = "the default exchange needs a routing key: the queue's name";
                    return Err(flaw("amqp.routing_key")(message.to_owned()));
                }
                Ok(())
            }
            Broker::Kafka { brokers, topic, .. } => {
                check_brokers(brokers).map_err(flaw("kafka.brokers"))?;
                check_topic(topic).map_err(flaw("kafka.topic"))
            }
        }
    }

    /// Where messages go, without credentials.
    #[must_use]
    pub fn place(&self) -> String {
        match self {
            Broker::Nats { url, subject, .. } => {
                format!("the subject '{subject}' at {}", public_address(url))
            }
            Broker::Amqp { url, exchange, routing_key } => format!(
                "the exchange '{exchange}' with the routing key '{routing_key}' at {}",
                public_address(url)
            ),
            Broker::Kafka { brokers, topic, .. } => {
                format!("the topic '{topic}' at {}", brokers.join(","))
            }
        }
    }
}

/// Scheme, host and port of a URL: what can be shown of it.
#[must_use]
pub fn public_address(url: &str) -> String {
    let Ok(url) = Url::parse(url) else { return "(not a URL)".to_owned() };
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}", url.scheme(), url.host_str().unwrap_or_default())
}

/// The URL of a broker, which must have one of these schemes and a host.
pub(crate) fn broker_url(url: &str, schemes: &[&str]) -> Result<Url, String> {
    let parsed = Url::parse(url).map_err(|error| format!("the URL is not valid: {error}"))?;
    if !schemes.contains(&parsed.scheme()) {
        let schemes: Vec<String> = schemes.iter().map(|scheme| format!("{scheme}://")).collect();
        return Err(format!("the URL must start with {}", schemes.join(" or ")));
    }
    if parsed.host_str().is_none_or(str::is_empty) {
        return Err("the URL has no host".to_owned());
    }
    Ok(parsed)
}

fn check_subject(subject: &str) -> Result<(), String> {
    if subject.len() > SHORT_BYTES_MAX {
        return Err(format!("the subject is longer than {SHORT_BYTES_MAX} bytes"));
    }
    if subject.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("the subject contains spaces or control characters".to_owned());
    }
    if subject.split('.').any(str::is_empty) {
        return Err("the subject is empty, or has an empty part between dots".to_owned());
    }
    if subject.split('.').any(|token| token == "*" || token == ">") {
        return Err("a message goes to one subject, without wildcards".to_owned());
    }
    Ok(())
}

fn check_short(what: &str, text: &str) -> Result<(), String> {
    if text.len() > SHORT_BYTES_MAX {
        return Err(format!("{what} is longer than {SHORT_BYTES_MAX} bytes"));
    }
    if text.chars().any(char::is_control) {
        return Err(format!("{what} contains control characters"));
    }
    Ok(())
}

fn check_brokers(brokers: &[String]) -> Result<(), String> {
    if brokers.is_empty() || brokers.len() > BROKERS_MAX {
        return Err(format!("give from 1 to {BROKERS_MAX} brokers"));
    }
    for broker in brokers {
        let parts = broker.rsplit_once(':');
        let valid = parts.is_some_and(|(host, port)| {
            let plain = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
            !host.is_empty() && host.chars().all(plain) && port.parse::<u16>().is_ok()
        });
        if !valid || broker.len() > SHORT_BYTES_MAX {
            return Err("a broker is written host:port, such as localhost:9092".to_owned());
        }
    }
    Ok(())
}

fn check_topic(topic: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if topic.is_empty() || topic.len() > TOPIC_CHARS_MAX || !topic.chars().all(plain) {
        return Err(format!(
            "a topic has 1 to {TOPIC_CHARS_MAX} letters, digits, dots, dashes and underscores"
        ));
    }
    Ok(())
}

/// A header must be fit for all brokers: what one of them takes, the others do too.
fn check_header(name: &str, value: &str) -> Result<(), String> {
    if name.len() > SHORT_BYTES_MAX || HeaderName::from_bytes(name.as_bytes()).is_err() {
        return Err(format!("{name:?} cannot be the name of a header"));
    }
    if HeaderValue::from_str(value).is_err() {
        return Err(format!("the value of header '{name}' contains characters it cannot"));
    }
    Ok(())
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Broker({})", self.place())
    }
}

impl fmt::Debug for PublishTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("PublishTarget")
            .field("broker", &self.broker)
            .field("headers", &names)
            .field("body_bytes", &self.body.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nats(url: &str, subject: &str) -> Broker {
        Broker::Nats { url: url.into(), subject: subject.into(), jetstream: true }
    }

    fn amqp(url: &str, exchange: &str, routing_key: &str) -> Broker {
        Broker::Amqp { url: url.into(), exchange: exchange.into(), routing_key: routing_key.into() }
    }

    fn kafka(brokers: &[&str], topic: &str) -> Broker {
        Broker::Kafka {
            brokers: brokers.iter().map(|&broker| broker.to_owned()).collect(),
            topic: topic.into(),
            key: String::new(),
            tls: false,
            sasl: None,
        }
    }

    #[test]
    fn r22_what_cannot_be_sent_is_found_before_it_is_tried() {
        for good in [
            nats("nats://u:p@localhost:4222", "jobs.email"),
            nats("tls://broker", "a"),
            amqp("amqp://localhost", "", "queue"),
            amqp("amqps://u:p@localhost/v", "exchange", ""),
            kafka(&["localhost:9092", "[::1]:9092"], "a.topic_1-x"),
        ] {
            assert_eq!(good.validate(), Ok(()), "{good:?}");
        }
        let long = "a".repeat(256);
        for (bad, part) in [
            (nats("http://localhost", "a"), "nats.url"),
            (nats("nats://", "a"), "nats.url"),
            (nats("localhost:4222", "a"), "nats.url"),
            (nats("nats://h", ""), "nats.subject"),
            (nats("nats://h", "a..b"), "nats.subject"),
            (nats("nats://h", "a.*"), "nats.subject"),
            (nats("nats://h", ">"), "nats.subject"),
            (nats("nats://h", "a b"), "nats.subject"),
            (nats("nats://h", &long), "nats.subject"),
            (amqp("nats://h", "", "q"), "amqp.url"),
            (amqp("amqp://h", "", ""), "amqp.routing_key"),
            (amqp("amqp://h", &long, ""), "amqp.exchange"),
            (amqp("amqp://h", "", "a\n"), "amqp.routing_key"),
            (kafka(&[], "t"), "kafka.brokers"),
            (kafka(&["localhost"], "t"), "kafka.brokers"),
            (kafka(&["u:p@h:9092"], "t"), "kafka.brokers"),
            (kafka(&["h:9092"], "a/b"), "kafka.topic"),
            (kafka(&["h:9092"], ""), "kafka.topic"),
        ] {
            assert_eq!(bad.validate().map_err(|flaw| flaw.part), Err(part), "{bad:?}");
        }
    }

    #[test]
    fn r55_debug_texts_have_no_secrets() {
        let mut target = PublishTarget::new(nats("nats://u:s3cr3t@h:4222", "a"), "s3cr3t");
        target.headers.push(("x-token".into(), "s3cr3t".into()));
        let text = format!("{target:?} {}", target.broker.place());
        assert!(!text.contains("s3cr3t") && text.contains("nats://h:4222"), "{text}");
    }
}
