//! The OpenAPI document and a readable page made from it, and the start page.

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::http::header;
use axum::response::{Html, IntoResponse};
use axum::routing::get;

use super::manual;
use crate::node::Node;

static DOCUMENT: LazyLock<String> = LazyLock::new(super::openapi);

/// The routes of this module.
pub fn routes() -> Router<Arc<Node>> {
    Router::new()
        .route("/openapi.json", get(document))
        .route("/docs", get(page))
        .route("/docs/{name}", get(manual::page))
        .route("/", get(start))
}

async fn document() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT.as_str())
}

async fn page() -> Html<&'static str> {
    Html(include_str!("docs.html"))
}

async fn start() -> Html<&'static str> {
    Html(include_str!("start.html"))
}
