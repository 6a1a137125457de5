//! A real server with real brokers: jobs that are published, and jobs that come through a broker.
//!
//! Guards R22: acknowledged means durable, also when the server is killed with SIGKILL between a
//! message's delivery and its acknowledgement, again and again.

#![allow(clippy::unwrap_used)]

#[path = "../kill/address.rs"]
mod address;
#[path = "../../../worker/tests/common/brokers.rs"]
mod brokers;
mod ingest;
mod publish;
#[path = "../kill/random.rs"]
mod random;
#[path = "../kill/server.rs"]
mod server;

use std::time::{Duration, Instant};

use bellwether_api::JobSpec;

/// Waits until a condition gives a value; fails after two minutes.
async fn until<T>(what: &str, condition: impl AsyncFn() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(120);
    let mut look = tokio::time::interval(Duration::from_millis(20));
    loop {
        look.tick().await;
        if let Some(value) = condition().await {
            return value;
        }
        assert!(Instant::now() < deadline, "waited in vain until {what}");
    }
}

fn job(json: serde_json::Value) -> JobSpec {
    serde_json::from_value(json).unwrap()
}
