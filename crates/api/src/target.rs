//! What jobs do.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Span;

/// A request to make.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpTarget {
    /// Where to.
    #[schema(example = "https://example.com/hook", max_length = 8192)]
    pub url: String,
    /// The method; POST if there is a body, else GET.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "POST", max_length = 32)]
    pub method: Option<String>,
    /// Headers. Values of those that carry secrets are masked in answers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The body: a text is sent as it is, any other JSON as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub body: Option<Box<serde_json::value::RawValue>>,
    /// User and password, or a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<HttpAuth>,
    /// Whether to follow redirects; they are not followed if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follow_redirects: Option<bool>,
    /// How long connecting may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connect_timeout: Option<Span>,
}

/// How to authenticate. Exactly one field.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpAuth {
    /// User and password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub basic: Option<BasicAuth>,
    /// A bearer token. Masked in answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 8192)]
    pub bearer: Option<String>,
}

/// A message for a broker. Exactly one of `nats`, `amqp` and `kafka`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishTarget {
    /// A subject of NATS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nats: Option<NatsTarget>,
    /// An exchange of RabbitMQ, or of another broker that speaks AMQP 0.9.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amqp: Option<AmqpTarget>,
    /// A topic of Kafka.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kafka: Option<KafkaTarget>,
    /// Headers. Values of those that carry secrets are masked in answers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The body: a text is sent as it is, any other JSON as JSON. The job's `payload` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub body: Option<Box<serde_json::value::RawValue>>,
}

/// A subject of NATS.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NatsTarget {
    /// The server: `nats://` or `tls://`. User and password, or a token, are masked in answers.
    #[schema(example = "nats://broker.example.com:4222", max_length = 8192)]
    pub url: String,
    /// The subject, without wildcards.
    #[schema(example = "jobs.email", max_length = 255)]
    pub subject: String,
    /// Whether a stream must take and confirm the message; true if absent. Without, the message
    /// goes to whoever listens at the moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jetstream: Option<bool>,
}

/// An exchange of an AMQP broker.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AmqpTarget {
    /// The server and virtual host: `amqp://` or `amqps://`. User and password are masked in
    /// answers.
    #[schema(example = "amqps://broker.example.com/tasks", max_length = 8192)]
    pub url: String,
    /// The exchange; the default one if absent, where the routing key is the queue's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 255)]
    pub exchange: Option<String>,
    /// The routing key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(example = "email", max_length = 255)]
    pub routing_key: Option<String>,
}

/// A topic of Kafka.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KafkaTarget {
    /// Brokers to ask for the others, as `host:port`.
    #[schema(example = json!(["broker.example.com:9092"]), min_items = 1, max_items = 32)]
    pub brokers: Vec<String>,
    /// The topic.
    #[schema(example = "emails", max_length = 249)]
    pub topic: String,
    /// The record's key: records with the same key go to the same partition. Any partition if
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 8192)]
    pub key: Option<String>,
    /// Whether to speak TLS; false if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<bool>,
    /// User and password for SASL PLAIN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sasl: Option<BasicAuth>,
}

/// User and password.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BasicAuth {
    /// The user.
    #[schema(max_length = 1024)]
    pub username: String,
    /// The password. Masked in answers.
    #[schema(max_length = 8192)]
    pub password: String,
}
