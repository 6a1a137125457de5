//! The server itself: its health, its shards, its workers.

use bellwether_api::{Cluster, Gathered, Node, Worker};
use reqwest::Method;

use crate::{Client, ClientError};

/// How a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Whether it is alive.
    pub healthy: bool,
    /// Whether it takes requests and launches jobs.
    pub ready: bool,
    /// What it says about that.
    pub detail: String,
}

impl Client {
    /// How the server is.
    ///
    /// # Errors
    /// If it cannot be reached. A server that is not ready is an answer, no error.
    pub async fn health(&self) -> Result<Health, ClientError> {
        let (healthy, alive) = self.probe("healthz").await?;
        let (ready, detail) = self.probe("readyz").await?;
        let detail = if healthy { detail } else { alive };
        Ok(Health { healthy, ready, detail })
    }

    async fn probe(&self, path: &str) -> Result<(bool, String), ClientError> {
        let request = self.request(Method::GET, &[path], &Vec::new())?.timeout(self.timeout);
        let answer = self.whole(request).await?;
        let good = answer.status.is_success();
        let text = String::from_utf8_lossy(&answer.body);
        let said = serde_json::from_str::<serde_json::Value>(&text).ok().and_then(|value| {
            let said = value.get("detail").or_else(|| value.get("status"))?;
            said.as_str().map(str::to_owned)
        });
        Ok((good, said.unwrap_or_else(|| text.trim().to_owned())))
    }

    /// The nodes and shards.
    ///
    /// # Errors
    /// If the server refuses or cannot be reached.
    pub async fn cluster(&self) -> Result<Cluster, ClientError> {
        self.get(&["v1", "cluster"], &Vec::new()).await
    }

    /// Takes a node out of the cluster, for good. It is emptied first, which takes a while; once it
    /// is forgotten, [`Client::cluster`] does not list it any more.
    ///
    /// # Errors
    /// If there is no such node, the others are too few, or the server cannot be reached.
    pub async fn remove_node(&self, name_or_number: &str) -> Result<Node, ClientError> {
        let path = ["v1", "cluster", "nodes", name_or_number, "remove"];
        let request = self.request(Method::POST, &path, &Vec::new())?;
        Ok(self.json(request).await?.1)
    }

    /// The workers of all nodes.
    ///
    /// # Errors
    /// If the server refuses or cannot be reached.
    pub async fn workers(&self) -> Result<Gathered<Worker>, ClientError> {
        self.get(&["v1", "workers"], &Vec::new()).await
    }

    /// The server's metrics, in the text format of Prometheus.
    ///
    /// # Errors
    /// If the server refuses or cannot be reached.
    pub async fn metrics(&self) -> Result<String, ClientError> {
        self.text("metrics").await
    }

    /// The OpenAPI document.
    ///
    /// # Errors
    /// If the server refuses or cannot be reached.
    pub async fn openapi(&self) -> Result<String, ClientError> {
        self.text("openapi.json").await
    }

    async fn text(&self, path: &str) -> Result<String, ClientError> {
        let (_, body) = self.bytes(self.request(Method::GET, &[path], &Vec::new())?).await?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }
}
