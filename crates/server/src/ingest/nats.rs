//! Jobs from a stream of NATS, through a durable consumer.

use std::sync::Arc;
use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer, pull};
use async_nats::jetstream::{self, AckKind};
use bellwether_worker::{Trust, publish};
use futures::StreamExt;
use tokio_util::sync::CancellationToken;

use super::intake::{Intake, Message, Verdict};
use super::{AT_ONCE, LATER, log_refused};

/// A message that was not acknowledged for so long is delivered again.
const ACK_WAIT: Duration = Duration::from_secs(30);
/// How long a request for messages stays open.
const EXPIRES: Duration = Duration::from_secs(30);
/// How often the server says that there is nothing; if it does not, the connection is broken.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// Which stream, and how it is read.
pub(super) struct Reading<'a> {
    pub(super) url: &'a str,
    pub(super) stream: &'a str,
    pub(super) consumer: &'a str,
    pub(super) subject: Option<&'a str>,
}

/// Reads until it is stopped.
///
/// # Errors
/// When the connection cannot be made or is broken, with why.
pub(super) async fn read(
    reading: &Reading<'_>,
    trust: &Arc<Trust>,
    intake: &Intake,
    stop: &CancellationToken,
) -> Result<(), String> {
    let Some(opened) = stop.run_until_cancelled(open(reading, trust)).await else {
        return Ok(());
    };
    let (client, consumer) = opened?;
    let messages = consumer.stream().max_messages_per_batch(AT_ONCE).expires(EXPIRES);
    let messages = messages.heartbeat(HEARTBEAT).messages();
    let messages = messages.await.map_err(|error| error.to_string())?;
    tracing::info!(consumer = reading.consumer, "reading jobs from {}", reading.stream);
    let mut chunks = messages.ready_chunks(AT_ONCE);
    loop {
        let chunk = tokio::select! {
            biased;
            () = stop.cancelled() => return flushed(&client).await,
            chunk = chunks.next() => chunk.ok_or("the stream has ended")?,
        };
        let mut broken = None;
        let mut messages = Vec::with_capacity(chunk.len());
        for message in chunk {
            match message {
                Ok(message) => messages.push(message),
                Err(error) => broken = Some(error.to_string()),
            }
        }
        take(intake, reading, &messages).await?;
        if let Some(error) = broken {
            return Err(error);
        }
    }
}

async fn flushed(client: &Client) -> Result<(), String> {
    client.flush().await.map_err(|error| error.to_string())
}

async fn open(reading: &Reading<'_>, trust: &Arc<Trust>) -> Result<(Client, PullConsumer), String> {
    let client = publish::nats::connect(reading.url, trust).await?;
    let context = jetstream::new(client.clone());
    let stream = context.get_stream(reading.stream).await;
    let stream = stream.map_err(|error| format!("the stream {}: {error}", reading.stream))?;
    let config = pull::Config {
        durable_name: Some(reading.consumer.to_owned()),
        ack_policy: AckPolicy::Explicit,
        ack_wait: ACK_WAIT,
        filter_subject: reading.subject.unwrap_or_default().to_owned(),
        ..pull::Config::default()
    };
    let consumer = stream.get_or_create_consumer(reading.consumer, config).await;
    let consumer =
        consumer.map_err(|error| format!("the consumer {}: {error}", reading.consumer))?;
    if consumer.cached_info().config.ack_policy != AckPolicy::Explicit {
        let name = reading.consumer;
        return Err(format!("the consumer {name} must want each message acknowledged (explicit)"));
    }
    Ok((client, consumer))
}

/// Takes messages, and acknowledges each only after its jobs are stored.
async fn take(
    intake: &Intake,
    reading: &Reading<'_>,
    messages: &[jetstream::Message],
) -> Result<(), String> {
    let read =
        messages.iter().map(|message| Message { id: id(message), body: message.payload.clone() });
    let verdicts = intake.take(read.collect()).await;
    for (message, verdict) in messages.iter().zip(verdicts) {
        let kind = match verdict {
            Verdict::Taken => AckKind::Ack,
            Verdict::Refused(problem) => {
                log_refused(reading.stream, id(message).as_deref(), &problem);
                AckKind::Term
            }
            Verdict::Later => AckKind::Nak(Some(LATER)),
        };
        message.ack_with(kind).await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// What the sender calls the message, else its place in the stream. The instant it was stored at
/// tells it from one of a stream of the same name that was made anew.
fn id(message: &jetstream::Message) -> Option<String> {
    let given = message.headers.as_ref().and_then(|headers| {
        headers.get(async_nats::header::NATS_MESSAGE_ID).map(|id| id.as_str().to_owned())
    });
    if given.is_some() {
        return given;
    }
    let info = message.info().ok()?;
    let stored = info.published.unix_timestamp_nanos();
    Some(format!("{}:{}@{stored}", info.stream, info.stream_sequence))
}
