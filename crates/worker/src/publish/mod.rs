//! Hands a message to a broker, and succeeds only when the broker has confirmed it.
//!
//! An attempt publishes once: nothing here tries again, since the job's own retry policy does.
//! Every message says which run it is for; the idempotency key is the same for all attempts of a
//! run, so that a consumer, or a stream that knows message ids, can tell a repetition.
//!
//! Connections are kept by address and used by all attempts; one that is broken is made again by
//! the next attempt that needs it. [`nats::connect`] and [`amqp::connect`] are also for whoever
//! wants to read from a broker.

pub mod amqp;
mod kafka;
pub mod nats;
mod pool;

use std::sync::Arc;
use std::time::Duration;

use bellwether_trust::Trust;
use bytes::Bytes;
use tokio::time::{sleep, timeout};

use crate::attempt::{Attempt, Broker, PublishTarget};
use crate::control::Requests;
use crate::executor::{Ending, Shared, stopped};
use crate::finished::{Failure, Outcome, ReasonCode};
use crate::output::{LiveOutput, Stream};
use pool::Pool;

pub use crate::attempt::public_address;

/// How long connecting and logging in may take, waiting for others that do the same included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a broker has for its confirmation, if the job's timeout is not shorter.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(30);

/// The connections of an executor.
pub(crate) struct Connections {
    trust: Arc<Trust>,
    nats: Pool<async_nats::Client>,
    amqp: Pool<amqp::Link>,
    kafka: Pool<kafka::Link>,
}

impl Connections {
    pub(crate) fn new(trust: Arc<Trust>) -> Connections {
        Connections { trust, nats: Pool::default(), amqp: Pool::default(), kafka: Pool::default() }
    }
}

/// Settings for TLS. They are read elsewhere, since others wait on this thread.
async fn tls_config(trust: &Arc<Trust>) -> Result<rustls::ClientConfig, Refused> {
    let trust = Arc::clone(trust);
    let read = tokio::task::spawn_blocking(move || trust.config().map_err(|e| e.to_string())).await;
    read.unwrap_or_else(|error| Err(error.to_string()))
        .map_err(|error| Refused::unsent(ReasonCode::Internal, error))
}

/// A message as brokers get it.
struct Message {
    /// Names as they are sent, without duplicates.
    headers: Vec<(String, String)>,
    /// The same for all attempts of a run.
    id: String,
    body: Bytes,
}

/// Why a message was not published.
#[derive(Debug)]
pub(crate) struct Refused {
    code: ReasonCode,
    message: String,
    /// Whether the broker may have got the message.
    sent: bool,
    retryable: bool,
}

impl Refused {
    /// Nothing was sent.
    fn unsent(code: ReasonCode, message: impl Into<String>) -> Refused {
        Refused { code, message: message.into(), sent: false, retryable: true }
    }

    /// The message was sent and not confirmed.
    fn sent(code: ReasonCode, message: impl Into<String>) -> Refused {
        Refused { code, message: message.into(), sent: true, retryable: true }
    }

    /// Trying again would not help.
    fn for_good(self) -> Refused {
        Refused { retryable: false, ..self }
    }
}

/// Publishes the message of an attempt.
pub(crate) async fn run(
    shared: &Arc<Shared>,
    attempt: &Arc<Attempt>,
    target: &PublishTarget,
    mut requests: Requests,
    output: &LiveOutput,
) -> Ending {
    let limit = attempt.timeout.unwrap_or(shared.options.http_timeout);
    tokio::select! {
        biased;
        ending = exchange(&shared.publish, attempt, target, output) => ending,
        stop = requests.next() => Ending::new(stopped(stop.reason)),
        () = sleep(limit) => {
            let message = format!("the broker did not confirm within {limit:?}");
            Ending::new(Outcome::TimedOut(Failure::new(ReasonCode::Timeout, message)))
        }
    }
}

async fn exchange(
    connections: &Connections,
    attempt: &Attempt,
    target: &PublishTarget,
    output: &LiveOutput,
) -> Ending {
    if let Err(flaw) = target.validate() {
        return ending(Refused::unsent(ReasonCode::InvalidTarget, flaw.message).for_good());
    }
    let message = message(attempt, target);
    let published = match &target.broker {
        Broker::Nats { url, subject, jetstream } => {
            nats::publish(connections, url, subject, *jetstream, message).await
        }
        Broker::Amqp { url, exchange, routing_key } => {
            amqp::publish(connections, url, exchange, routing_key, message).await
        }
        Broker::Kafka { .. } => kafka::publish(connections, &target.broker, message).await,
    };
    match published {
        Ok(said) => {
            output.push(Stream::Body, said.to_string().as_bytes());
            Ending::new(Outcome::Succeeded)
        }
        Err(mut refused) => {
            refused.message = without_secrets(&refused.message, &target.broker);
            ending(refused)
        }
    }
}

fn ending(refused: Refused) -> Ending {
    let failure = Failure::new(refused.code, refused.message);
    Ending {
        started: refused.sent,
        retryable: refused.retryable,
        ..Ending::new(Outcome::Failed(failure))
    }
}

/// Puts the message together. What the attempt says about itself overrides the job's headers.
fn message(attempt: &Attempt, target: &PublishTarget) -> Message {
    let identity = attempt.identity();
    let ours = |name: &str| identity.iter().any(|(_, ours, _)| name.eq_ignore_ascii_case(ours));
    let theirs = target.headers.iter().filter(|(name, _)| !ours(name)).cloned();
    let mut headers: Vec<(String, String)> = theirs.collect();
    for (_, name, value) in &identity {
        let printable = value.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        headers.push((capitalized(name), printable));
    }
    Message { headers, id: attempt.idempotency_key.clone(), body: target.body.clone() }
}

/// `bellwether-run-id` as `Bellwether-Run-Id`: brokers tell small letters from capitals.
fn capitalized(name: &str) -> String {
    let parts = name.split('-').map(|part| {
        let (first, rest) = part.split_at(part.len().min(1));
        first.to_ascii_uppercase() + rest
    });
    parts.collect::<Vec<_>>().join("-")
}

/// What libraries say is not known to leave credentials out, so they are taken out.
fn without_secrets(text: &str, broker: &Broker) -> String {
    let mut text = text.to_owned();
    let mut hide = |secret: &str| {
        if !secret.is_empty() {
            text = text.replace(secret, "***");
        }
    };
    match broker {
        Broker::Nats { url, .. } | Broker::Amqp { url, .. } => {
            let Ok(url) = reqwest::Url::parse(url) else { return "(not a URL)".to_owned() };
            if let Some(password) = url.password() {
                hide(password);
                hide(&decoded(password));
            } else {
                // A user without a password is a token.
                hide(url.username());
                hide(&decoded(url.username()));
            }
        }
        Broker::Kafka { sasl, .. } => {
            if let Some(login) = sasl {
                hide(&login.password);
            }
        }
    }
    text
}

/// A part of a URL as it was meant.
fn decoded(part: &str) -> String {
    percent_encoding::percent_decode_str(part).decode_utf8_lossy().into_owned()
}

/// Waits for a connection, but not for long.
async fn in_time<T>(
    place: &str,
    connecting: impl Future<Output = Result<T, Refused>>,
) -> Result<T, Refused> {
    match timeout(CONNECT_TIMEOUT, connecting).await {
        Ok(connected) => connected,
        Err(_) => {
            let message = format!("connecting to {place} took longer than {CONNECT_TIMEOUT:?}");
            Err(Refused::unsent(ReasonCode::ConnectTimeout, message))
        }
    }
}

/// Waits for a confirmation, but not for ever.
async fn confirmed<T>(
    place: &str,
    waiting: impl Future<Output = Result<T, Refused>>,
) -> Result<T, Refused> {
    match timeout(CONFIRM_TIMEOUT, waiting).await {
        Ok(confirmed) => confirmed,
        Err(_) => {
            let message = format!("{place} did not confirm the message within {CONFIRM_TIMEOUT:?}");
            Err(Refused::sent(ReasonCode::Unconfirmed, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_written_as_in_the_manual() {
        assert_eq!(capitalized("bellwether-run-id"), "Bellwether-Run-Id");
        assert_eq!(capitalized("idempotency-key"), "Idempotency-Key");
    }

    #[test]
    fn r55_words_of_a_library_lose_their_secrets() {
        let nats =
            |url: &str| Broker::Nats { url: url.into(), subject: "a".into(), jetstream: true };
        for url in ["nats://ana:p%40ss@h", "nats://p%40ss@h"] {
            let said = without_secrets("login p@ss (p%40ss) refused", &nats(url));
            assert_eq!(said, "login *** (***) refused");
        }
    }
}
