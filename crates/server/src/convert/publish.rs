//! Messages: what a job with a `publish` target hands to a broker, and to which.

use bellwether_api::{
    AmqpTarget, BasicAuth, JobSpec, KafkaTarget, MASK, NatsTarget, Problem, PublishTarget,
};
use bellwether_core::record::{self, AmqpBroker, Broker, KafkaBroker, NatsBroker};
use bellwether_worker as worker;
use bytes::Bytes;
use serde_json::value::RawValue;

use super::limits::{URL_BYTES_MAX, USERNAME_CHARS_MAX};
use super::name::longer_than;
use super::problem::{invalid, path, sentence, too_long};
use super::request;
use super::secret::Pieces;
use super::spec;
use super::target::stored_json;
use super::unmask::{self, masked, moved};

/// The message of a job. Its body is the job's payload if it has none of its own.
pub(super) fn publish(
    publish: PublishTarget,
    payload: Option<Box<RawValue>>,
) -> Result<record::PublishTarget, Problem> {
    let broker = broker(publish.nats, publish.amqp, publish.kafka)?;
    let probe = broker.clone();
    let check = |name: &str, value: &str| {
        let mut message = worker::PublishTarget::new(checked(&probe), Bytes::new());
        message.headers.push((name.to_owned(), value.to_owned()));
        message.validate().map_err(|flaw| flaw.message)
    };
    let headers = request::headers("publish.headers", publish.headers, check)?;
    if publish.body.is_some() && payload.is_some() {
        let detail = "the message is `publish.body` or the job's `payload`; give one of them";
        return Err(invalid("conflicting_fields", "payload", detail));
    }
    let body_is_payload = payload.is_some();
    let (body, body_is_json) = match payload {
        Some(raw) => (Bytes::from(stored_json("payload", raw)?.into_string().into_bytes()), true),
        None => request::body("publish.body", publish.body)?,
    };
    Ok(record::PublishTarget { broker: Some(broker), headers, body, body_is_json, body_is_payload })
}

fn broker(
    nats: Option<NatsTarget>,
    amqp: Option<AmqpTarget>,
    kafka: Option<KafkaTarget>,
) -> Result<Broker, Problem> {
    let broker = match (nats, amqp, kafka) {
        (Some(nats), None, None) => Broker::Nats(NatsBroker {
            url: url("publish.nats.url", nats.url)?,
            subject: nats.subject,
            jetstream: nats.jetstream.unwrap_or(true),
        }),
        (None, Some(amqp), None) => Broker::Amqp(AmqpBroker {
            url: url("publish.amqp.url", amqp.url)?,
            exchange: amqp.exchange.unwrap_or_default(),
            routing_key: amqp.routing_key.unwrap_or_default(),
        }),
        (None, None, Some(kafka)) => Broker::Kafka(self::kafka(kafka)?),
        (None, None, None) => {
            let detail = "the message goes nowhere; give one of `nats`, `amqp` and `kafka`";
            return Err(invalid("missing_broker", "publish", detail));
        }
        _ => {
            let detail =
                "a message goes to one broker; give only one of `nats`, `amqp` and `kafka`";
            return Err(invalid("conflicting_brokers", "publish", detail));
        }
    };
    checked(&broker).validate().map_err(|flaw| {
        let code = if flaw.part.ends_with("url") { "invalid_url" } else { "invalid_name" };
        invalid(code, format!("publish.{}", flaw.part), sentence(&flaw.message))
    })?;
    Ok(broker)
}

fn url(field: &str, url: String) -> Result<String, Problem> {
    if url.len() > URL_BYTES_MAX {
        return Err(too_long(field, URL_BYTES_MAX, "bytes"));
    }
    if url.chars().any(|c| c.is_control() || c.is_whitespace()) {
        let detail = "the URL contains spaces or control characters; write a space as %20";
        return Err(invalid("invalid_url", field, detail));
    }
    if Pieces::of_url(&url).has_mask() {
        return Err(masked(field));
    }
    Ok(url)
}

fn kafka(kafka: KafkaTarget) -> Result<KafkaBroker, Problem> {
    let key = kafka.key.unwrap_or_default();
    if key.len() > URL_BYTES_MAX {
        return Err(too_long("publish.kafka.key", URL_BYTES_MAX, "bytes"));
    }
    let sasl = match kafka.sasl {
        None => None,
        Some(BasicAuth { username, password }) => {
            if password == MASK {
                return Err(masked("publish.kafka.sasl.password"));
            }
            if longer_than(&username, USERNAME_CHARS_MAX) {
                let field = "publish.kafka.sasl.username";
                return Err(too_long(field, USERNAME_CHARS_MAX, "characters"));
            }
            if password.len() > URL_BYTES_MAX {
                return Err(too_long("publish.kafka.sasl.password", URL_BYTES_MAX, "bytes"));
            }
            Some(record::BasicAuth { username, password })
        }
    };
    let (brokers, topic, tls) = (kafka.brokers, kafka.topic, kafka.tls.unwrap_or(false));
    Ok(KafkaBroker { brokers, topic, key, tls, sasl })
}

/// As the worker gets it, whose own check looks at it: what is accepted can be executed.
fn checked(broker: &Broker) -> worker::Broker {
    match broker.clone() {
        Broker::Nats(nats) => {
            worker::Broker::Nats { url: nats.url, subject: nats.subject, jetstream: nats.jetstream }
        }
        Broker::Amqp(amqp) => worker::Broker::Amqp {
            url: amqp.url,
            exchange: amqp.exchange,
            routing_key: amqp.routing_key,
        },
        Broker::Kafka(kafka) => worker::Broker::Kafka {
            brokers: kafka.brokers,
            topic: kafka.topic,
            key: kafka.key,
            tls: kafka.tls,
            sasl: None,
        },
    }
}

/// What a caller would have written, secrets masked.
pub(super) fn back(target: &record::PublishTarget, job: &mut JobSpec) {
    let mut publish =
        PublishTarget { headers: spec::headers(&target.headers), ..PublishTarget::default() };
    match &target.broker {
        Some(Broker::Nats(nats)) => {
            publish.nats = Some(NatsTarget {
                url: Pieces::of_url(&nats.url).masked(),
                subject: nats.subject.clone(),
                jetstream: (!nats.jetstream).then_some(false),
            });
        }
        Some(Broker::Amqp(amqp)) => {
            publish.amqp = Some(AmqpTarget {
                url: Pieces::of_url(&amqp.url).masked(),
                exchange: spec::text(&amqp.exchange),
                routing_key: spec::text(&amqp.routing_key),
            });
        }
        Some(Broker::Kafka(kafka)) => {
            publish.kafka = Some(KafkaTarget {
                brokers: kafka.brokers.clone(),
                topic: kafka.topic.clone(),
                key: spec::text(&kafka.key),
                tls: kafka.tls.then_some(true),
                sasl: kafka.sasl.as_ref().map(|sasl| BasicAuth {
                    username: sasl.username.clone(),
                    password: if sasl.password.is_empty() { "" } else { MASK }.to_owned(),
                }),
            });
        }
        None => {}
    }
    if target.body_is_payload {
        job.payload = spec::raw(&target.body);
    } else {
        publish.body = spec::body(&target.body, target.body_is_json);
    }
    job.publish = Some(publish);
}

/// For an edit: stored secrets where the new message has the mask. One that goes to another server
/// than before must have its secrets given anew.
pub(super) fn unmask(
    new: &mut PublishTarget,
    old: Option<&record::PublishTarget>,
) -> Result<(), Problem> {
    let stored = old.and_then(|old| old.broker.as_ref());
    let same_server = stored.is_some_and(|stored| server_of(stored) == server(new));
    let refused = |field: String| match old {
        Some(_) if !same_server => moved(field),
        _ => masked(field),
    };
    let stored = stored.filter(|_| same_server);
    let urls = [
        new.nats.as_mut().map(|nats| ("publish.nats.url", &mut nats.url)),
        new.amqp.as_mut().map(|amqp| ("publish.amqp.url", &mut amqp.url)),
    ];
    for (field, url) in urls.into_iter().flatten() {
        let old = match stored {
            Some(Broker::Nats(NatsBroker { url, .. }) | Broker::Amqp(AmqpBroker { url, .. })) => {
                Some(url)
            }
            _ => None,
        };
        let pieces = Pieces::of_url(url);
        if pieces.has_mask() {
            let unmasked = old.and_then(|old| pieces.unmasked(&Pieces::of_url(old)));
            *url = unmasked.ok_or_else(|| refused(field.to_owned()))?;
        }
    }
    if let Some(BasicAuth { password, .. }) =
        new.kafka.as_mut().and_then(|kafka| kafka.sasl.as_mut())
        && password == MASK
    {
        let old = match stored {
            Some(Broker::Kafka(kafka)) => kafka.sasl.as_ref(),
            _ => None,
        };
        let old = old.map(|sasl| sasl.password.clone()).filter(|old| !old.is_empty());
        *password = old.ok_or_else(|| refused("publish.kafka.sasl.password".to_owned()))?;
    }
    let stored = old.filter(|_| same_server).map(|old| old.headers.as_slice()).unwrap_or_default();
    unmask::headers(&mut new.headers, stored, |name| refused(path("publish.headers", name)))
}

/// Where a message goes, so far as it matters for who gets to see its secrets.
fn server(target: &PublishTarget) -> Option<String> {
    match (&target.nats, &target.amqp, &target.kafka) {
        (Some(nats), None, None) => Some(address(&nats.url)),
        (None, Some(amqp), None) => Some(address(&amqp.url)),
        (None, None, Some(kafka)) => {
            Some(format!("kafka {:?} {}", kafka.brokers, kafka.tls.unwrap_or(false)))
        }
        _ => None,
    }
}

fn server_of(broker: &Broker) -> Option<String> {
    match broker {
        Broker::Nats(nats) => Some(address(&nats.url)),
        Broker::Amqp(amqp) => Some(address(&amqp.url)),
        Broker::Kafka(kafka) => Some(format!("kafka {:?} {}", kafka.brokers, kafka.tls)),
    }
}

/// Scheme, host and port of a URL.
fn address(url: &str) -> String {
    worker::publish::public_address(url)
}
