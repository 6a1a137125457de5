//! Tokens and the audit log: `/v1/tokens`, `/v1/audit`.

use bellwether_api::{AuditEntry, NewToken, Page, Token, TokenSpec};
use futures::Stream;

use crate::{Client, ClientError, PageFilter, pages};

impl Client {
    /// Makes a token. Its secret is in the answer and nowhere else.
    ///
    /// # Errors
    /// A problem with status 409 if there is a token of this name.
    pub async fn create_token(&self, spec: &TokenSpec) -> Result<NewToken, ClientError> {
        self.post(&["v1", "tokens"], &Vec::new(), spec).await
    }

    /// The tokens, without their secrets.
    ///
    /// # Errors
    /// If the server refuses or cannot be reached.
    pub async fn tokens(&self) -> Result<Page<Token>, ClientError> {
        self.get(&["v1", "tokens"], &Vec::new()).await
    }

    /// Revokes a token.
    ///
    /// # Errors
    /// A problem with status 404 if there is none of this name.
    pub async fn revoke_token(&self, name: &str) -> Result<(), ClientError> {
        self.delete(&["v1", "tokens", name], &Vec::new()).await
    }

    /// A page of the audit log, newest first.
    ///
    /// # Errors
    /// If the server refuses or cannot be reached.
    pub async fn audit(&self, filter: &PageFilter) -> Result<Page<AuditEntry>, ClientError> {
        self.get(&["v1", "audit"], &filter.query(self.namespace())).await
    }

    /// The whole audit log, fetched page by page.
    pub fn audit_all(
        &self,
        filter: PageFilter,
    ) -> impl Stream<Item = Result<AuditEntry, ClientError>> + Send + use<> {
        let client = self.clone();
        pages::all(filter, move |filter| {
            let client = client.clone();
            async move { client.audit(&filter).await }
        })
    }
}
