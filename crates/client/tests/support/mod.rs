//! A server on a free port of loopback.

use serde_json::{Value, json};

/// Serves in the background; the address.
pub async fn serve(router: axum::Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    address
}

/// A job as a server tells it.
pub fn job_json(key: &str) -> Value {
    json!({
        "id": "job_06D1R3M0G0400", "status": "scheduled", "shard": 3, "schedule_text": "once",
        "created_at": "2026-01-01T00:00:00.000Z", "updated_at": "2026-01-01T00:00:00.000Z",
        "revision": 1, "runs": 0, "key": key, "command": "true",
    })
}
