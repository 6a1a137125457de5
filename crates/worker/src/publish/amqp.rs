//! AMQP 0.9.1, as RabbitMQ speaks it: messages for an exchange.
//!
//! Messages are persistent and mandatory, and the channel is in confirm mode: the broker confirms
//! when every queue that gets the message has it, and sends a message back that no queue gets.

use std::sync::Arc;

use bellwether_trust::Trust;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::protocol::AMQPErrorKind;
use lapin::tcp::OwnedTLSConfig;
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use lapin::uri::AMQPUri;
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionBuilder, ConnectionProperties,
    Error, ErrorKind,
};
use serde_json::json;

use super::pool::Live;
use super::{Connections, Message, Refused, confirmed, in_time};
use crate::attempt::{broker_url, public_address};
use crate::finished::ReasonCode;

/// Survives a restart of the broker.
const PERSISTENT: u8 = 2;

/// A connection with a channel in confirm mode. A mistake about an exchange ends the channel for
/// all who use it, so each exchange has its own.
#[derive(Clone)]
pub(crate) struct Link {
    connection: Arc<Connection>,
    channel: Channel,
}

impl Live for Link {
    fn is_live(&self) -> bool {
        self.connection.status().connected() && self.channel.status().connected()
    }
}

/// Connects to the server at a URL with user and password in it. The connection is not made again
/// when it breaks.
///
/// # Errors
/// A sentence that says why not, without credentials.
pub async fn connect(url: &str, trust: &Trust) -> Result<Connection, String> {
    in_time(&public_address(url), open(url, trust)).await.map_err(|refused| refused.message)
}

async fn open(url: &str, trust: &Trust) -> Result<Connection, Refused> {
    let invalid = |text: String| Refused::unsent(ReasonCode::InvalidTarget, text).for_good();
    broker_url(url, &["amqp", "amqps"]).map_err(invalid)?;
    let uri: AMQPUri = url.parse().map_err(|error| invalid(format!("the URL: {error}")))?;
    let place = public_address(url);
    let properties = ConnectionProperties::default().with_connection_name("bellwether".into());
    let tls = OwnedTLSConfig { identity: None, cert_chain: trust.extra_pem() };
    let builder = ConnectionBuilder::new().map_err(|error| not_connected(&place, &error))?;
    let builder = builder.with_uri(uri).with_properties(properties).with_tls_config(tls);
    builder.connect().await.map_err(|error| not_connected(&place, &error))
}

fn not_connected(place: &str, error: &Error) -> Refused {
    let code = match error.kind() {
        ErrorKind::ProtocolError(_) | ErrorKind::AuthProviderError(_) => ReasonCode::BrokerRefused,
        ErrorKind::IOError(error) if is_tls(error) => ReasonCode::TlsError,
        _ => ReasonCode::ConnectError,
    };
    Refused::unsent(code, format!("no connection to {place}: {error}"))
}

fn is_tls(error: &std::io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>())
}

async fn link(url: &str, trust: &Trust) -> Result<Link, Refused> {
    let place = public_address(url);
    let connection = Arc::new(open(url, trust).await?);
    let opening = async {
        let channel = connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok(channel)
    };
    let channel = opening.await.map_err(|error: Error| not_connected(&place, &error))?;
    Ok(Link { connection, channel })
}

/// Publishes a message and waits for its confirmation.
pub(super) async fn publish(
    connections: &Connections,
    url: &str,
    exchange: &str,
    routing_key: &str,
    message: Message,
) -> Result<serde_json::Value, Refused> {
    let place = public_address(url);
    let name = format!("{url}\n{exchange}");
    let connecting = connections.amqp.get(&name, link(url, &connections.trust));
    let link = in_time(&place, connecting).await?;
    let properties = properties(&message);
    let publishing = async {
        let options = BasicPublishOptions { mandatory: true, immediate: false };
        let sent = link.channel.basic_publish(
            ShortString::from(exchange),
            ShortString::from(routing_key),
            options,
            &message.body,
            properties,
        );
        sent.await?.await
    };
    let publishing = async { publishing.await.map_err(|error| not_published(&place, &error)) };
    match confirmed(&place, publishing).await? {
        Confirmation::Ack(None) => Ok(json!({ "confirmed": true })),
        Confirmation::Ack(Some(back)) | Confirmation::Nack(Some(back)) => {
            let text = format!(
                "no queue takes what the exchange '{exchange}' gets with the routing key \
                 '{routing_key}' ({} {})",
                back.reply_code, back.reply_text
            );
            Err(Refused::sent(ReasonCode::Unroutable, text))
        }
        Confirmation::Nack(None) => {
            let text = format!("{place} could not store the message");
            Err(Refused::sent(ReasonCode::BrokerRefused, text))
        }
        Confirmation::NotRequested => {
            let text = "the channel is not in confirm mode";
            Err(Refused::sent(ReasonCode::Internal, text))
        }
    }
}

fn not_published(place: &str, error: &Error) -> Refused {
    let code = match error.kind() {
        // The broker has closed the channel and says why, such as an exchange that is not there.
        ErrorKind::ProtocolError(said) if matches!(said.kind(), AMQPErrorKind::Soft(_)) => {
            ReasonCode::BrokerRefused
        }
        _ => ReasonCode::Unconfirmed,
    };
    Refused::sent(code, format!("{place} has not confirmed the message: {error}"))
}

fn properties(message: &Message) -> BasicProperties {
    let mut table = FieldTable::default();
    let mut properties = BasicProperties::default()
        .with_delivery_mode(PERSISTENT)
        .with_message_id(ShortString::from(message.id.as_str()))
        .with_app_id("bellwether".into());
    for (name, value) in &message.headers {
        if name.eq_ignore_ascii_case("content-type") && value.len() <= u8::MAX.into() {
            properties = properties.with_content_type(ShortString::from(value.as_str()));
            continue;
        }
        let value = AMQPValue::LongString(LongString::from(value.as_str()));
        table.insert(ShortString::from(name.as_str()), value);
    }
    properties.with_headers(table)
}
