//! Kafka: records for a topic, confirmed by all replicas that are in sync.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rskafka::BackoffConfig;
use rskafka::chrono::DateTime;
use rskafka::client::error::{Error, ProtocolError};
use rskafka::client::partition::{Compression, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder, Credentials, SaslConfig};
use rskafka::record::Record;
use serde_json::json;

use super::pool::Live;
use super::{Connections, Message, Refused, confirmed, in_time, tls_config};
use crate::attempt::{Broker, Login};
use crate::finished::ReasonCode;

/// After so long a request fails, so that the attempt does.
const DEADLINE: Duration = Duration::from_secs(5);
/// The most a broker may answer with.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A client of a cluster, which connects to its brokers by itself.
#[derive(Clone)]
pub(crate) struct Link {
    client: Arc<Client>,
    /// Records without a key go to one partition after the other.
    next: Arc<AtomicUsize>,
}

impl Live for Link {
    /// The client finds the brokers again by itself.
    fn is_live(&self) -> bool {
        true
    }
}

/// Publishes a record; where it is.
pub(super) async fn publish(
    connections: &Connections,
    broker: &Broker,
    message: Message,
) -> Result<serde_json::Value, Refused> {
    let Broker::Kafka { brokers, topic, key, tls, sasl } = broker else {
        return Err(Refused::unsent(ReasonCode::Internal, "this is not for Kafka"));
    };
    let place = brokers.join(",");
    let login = sasl.as_ref().map(|login| (&login.username, &login.password));
    let name = format!("{place}\n{tls}\n{login:?}");
    let connecting = connections.kafka.get(&name, link(connections, brokers, *tls, sasl.as_ref()));
    let link = in_time(&place, connecting).await?;
    let partition = in_time(&place, partition(&link, topic, key)).await?;
    let sending = async {
        let handling = UnknownTopicHandling::Error;
        let client = link.client.partition_client(topic.as_str(), partition, handling).await?;
        client.produce(vec![record(key, message)], Compression::NoCompression).await
    };
    let sending = async { sending.await.map_err(|error| not_published(&place, topic, &error)) };
    let offsets = confirmed(&place, sending).await?;
    Ok(json!({ "partition": partition, "offset": offsets.first() }))
}

async fn link(
    connections: &Connections,
    brokers: &[String],
    tls: bool,
    sasl: Option<&Login>,
) -> Result<Link, Refused> {
    let backoff = BackoffConfig { deadline: Some(DEADLINE), ..BackoffConfig::default() };
    let mut builder = ClientBuilder::new(brokers.to_vec())
        .client_id("bellwether")
        .max_message_size(ANSWER_BYTES_MAX)
        .backoff_config(backoff);
    if tls {
        builder = builder.tls_config(Arc::new(tls_config(&connections.trust).await?));
    }
    if let Some(login) = sasl {
        let credentials = Credentials::new(login.username.clone(), login.password.clone());
        builder = builder.sasl_config(SaslConfig::Plain(credentials));
    }
    let client = builder.build().await.map_err(|error| {
        let text = format!("no connection to {}: {error}", brokers.join(","));
        Refused::unsent(ReasonCode::ConnectError, text)
    })?;
    Ok(Link { client: Arc::new(client), next: Arc::default() })
}

/// The partition of a record: by its key, as other producers choose it, else one after the other.
async fn partition(link: &Link, topic: &str, key: &str) -> Result<i32, Refused> {
    let topics = link.client.list_topics().await.map_err(|error| {
        Refused::unsent(ReasonCode::ConnectError, format!("the topics cannot be read: {error}"))
    })?;
    let found = topics.into_iter().find(|found| found.name == topic);
    let partitions: Vec<i32> =
        found.map(|found| found.partitions.into_iter().collect()).unwrap_or_default();
    let number = match key {
        "" => link.next.fetch_add(1, Ordering::Relaxed),
        key => (murmur2(key.as_bytes()) & 0x7fff_ffff) as usize,
    };
    let chosen = number.checked_rem(partitions.len()).and_then(|at| partitions.get(at));
    chosen.copied().ok_or_else(|| {
        let text = format!("there is no topic '{topic}'");
        Refused::unsent(ReasonCode::Unroutable, text)
    })
}

fn record(key: &str, message: Message) -> Record {
    let headers: BTreeMap<String, Vec<u8>> =
        message.headers.into_iter().map(|(name, value)| (name, value.into_bytes())).collect();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    Record {
        key: (!key.is_empty()).then(|| key.as_bytes().to_vec()),
        value: Some(message.body.to_vec()),
        headers,
        timestamp: DateTime::from_timestamp_millis(now).unwrap_or_default(),
    }
}

fn not_published(place: &str, topic: &str, error: &Error) -> Refused {
    match error {
        Error::ServerError { protocol_error: ProtocolError::UnknownTopicOrPartition, .. } => {
            let text = format!("there is no topic '{topic}'");
            Refused::sent(ReasonCode::Unroutable, text)
        }
        Error::ServerError { protocol_error, .. } => {
            let text = format!("{place} refused the record: {protocol_error}");
            Refused::sent(ReasonCode::BrokerRefused, text)
        }
        _ => {
            let text = format!("{place} has not confirmed the record: {error}");
            Refused::sent(ReasonCode::Unconfirmed, text)
        }
    }
}

/// The hash by which Kafka's own producer chooses partitions: murmur2 with its seed.
fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    const SEED: u32 = 0x9747_b28c;
    let mut hash = SEED ^ u32::try_from(data.len()).unwrap_or(u32::MAX);
    let mut chunks = data.chunks_exact(4);
    for chunk in &mut chunks {
        let mut word = chunk.iter().rev().fold(0u32, |word, byte| word << 8 | u32::from(*byte));
        word = word.wrapping_mul(M);
        word ^= word >> 24;
        hash = hash.wrapping_mul(M) ^ word.wrapping_mul(M);
    }
    let rest = chunks.remainder();
    if !rest.is_empty() {
        hash ^= rest.iter().rev().fold(0u32, |word, byte| word << 8 | u32::from(*byte));
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> 15
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_go_where_other_producers_put_them() {
        // Values that Kafka's own tests use.
        for (key, hash) in [
            ("21", -973_932_308_i32),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
        ] {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
        }
    }
}
