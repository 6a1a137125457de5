//! NATS: messages for a subject.
//!
//! With JetStream a stream stores the message and says so; it also leaves out a message whose id
//! it has seen within its window. Without, the server has taken the message once it has answered
//! what was sent after it; who listens gets it, and if nobody does it is gone.

use std::sync::Arc;

use async_nats::client::Request;
use async_nats::connection::State;
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::{
    Client, ConnectError, ConnectErrorKind, ConnectOptions, HeaderMap, HeaderName, HeaderValue,
    PublishError, RequestErrorKind,
};
use bellwether_trust::Trust;
use serde_json::json;

use super::pool::Live;
use super::{
    CONFIRM_TIMEOUT, CONNECT_TIMEOUT, Connections, Message, Refused, confirmed, decoded, in_time,
    tls_config,
};
use crate::attempt::{broker_url, public_address};
use crate::finished::ReasonCode;

impl Live for Client {
    fn is_live(&self) -> bool {
        self.connection_state() == State::Connected
    }
}

/// Connects to the server at a URL with user and password, or a token, in it. The connection is
/// not made again when it breaks.
///
/// # Errors
/// A sentence that says why not, without credentials.
pub async fn connect(url: &str, trust: &Arc<Trust>) -> Result<Client, String> {
    in_time(&public_address(url), open(url, trust)).await.map_err(|refused| refused.message)
}

async fn open(url: &str, trust: &Arc<Trust>) -> Result<Client, Refused> {
    let place = public_address(url);
    let parsed = broker_url(url, &["nats", "tls"])
        .map_err(|error| Refused::unsent(ReasonCode::InvalidTarget, error).for_good())?;
    let secure = parsed.scheme() == "tls";
    let mut options = ConnectOptions::new()
        .name("bellwether")
        .connection_timeout(CONNECT_TIMEOUT)
        .request_timeout(Some(CONFIRM_TIMEOUT))
        .max_reconnects(1)
        .require_tls(secure);
    options = match (parsed.username(), parsed.password()) {
        ("", None) => options,
        (token, None) => options.token(decoded(token)),
        (user, Some(password)) => options.user_and_password(decoded(user), decoded(password)),
    };
    // A server may ask for TLS although the URL does not.
    options = options.tls_client_config(tls_config(trust).await?);
    options.connect(place.as_str()).await.map_err(|error| not_connected(&place, &error))
}

fn not_connected(place: &str, error: &ConnectError) -> Refused {
    let code = match error.kind() {
        ConnectErrorKind::Dns => ReasonCode::DnsError,
        ConnectErrorKind::TimedOut => ReasonCode::ConnectTimeout,
        ConnectErrorKind::Tls => ReasonCode::TlsError,
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
            ReasonCode::BrokerRefused
        }
        _ => ReasonCode::ConnectError,
    };
    Refused::unsent(code, format!("no connection to {place}: {error}"))
}

/// Publishes a message; what the server said about it.
pub(super) async fn publish(
    connections: &Connections,
    url: &str,
    subject: &str,
    jetstream: bool,
    message: Message,
) -> Result<serde_json::Value, Refused> {
    let place = public_address(url);
    let connecting = connections.nats.get(url, open(url, &connections.trust));
    let client = in_time(&place, connecting).await?;
    let mut headers = HeaderMap::new();
    for (name, value) in &message.headers {
        let header = (name.parse::<HeaderName>(), value.parse::<HeaderValue>());
        let (Ok(name), Ok(value)) = header else {
            let text = format!("the header {name} cannot be sent");
            return Err(Refused::unsent(ReasonCode::InvalidTarget, text).for_good());
        };
        headers.insert(name, value);
    }
    if jetstream {
        headers.insert(async_nats::header::NATS_MESSAGE_ID, message.id.as_str());
        confirmed(&place, to_stream(client, &place, subject, headers, message)).await
    } else {
        confirmed(&place, to_listeners(client, &place, subject, headers, message)).await
    }
}

async fn to_stream(
    client: Client,
    place: &str,
    subject: &str,
    headers: HeaderMap,
    message: Message,
) -> Result<serde_json::Value, Refused> {
    let mut context = async_nats::jetstream::new(client);
    context.set_timeout(CONFIRM_TIMEOUT);
    let publishing = async {
        context.publish_with_headers(subject.to_owned(), headers, message.body).await?.await
    };
    let ack = publishing.await.map_err(|error| match error.kind() {
        PublishErrorKind::StreamNotFound => {
            let text = format!("no stream at {place} takes the subject '{subject}'");
            Refused::sent(ReasonCode::Unroutable, text)
        }
        PublishErrorKind::MaxPayloadExceeded => {
            let text = format!("the message is larger than {place} takes: {error}");
            Refused::unsent(ReasonCode::BrokerRefused, text).for_good()
        }
        PublishErrorKind::TimedOut | PublishErrorKind::BrokenPipe => {
            let text = format!("no stream at {place} has confirmed the message: {error}");
            Refused::sent(ReasonCode::Unconfirmed, text)
        }
        _ => {
            let text = format!("{place} did not take the message: {error}");
            Refused::sent(ReasonCode::BrokerRefused, text)
        }
    })?;
    Ok(json!({ "stream": ack.stream, "sequence": ack.sequence, "duplicate": ack.duplicate }))
}

async fn to_listeners(
    client: Client,
    place: &str,
    subject: &str,
    headers: HeaderMap,
    message: Message,
) -> Result<serde_json::Value, Refused> {
    let publishing = client.publish_with_headers(subject.to_owned(), headers, message.body);
    publishing.await.map_err(|error: PublishError| {
        let text = format!("{place} did not take the message: {error}");
        Refused::unsent(ReasonCode::BrokerRefused, text)
    })?;
    // Messages of a connection are taken in order, so an answer to this one, for which there is
    // nobody, means that the server has the one before.
    match client.send_request(client.new_inbox(), Request::new()).await {
        Ok(_) => Ok(json!({ "received": true })),
        Err(error) if error.kind() == RequestErrorKind::NoResponders => {
            Ok(json!({ "received": true }))
        }
        Err(error) => {
            let text = format!("{place} has not answered what followed the message: {error}");
            Err(Refused::sent(ReasonCode::Unconfirmed, text))
        }
    }
}
