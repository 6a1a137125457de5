//! The HTTP clients, which hold TLS settings and connections.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use reqwest::redirect::{Attempt as Redirect, Policy};
use reqwest::{Client, ClientBuilder};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::attempt::HttpTarget;
use crate::executor::{ExecutorError, ExecutorOptions, Shared};
use crate::finished::{Failure, ReasonCode};

/// How many clients are kept; each stands for one pair of redirect and connect settings.
const CLIENTS_MAX: usize = 16;
/// The most redirects that are followed.
const REDIRECTS_MAX: usize = 10;
/// How long an unused connection is kept: long enough for a burst, and shorter than what servers
/// allow, so that a request is not sent into a connection that is just being closed.
const IDLE_TIME_MAX: Duration = Duration::from_secs(1);

/// Clients by what cannot be set per request.
type Settings = (bool, Duration);

/// All clients of an executor. Nothing is loaded before the first HTTP attempt.
pub(crate) struct Clients {
    extra_roots: Vec<CertificateDer<'static>>,
    proxy_from_env: bool,
    tls: OnceLock<Result<ClientConfig, String>>,
    clients: Mutex<HashMap<Settings, Client>>,
}

impl Clients {
    pub(crate) fn new(options: &ExecutorOptions) -> Result<Clients, ExecutorError> {
        let mut extra_roots = Vec::new();
        if let Some(path) = &options.extra_ca_file {
            let bad = |reason: String| ExecutorError::CaFile { path: path.clone(), reason };
            let certificates =
                CertificateDer::pem_file_iter(path).map_err(|error| bad(error.to_string()))?;
            let mut store = RootCertStore::empty();
            for certificate in certificates {
                let certificate = certificate.map_err(|error| bad(error.to_string()))?;
                store.add(certificate.clone()).map_err(|error| bad(error.to_string()))?;
                extra_roots.push(certificate);
            }
            if extra_roots.is_empty() {
                return Err(bad("it contains no certificate".to_owned()));
            }
        }
        Ok(Clients {
            extra_roots,
            proxy_from_env: options.proxy_from_env,
            tls: OnceLock::new(),
            clients: Mutex::new(HashMap::new()),
        })
    }

    /// The client for a target.
    pub(super) async fn get(
        &self,
        shared: &Arc<Shared>,
        target: &HttpTarget,
    ) -> Result<Client, Failure> {
        let settings = (target.follow_redirects, target.connect_timeout);
        if let Some(client) = self.lock().get(&settings) {
            return Ok(client.clone());
        }
        // Reads the system's certificates the first time.
        let shared = Arc::clone(shared);
        let built = tokio::task::spawn_blocking(move || shared.http.build(settings)).await;
        let client = match built {
            Ok(Ok(client)) => client,
            Ok(Err(error)) => return Err(Failure::new(ReasonCode::Internal, error)),
            Err(error) => return Err(Failure::new(ReasonCode::Internal, error.to_string())),
        };
        let mut clients = self.lock();
        if clients.len() >= CLIENTS_MAX {
            // Targets with unusual settings: start over rather than grow. Requests under way
            // keep their client.
            clients.clear();
        }
        Ok(clients.entry(settings).or_insert(client).clone())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Settings, Client>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn build(&self, (follow_redirects, connect_timeout): Settings) -> Result<Client, String> {
        let tls = self.tls.get_or_init(|| self.tls_config()).clone()?;
        let redirects = if follow_redirects { Policy::custom(follow) } else { Policy::none() };
        let builder = ClientBuilder::new()
            .tls_backend_preconfigured(tls)
            .user_agent(concat!("bellwether/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(connect_timeout)
            .pool_idle_timeout(IDLE_TIME_MAX)
            .redirect(redirects)
            .referer(false)
            .retry(reqwest::retry::never());
        let builder = if self.proxy_from_env { builder } else { builder.no_proxy() };
        builder.build().map_err(|error| format!("the HTTP client cannot be set up: {error}"))
    }

    /// TLS with the system's certificate authorities and those of the extra file. The provider of
    /// cryptography is given here, so that nothing has to be installed for the whole process.
    fn tls_config(&self) -> Result<ClientConfig, String> {
        let mut roots = RootCertStore::empty();
        let system = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(system.certs);
        if roots.is_empty() {
            tracing::warn!("the system has no certificate authorities; https targets may fail");
        }
        roots.add_parsable_certificates(self.extra_roots.iter().cloned());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

/// Follows a redirect unless there were too many or it leads from https to http.
fn follow(redirect: Redirect<'_>) -> reqwest::redirect::Action {
    let from_https = redirect.previous().last().is_some_and(|url| url.scheme() == "https");
    if from_https && redirect.url().scheme() == "http" {
        return redirect.error("it leads from https to http");
    }
    if redirect.previous().len() > REDIRECTS_MAX {
        return redirect.error("there were more than ten");
    }
    redirect.follow()
}
