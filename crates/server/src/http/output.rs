//! What runs print, stored or live.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bellwether_api::{Problem, Role};
use bellwether_core::id::RunId;
use bellwether_core::read;
use bellwether_core::record::{OutputChunk, Run};
use bellwether_core::run as life;
use bellwether_worker::{Event, Stream};
use bytes::Bytes;
use futures::StreamExt;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use utoipa::IntoParams;

use super::answer::{Answer, blocking};
use super::extract::Params;
use super::{output_relay, runs};
use crate::access::Caller;
use crate::live::Relayed;
use crate::node::Node;

/// Chunks read from the store at once.
const CHUNKS: usize = 256;
/// How often a run that has not started yet is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Which output.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct OutputParams {
    /// Of which attempt; the last one if absent.
    #[param(minimum = 1, maximum = 1_000_000)]
    attempt: Option<u32>,
    /// Only `stdout` or `stderr`.
    #[param(pattern = "^(stdout|stderr)$", example = "stdout")]
    stream: Option<String>,
    /// Whether to go on as more is printed, until the run has ended.
    follow: Option<bool>,
}

/// What a run printed, whichever node runs it. With `follow=true` the answer goes on until the run has
/// ended.
#[utoipa::path(get, path = "/v1/runs/{run}/output", tag = "runs", operation_id = "getOutput",
    params(("run" = String, Path, description = "Id of the run"), OutputParams),
    responses(
        (status = 200, description = "The bytes as they were printed; a line in brackets stands for what was not kept",
            body = String, content_type = "text/plain"),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn output(
    State(node): State<Arc<Node>>,
    caller: Caller,
    Relayed(relayed): Relayed,
    Path(name): Path<String>,
    Params(params): Params<OutputParams>,
) -> Answer<Response> {
    caller.need(Role::Viewer)?;
    let only = match params.stream.as_deref() {
        None => None,
        Some("stdout") => Some(1),
        Some("stderr") => Some(2),
        Some(_) => {
            let detail = "stream is stdout or stderr";
            return Err(Problem::new(400, "invalid_parameter", detail).at("stream").into());
        }
    };
    if params.attempt.is_some_and(|attempt| attempt == 0 || attempt > 1_000_000) {
        let detail = "attempts are counted from 1 to 1000000";
        return Err(Problem::new(400, "invalid_parameter", detail).at("attempt").into());
    }
    let found = runs::find(&node, &caller, &name)?;
    let (sender, receiver) = mpsc::channel::<Bytes>(16);
    let caller = (!relayed).then_some(caller);
    let wanted = Wanted { run: found.id, attempt: params.attempt, only, caller };
    let follow = params.follow.unwrap_or(false);
    tokio::spawn(async move {
        // An error means that the reader has gone away, or that the store has failed: stop.
        let _ = send(node, wanted, follow, sender).await;
    });
    let body = Body::from_stream(ReceiverStream::new(receiver).map(Ok::<_, std::io::Error>));
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    Ok(([(header::CONTENT_TYPE, kind)], body).into_response())
}

/// What is asked for.
pub(super) struct Wanted {
    /// Of which run.
    pub run: RunId,
    attempt: Option<u32>,
    /// Only of this stream.
    pub only: Option<u32>,
    /// Who asks, if other nodes may be asked for it.
    pub caller: Option<Caller>,
}

/// The reader has gone away, or there is nothing to read from.
pub(super) struct Gone;

async fn send(
    node: Arc<Node>,
    wanted: Wanted,
    follow: bool,
    sender: mpsc::Sender<Bytes>,
) -> Result<(), Gone> {
    if follow {
        return follow_run(&node, wanted, &sender).await;
    }
    let live = node.worker.as_ref().and_then(|worker| worker.running().get(wanted.run));
    let live = live.filter(|live| wanted.attempt.is_none_or(|attempt| attempt == live.attempt));
    let Some(live) = live else {
        let stored = read::run(&*node.view(), wanted.run).map_err(|_| Gone)?.ok_or(Gone)?;
        let attempt = wanted.attempt.unwrap_or(stored.run.attempt);
        let mut printed = Elsewhere::of(attempt);
        if output_relay::copy(&node, &wanted, &stored.run, false, &mut printed, &sender).await? {
            return Ok(());
        }
        return send_stored(&node, &wanted, &stored.run, &mut printed, &sender).await;
    };
    let captured = live.output.captured();
    for chunk in &captured.head {
        send_live(&wanted, Event::Output(chunk.clone()), &sender).await?;
    }
    if captured.dropped_bytes > 0 {
        send_gap(captured.dropped_bytes, &sender).await?;
    }
    for chunk in &captured.tail {
        send_live(&wanted, Event::Output(chunk.clone()), &sender).await?;
    }
    Ok(())
}

/// Sends what is printed until the run has ended: of one attempt if one was asked for, else of
/// the one under way and all that follow.
async fn follow_run(
    node: &Arc<Node>,
    wanted: Wanted,
    sender: &mpsc::Sender<Bytes>,
) -> Result<(), Gone> {
    let mut sent = 0;
    // How much of the attempt that is under way elsewhere has been sent.
    let mut elsewhere = Elsewhere::default();
    loop {
        if sender.is_closed() {
            return Err(Gone);
        }
        let wants = |attempt: u32| match wanted.attempt {
            Some(only) => attempt == only && sent < only,
            None => attempt > sent,
        };
        let live = node.worker.as_ref().and_then(|worker| worker.running().get(wanted.run));
        if let Some(live) = live.filter(|live| wants(live.attempt)) {
            let mut follower = live.output.follow();
            loop {
                tokio::select! {
                    event = follower.next() => match event {
                        Some(event) => send_live(&wanted, event, sender).await?,
                        None => break,
                    },
                    () = sender.closed() => return Err(Gone),
                }
            }
            sent = live.attempt;
            continue;
        }
        let stored = read::run(&*node.view(), wanted.run).map_err(|_| Gone)?.ok_or(Gone)?.run;
        let ended = life::is_ended(stored.status());
        let over = ended || wanted.attempt.is_some_and(|attempt| attempt < stored.attempt);
        let attempt = wanted.attempt.unwrap_or(stored.attempt);
        if wants(attempt) {
            if attempt != elsewhere.attempt {
                if elsewhere.attempt > sent {
                    // What the attempt before printed last came with its end.
                    send_stored(node, &wanted, &stored, &mut elsewhere, sender).await?;
                }
                elsewhere = Elsewhere::of(attempt);
            }
            if output_relay::copy(node, &wanted, &stored, true, &mut elsewhere, sender).await? {
                sent = attempt;
                continue;
            }
            send_stored(node, &wanted, &stored, &mut elsewhere, sender).await?;
        }
        if over {
            return Ok(());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// An attempt that runs in another process: its output is read from the store as it comes.
#[derive(Default)]
pub(super) struct Elsewhere {
    /// Which.
    pub attempt: u32,
    /// The first chunk that has not been looked at.
    chunks: u32,
    /// Bytes that the node which runs it has told, and are yet to be found in the store.
    pub told_bytes: usize,
    /// Whether that node was asked.
    pub asked: bool,
}

impl Elsewhere {
    fn of(attempt: u32) -> Elsewhere {
        Elsewhere { attempt, ..Elsewhere::default() }
    }
}

async fn send_live(
    wanted: &Wanted,
    event: Event,
    sender: &mpsc::Sender<Bytes>,
) -> Result<(), Gone> {
    match event {
        Event::Output(chunk) => {
            let stream = match chunk.stream {
                Stream::Stdout => 1,
                Stream::Stderr => 2,
                Stream::Body => 3,
            };
            if wanted.only.is_none_or(|only| only == stream) {
                sender.send(chunk.bytes).await.map_err(|_| Gone)?;
            }
            Ok(())
        }
        Event::Skipped { bytes, .. } => send_gap(bytes, sender).await,
    }
}

async fn send_gap(bytes: u64, sender: &mpsc::Sender<Bytes>) -> Result<(), Gone> {
    let line = format!("\n[{bytes} bytes not kept]\n");
    sender.send(Bytes::from(line)).await.map_err(|_| Gone)
}

/// Sends what is stored of an attempt's output and has not been sent.
async fn send_stored(
    node: &Arc<Node>,
    wanted: &Wanted,
    run: &Run,
    printed: &mut Elsewhere,
    sender: &mpsc::Sender<Bytes>,
) -> Result<(), Gone> {
    loop {
        let (node, id, run) = (node.clone(), wanted.run, run.clone());
        let (attempt, from) = (printed.attempt, printed.chunks);
        let read = move || Ok(read::output(&*node.view(), id, &run, attempt, from, CHUNKS)?);
        let chunks: Vec<OutputChunk> = blocking(read).await.map_err(|_| Gone)?;
        let count = chunks.len();
        for mut chunk in chunks {
            if chunk.dropped_before > 0 && printed.told_bytes == 0 {
                send_gap(chunk.dropped_before, sender).await?;
            }
            if wanted.only.is_none_or(|only| only == chunk.stream) {
                let known = printed.told_bytes.min(chunk.data.len());
                printed.told_bytes -= known;
                let rest = chunk.data.split_off(known);
                if !rest.is_empty() {
                    sender.send(rest).await.map_err(|_| Gone)?;
                }
            }
        }
        printed.chunks += count as u32;
        if count < CHUNKS {
            return Ok(());
        }
    }
}
