//! Output of an attempt that runs inside the server of another node.
//!
//! What such an attempt prints is stored every second, and what is beyond the part that is kept not
//! at all. Whoever asks here while it runs gets it from that node as it comes. If the node dies
//! meanwhile, what it has told is left out of what the store has, and reading goes on from there.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use bellwether_core::record::Run;
use bellwether_core::run as life;
use bytes::Bytes;
use tokio::sync::mpsc;

use super::output::{Elsewhere, Gone, Wanted};
use crate::node::Node;
use crate::work::is_built_in;

/// How long the other node may take to begin.
const WITHIN: Duration = Duration::from_secs(2);

/// Copies what the node tells that runs an attempt. False if it does not, or has not to the end.
pub(super) async fn copy(
    node: &Arc<Node>,
    wanted: &Wanted,
    run: &Run,
    follow: bool,
    printed: &mut Elsewhere,
    sender: &mpsc::Sender<Bytes>,
) -> Result<bool, Gone> {
    let under_way = run.attempt == printed.attempt && life::is_with_worker(run.status());
    let Some(caller) = wanted.caller.as_ref().filter(|_| under_way && is_built_in(&run.worker))
    else {
        return Ok(false);
    };
    // One that is asked again would tell all from the start.
    let seat = node.cluster.book.seat_of(&run.worker).filter(|_| !printed.asked);
    let Some(other) = seat else { return Ok(false) };
    printed.asked = true;
    let mut uri = format!("/v1/runs/{}/output?attempt={}", wanted.run, printed.attempt);
    uri.push_str(if follow { "&follow=true" } else { "" });
    match wanted.only {
        Some(1) => uri.push_str("&stream=stdout"),
        Some(_) => uri.push_str("&stream=stderr"),
        None => {}
    }
    let asked = node.relay(other, caller, (&Method::GET, &uri), Bytes::new(), WITHIN).await;
    let Some(mut relay) = asked.filter(|relay| relay.is_good()) else { return Ok(false) };
    loop {
        let chunk = tokio::select! {
            chunk = relay.chunk() => chunk,
            () = sender.closed() => return Err(Gone),
        };
        match chunk {
            Ok(Some(chunk)) => {
                printed.told_bytes += chunk.len();
                sender.send(chunk).await.map_err(|_| Gone)?;
            }
            Ok(None) => return Ok(true),
            Err(_) => return Ok(false),
        }
    }
}
