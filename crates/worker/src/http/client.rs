//! The HTTP clients, which hold TLS settings and connections.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bellwether_trust::Trust;
use reqwest::redirect::{Attempt as Redirect, Policy};
use reqwest::{Client, ClientBuilder};

use crate::attempt::HttpTarget;
use crate::executor::Shared;
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
    trust: Arc<Trust>,
    proxy_from_env: bool,
    clients: Mutex<HashMap<Settings, Client>>,
}

impl Clients {
    pub(crate) fn new(trust: Arc<Trust>, proxy_from_env: bool) -> Clients {
        Clients { trust, proxy_from_env, clients: Mutex::new(HashMap::new()) }
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
        let mut tls = self.trust.config().map_err(|error| error.to_string())?;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
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
