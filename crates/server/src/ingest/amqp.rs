//! Jobs from a queue of an AMQP broker.

use bellwether_worker::{Trust, publish};
use bytes::Bytes;
use futures::StreamExt;
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicNackOptions, BasicQosOptions, BasicRejectOptions,
};
use lapin::types::FieldTable;
use lapin::{Connection, Consumer};
use tokio_util::sync::CancellationToken;

use super::intake::{Intake, Message, Verdict};
use super::{AT_ONCE, LATER, log_refused};

/// Reads until it is stopped.
///
/// # Errors
/// When the connection cannot be made or is broken, with why.
pub(super) async fn read(
    url: &str,
    queue: &str,
    trust: &Trust,
    intake: &Intake,
    stop: &CancellationToken,
) -> Result<(), String> {
    let Some(opened) = stop.run_until_cancelled(open(url, queue, trust)).await else {
        return Ok(());
    };
    let (connection, consumer) = opened?;
    tracing::info!("reading jobs from the queue {queue}");
    let mut chunks = consumer.ready_chunks(AT_ONCE);
    loop {
        let chunk = tokio::select! {
            biased;
            () = stop.cancelled() => {
                // Sends what is still to be sent; what was delivered and not taken goes back.
                return connection.close(200, "stopping".into()).await.map_err(|e| e.to_string());
            }
            chunk = chunks.next() => chunk.ok_or("the broker has ended the delivery")?,
        };
        let mut broken = None;
        let mut deliveries = Vec::with_capacity(chunk.len());
        for delivery in chunk {
            match delivery {
                Ok(delivery) => deliveries.push(delivery),
                Err(error) => broken = Some(error.to_string()),
            }
        }
        if take(intake, queue, deliveries).await.map_err(|error| error.to_string())? {
            // The broker would deliver it again at once.
            let _ = stop.run_until_cancelled(tokio::time::sleep(LATER)).await;
        }
        if let Some(error) = broken {
            return Err(error);
        }
    }
}

async fn open(url: &str, queue: &str, trust: &Trust) -> Result<(Connection, Consumer), String> {
    let connection = publish::amqp::connect(url, trust).await?;
    let opening = async {
        let channel = connection.create_channel().await?;
        let prefetch = u16::try_from(AT_ONCE).unwrap_or(u16::MAX);
        channel.basic_qos(prefetch, BasicQosOptions::default()).await?;
        let (options, arguments) = (BasicConsumeOptions::default(), FieldTable::default());
        channel.basic_consume(queue.into(), "".into(), options, arguments).await
    };
    let consumer = opening.await.map_err(|error| format!("the queue {queue}: {error}"))?;
    Ok((connection, consumer))
}

/// Takes messages, and acknowledges each only after its jobs are stored; whether some go back.
async fn take(
    intake: &Intake,
    queue: &str,
    mut deliveries: Vec<Delivery>,
) -> Result<bool, lapin::Error> {
    let read = deliveries.iter_mut().map(|delivery| Message {
        id: id(delivery),
        body: Bytes::from(std::mem::take(&mut delivery.data)),
    });
    let verdicts = intake.take(read.collect()).await;
    let mut later = false;
    for (delivery, verdict) in deliveries.iter().zip(verdicts) {
        match verdict {
            Verdict::Taken => delivery.acker.ack(BasicAckOptions::default()).await?,
            Verdict::Refused(problem) => {
                log_refused(queue, id(delivery).as_deref(), &problem);
                delivery.acker.reject(BasicRejectOptions { requeue: false }).await?
            }
            Verdict::Later => {
                later = true;
                let options = BasicNackOptions { requeue: true, multiple: false };
                delivery.acker.nack(options).await?
            }
        };
    }
    Ok(later)
}

/// What the sender calls the message. The broker itself has no name for it.
fn id(delivery: &Delivery) -> Option<String> {
    let id = delivery.properties.message_id().as_ref()?;
    Some(id.as_str().to_owned()).filter(|id| !id.is_empty())
}
