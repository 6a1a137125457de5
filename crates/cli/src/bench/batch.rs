//! A batch of many items: how long until it is accepted, how long until all of it is over, and
//! whether the server's memory depends on how many items there are.
//!
//! The items are sent as NDJSON over HTTP and made while they are sent; handlers that do nothing run
//! them in a worker process. Each batch has a server of its own, because the most memory a process
//! ever had does not go down again.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytes::Bytes;
use futures::stream;
use serde_json::Value;

use super::BenchArgs;
use super::child::Server;
use super::figures::Figures;
use super::load;
use super::puppet::JOB_TYPE;
use super::remote::{Puppet, connected};

/// Items that are sent at once.
const PIECE: u64 = 1_000;
/// How long a batch may take until all of it is over, per item and besides.
const ITEM_MAX: Duration = Duration::from_millis(2);
const BATCH_MAX: Duration = Duration::from_secs(60);

/// What was seen of a batch.
struct Seen {
    /// From the first byte sent to the answer.
    accepted: Duration,
    /// From the first byte sent until all was over.
    over: Duration,
    /// The most memory the server ever had, in MB.
    peak: f64,
}

/// Measures a large batch, and a small one to compare it with.
pub async fn measure(figures: &mut Figures, args: &BenchArgs, data: &Path) -> anyhow::Result<()> {
    let few = one(args.few_items, &data.with_file_name("batch-few")).await?;
    let what = format!("a batch of {} items: most memory of the server", args.few_items);
    figures.add("batch_memory_few", what, few.peak, "MB", None);
    let many = one(args.items, data).await?;
    let named = |what: &str| format!("a batch of {} items: {what}", args.items);
    let (accepted, over) = (many.accepted.as_secs_f64(), many.over.as_secs_f64());
    figures.add("batch_accept", named("accepted after"), accepted, "s", None);
    figures.add("batch_finish", named("all over after"), over, "s", Some("< 180"));
    figures.add("batch_rate", named("items"), args.items as f64 / over, "/s", None);
    figures.add("batch_memory", named("most memory of the server"), many.peak, "MB", None);
    let ratio = many.peak / few.peak;
    let what = format!("the same, {} against {} items", args.items, args.few_items);
    figures.add("batch_memory_ratio", what, ratio, "×", None);
    Ok(())
}

/// Sends a batch to a server of its own and waits until all of it is over.
async fn one(items: u64, data: &Path) -> anyhow::Result<Seen> {
    let server = Server::start(data).await?;
    let worker = Puppet::start(&server, "batch", 8_000, 1)?;
    connected(&server, 1).await?;
    let begun = Instant::now();
    let id = send(&server.url, items).await?;
    let accepted = begun.elapsed();
    until_over(&server.url, &id, items).await?;
    let over = begun.elapsed();
    worker.end()?;
    let peak = server.memory_peak()? as f64 / 1e6;
    server.kill()?;
    Ok(Seen { accepted, over, peak })
}

/// Sends a batch, and gives its id.
async fn send(url: &str, items: u64) -> anyhow::Result<String> {
    let head = format!("{{\"template\":{{\"job_type\":\"{JOB_TYPE}\",\"retries\":3}}}}\n");
    let pieces = (0..items.div_ceil(PIECE)).map(move |piece| {
        let from = piece * PIECE;
        lines(from, (from + PIECE).min(items))
    });
    let body = std::iter::once(Bytes::from(head)).chain(pieces).map(Ok::<_, std::io::Error>);
    let request = load::client()?
        .post(format!("{url}/v1/batches"))
        .header("content-type", "application/x-ndjson")
        .body(reqwest::Body::wrap_stream(stream::iter(body)));
    let answer = request.send().await?;
    let (status, text) = (answer.status(), answer.text().await?);
    if status.as_u16() != 201 {
        bail!("creating a batch failed with {status}: {text}");
    }
    let batch: Value = serde_json::from_str(&text)?;
    Ok(batch["id"].as_str().context("a batch without id")?.to_owned())
}

fn lines(from: u64, to: u64) -> Bytes {
    let mut text = String::with_capacity(((to - from) * 24) as usize);
    for n in from..to {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{{\"user_id\":{n}}}");
    }
    Bytes::from(text)
}

/// Waits until all items have succeeded.
async fn until_over(url: &str, id: &str, items: u64) -> anyhow::Result<()> {
    let http = load::client()?;
    let begun = Instant::now();
    let most = BATCH_MAX + ITEM_MAX * u32::try_from(items).unwrap_or(u32::MAX);
    loop {
        let answer = http.get(format!("{url}/v1/batches/{id}")).send().await?;
        let batch: Value = serde_json::from_str(&answer.text().await?)?;
        if batch["status"] == "completed" {
            let succeeded = batch["succeeded"].as_u64();
            anyhow::ensure!(succeeded == Some(items), "not all items succeeded: {batch}");
            return Ok(());
        }
        anyhow::ensure!(begun.elapsed() < most, "the batch is not over after {most:?}: {batch}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
