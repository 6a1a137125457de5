//! Settings of a client.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bellwether_trust::Trust;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};

use crate::servers::Servers;
use crate::{Client, ClientError, DEFAULT_SERVER};

/// How long a request may take, unless said otherwise. Streams and batches have no such limit.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(60);

/// Settings of a [`Client`]; made by [`Client::builder`].
#[derive(Clone)]
pub struct ClientBuilder {
    server: String,
    token: Option<String>,
    ca_file: Option<PathBuf>,
    namespace: Option<String>,
    timeout: Duration,
}

impl Default for ClientBuilder {
    fn default() -> ClientBuilder {
        ClientBuilder {
            server: DEFAULT_SERVER.to_owned(),
            token: None,
            ca_file: None,
            namespace: None,
            timeout: REQUEST_TIME_MAX,
        }
    }
}

impl ClientBuilder {
    /// Where the server is: `HOST:PORT`, or a URL. Loopback and port 2355 unless set.
    ///
    /// Of a cluster several may be given, with commas between them. The first that can be reached is
    /// asked, and then stays the one that is asked first. If a connection breaks before the answer is
    /// there, another is asked only for what changes nothing.
    #[must_use]
    pub fn server(mut self, server: impl Into<String>) -> ClientBuilder {
        self.server = server.into();
        self
    }

    /// The token to send.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> ClientBuilder {
        self.token = Some(token.into());
        self
    }

    /// A file of certificate authorities (PEM) to trust in addition to the system's.
    #[must_use]
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> ClientBuilder {
        self.ca_file = Some(path.into());
        self
    }

    /// The namespace in which keys and groups are looked up, jobs are created and lists are made.
    /// Unless set, keys and groups are looked up in `default` and lists are of all namespaces.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> ClientBuilder {
        self.namespace = Some(namespace.into());
        self
    }

    /// How long a request may take, with all the servers that are asked; a minute unless set. Streams
    /// have no such limit once they have begun, and the creation of batches has none.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> ClientBuilder {
        self.timeout = timeout;
        self
    }

    /// Makes the client. Nothing is sent yet.
    ///
    /// # Errors
    /// [`ClientError::Setup`] if the address, the token or the certificate file cannot be used.
    pub fn build(self) -> Result<Client, ClientError> {
        let servers = Servers::parse(&self.server)?;
        let mut headers = HeaderMap::new();
        if let Some(token) = &self.token {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", token.trim()))
                .map_err(|_| ClientError::Setup("the token has characters no token has".into()))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let trust = Trust::new(self.ca_file.as_deref());
        let tls = trust.and_then(|trust| {
            let https = servers.any_tls();
            let mut config = if https { trust.config() } else { trust.config_of_file() }?;
            config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
            Ok(config)
        });
        let tls = tls.map_err(|error| ClientError::Setup(error.to_string()))?;
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .user_agent(concat!("bellwether-client/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers)
            .connect_timeout(servers.connect_time_max(self.timeout))
            // A redirect would carry the token to who knows where.
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .build()
            .map_err(|error| ClientError::Setup(format!("the client cannot be set up: {error}")))?;
        let (servers, namespace, timeout) = (Arc::new(servers), self.namespace, self.timeout);
        Ok(Client { http, servers, namespace, timeout, behind_ms: Arc::default() })
    }
}
