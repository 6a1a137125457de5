//! Groups: `/v1/groups`.

use bellwether_api::{Group, MaintenanceRequest, Page, PauseRequest};
use futures::Stream;
use reqwest::Method;
use serde::Serialize;

use crate::{Client, ClientError, PageFilter, pages};

impl Client {
    /// A page of the groups of the client's namespace, or of all.
    ///
    /// # Errors
    /// If the server refuses or cannot be reached.
    pub async fn groups(&self, filter: &PageFilter) -> Result<Page<Group>, ClientError> {
        self.get(&["v1", "groups"], &filter.query(self.namespace())).await
    }

    /// All groups, fetched page by page.
    pub fn groups_all(
        &self,
        filter: PageFilter,
    ) -> impl Stream<Item = Result<Group, ClientError>> + Send + use<> {
        let client = self.clone();
        pages::all(filter, move |filter| {
            let client = client.clone();
            async move { client.groups(&filter).await }
        })
    }

    /// Keeps all jobs of a group from being launched until it is resumed.
    ///
    /// # Errors
    /// If the server refuses or cannot be reached.
    pub async fn pause_group(
        &self,
        group: &str,
        request: &PauseRequest,
    ) -> Result<(), ClientError> {
        self.switch_group(group, "pause", request).await
    }

    /// Ends a group's pause and its maintenance.
    ///
    /// # Errors
    /// If the server refuses or cannot be reached.
    pub async fn resume_group(&self, group: &str) -> Result<(), ClientError> {
        self.switch_group(group, "resume", &serde_json::json!({})).await
    }

    /// Puts a group into maintenance.
    ///
    /// # Errors
    /// If the server refuses or cannot be reached.
    pub async fn maintain_group(
        &self,
        group: &str,
        request: &MaintenanceRequest,
    ) -> Result<(), ClientError> {
        self.switch_group(group, "maintenance", request).await
    }

    async fn switch_group(
        &self,
        group: &str,
        verb: &str,
        body: &impl Serialize,
    ) -> Result<(), ClientError> {
        let path = ["v1", "groups", group, verb];
        let request = self.request(Method::POST, &path, &self.scope())?.json(body)?;
        self.bytes(request).await.map(|_| ())
    }
}
