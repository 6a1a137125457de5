//! Creating jobs as fast as the server takes them.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::bail;
use bellwether_api::BatchAnswer;
use bellwether_core::time::Time;

/// Jobs in a batch.
const BATCH: u64 = 1_000;

/// A client that keeps its connections.
pub fn client() -> anyhow::Result<reqwest::Client> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    Ok(reqwest::Client::builder().tls_backend_preconfigured(tls).no_proxy().build()?)
}

/// The present.
pub fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(since.as_millis() as i64)
}

/// When the n-th of `count` jobs is due.
#[derive(Clone, Copy, Debug)]
pub enum Due {
    /// All at one instant.
    At(Time),
    /// Evenly spread from an instant over so many milliseconds.
    Spread(Time, u64),
}

impl Due {
    fn time(self, n: u64, count: u64) -> Time {
        match self {
            Due::At(time) => time,
            Due::Spread(from, over_ms) => {
                // A stride that is prime to most counts mixes the order of creation.
                let place = n.wrapping_mul(2_654_435_761) % count.max(1);
                from.plus_ms(place * over_ms / count.max(1))
            }
        }
    }
}

/// Creates `count` jobs that do nothing, in batches from `clients` connections. How long it took.
pub async fn create(url: &str, count: u64, clients: u64, due: Due) -> anyhow::Result<Duration> {
    create_of(url, "bellwether.noop", count, clients, due).await
}

/// The same for another job type.
pub async fn create_of(
    url: &str,
    job_type: &'static str,
    count: u64,
    clients: u64,
    due: Due,
) -> anyhow::Result<Duration> {
    create_at(&[url.to_owned()], job_type, count, clients, due).await
}

/// The same at several servers, each connection at one of them.
pub async fn create_at(
    urls: &[String],
    job_type: &'static str,
    count: u64,
    clients: u64,
    due: Due,
) -> anyhow::Result<Duration> {
    let http = client()?;
    let next = Arc::new(AtomicU64::new(0));
    let begun = Instant::now();
    let mut tasks = Vec::new();
    for url in urls.iter().cycle().take(usize::try_from(clients)?) {
        let (http, next, url) = (http.clone(), next.clone(), format!("{url}/v1/jobs:batch"));
        tasks.push(tokio::spawn(async move {
            loop {
                let from = next.fetch_add(BATCH, Ordering::Relaxed);
                if from >= count {
                    return anyhow::Ok(());
                }
                let to = (from + BATCH).min(count);
                send_batch(&http, &url, lines(job_type, from, to, count, due)).await?;
            }
        }));
    }
    for task in tasks {
        task.await??;
    }
    Ok(begun.elapsed())
}

fn lines(job_type: &str, from: u64, to: u64, count: u64, due: Due) -> String {
    let mut text = String::with_capacity(((to - from) * 120) as usize);
    for n in from..to {
        let _ = writeln!(
            text,
            r#"{{"job_type":"{job_type}","schedule_time":"{}","payload":{{"user_id":{n}}},"retries":3}}"#,
            due.time(n, count)
        );
    }
    text
}

async fn send_batch(http: &reqwest::Client, url: &str, mut body: String) -> anyhow::Result<()> {
    for _ in 0..100 {
        let request = http.post(url).header("content-type", "application/x-ndjson");
        let answer = request.body(body.clone()).send().await?;
        let status = answer.status();
        let text = answer.text().await?;
        // Jobs that may be there already would be too many.
        if status.as_u16() == 503 && !text.contains("outcome_unknown") {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        }
        if !status.is_success() {
            bail!("creating jobs failed: {text}");
        }
        if text.contains("\"failed\":0") {
            return Ok(());
        }
        body = to_send_again(&body, &serde_json::from_str(&text)?)?;
        eprintln!("{} jobs had no leader and are sent again", body.lines().count());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bail!("the server stays overloaded")
}

/// The jobs of a batch that nobody led at the time: nothing has happened to them. Any other refusal
/// is an error.
fn to_send_again(body: &str, answer: &BatchAnswer) -> anyhow::Result<String> {
    let mut again = String::new();
    for (line, result) in body.lines().zip(&answer.results) {
        match &result.error {
            None => {}
            Some(problem) if problem.code == "no_leader" => {
                let _ = writeln!(again, "{line}");
            }
            Some(problem) => bail!("a job was refused: {}: {}", problem.code, problem.detail),
        }
    }
    Ok(again)
}

/// Creates jobs one a request from `clients` connections for a time: requests a second.
pub async fn create_singly(url: &str, clients: u64, lasting: Duration) -> anyhow::Result<f64> {
    let http = client()?;
    let done = Arc::new(AtomicU64::new(0));
    let begun = Instant::now();
    let mut tasks = Vec::new();
    for _ in 0..clients {
        let (http, done, url) = (http.clone(), done.clone(), format!("{url}/v1/jobs"));
        tasks.push(tokio::spawn(async move {
            let at = now().plus_ms(86_400_000);
            while begun.elapsed() < lasting {
                let body = format!(
                    r#"{{"job_type":"bellwether.noop","schedule_time":"{at}","payload":{{"user_id":1}},"retries":3}}"#
                );
                let answer = http.post(&url).body(body).send().await?;
                if answer.status().as_u16() != 201 {
                    bail!("creating a job failed: {}", answer.text().await?);
                }
                answer.bytes().await?;
                done.fetch_add(1, Ordering::Relaxed);
            }
            anyhow::Ok(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    Ok(done.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64())
}
