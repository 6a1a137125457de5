//! The port on which other nodes reach this one: who may speak there, and how.
//!
//! Beyond loopback nobody speaks there without a certificate of the cluster's own authority, or the
//! secret that all of its nodes know.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, bail};
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use bellwether_core::record::NodeRow;
use bellwether_raft::net::{Dialing, SECRET_HEADER};
use bellwether_trust::PeerTls;
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::cluster::{rows_service, service};
use crate::config::{Config, InvalidConfig};
use crate::node::Node;
use crate::start::host_name;
use crate::{http, live};

/// Shortest secret.
const SECRET_MIN: usize = 16;

/// Checks that the port for other nodes is not open by accident.
///
/// # Errors
/// A message that says what to do.
pub fn check(config: &Config) -> anyhow::Result<()> {
    if let Some(secret) = &config.cluster_secret
        && (secret.len() < SECRET_MIN || !secret.bytes().all(|byte| byte.is_ascii_graphic()))
    {
        bail!(InvalidConfig(format!(
            "the cluster secret must have at least {SECRET_MIN} characters, all of them visible \
             ASCII without spaces"
        )));
    }
    let Some(listen) = config.peer_listen else {
        if !config.join.is_empty() {
            bail!(InvalidConfig(
                "--join needs --peer-listen: other nodes must reach this one".to_owned()
            ));
        }
        return Ok(());
    };
    let guarded = config.peer_tls.is_some() || config.cluster_secret.is_some();
    if !listen.ip().is_loopback() && !guarded && !config.insecure {
        bail!(InvalidConfig(format!(
            "{listen} can be reached from other machines: make certificates with \
             'bellwether cluster certs' and give --peer-ca, --peer-cert and --peer-key, or give all \
             nodes the same --cluster-secret-file, or say --insecure to go without both"
        )));
    }
    if listen.ip().is_unspecified() && config.peer_advertise.is_none() {
        bail!(InvalidConfig(format!(
            "{listen} is not an address that other nodes can dial: give --peer-advertise HOST:PORT"
        )));
    }
    Ok(())
}

/// How this node reaches others, and is reached.
pub struct Peering {
    listener: Option<TcpListener>,
    address: Option<SocketAddr>,
    tls: Option<Arc<rustls::ServerConfig>>,
    secret: Option<String>,
    /// How others are reached.
    pub dialing: Dialing,
}

impl Peering {
    /// Takes the port.
    ///
    /// # Errors
    /// When it cannot be had, or the certificates cannot be read.
    pub async fn bind(config: &Config) -> anyhow::Result<Peering> {
        let tls = config.peer_tls.as_ref().map(PeerTls::load).transpose();
        let tls = tls.map_err(|error| InvalidConfig(error.to_string()))?;
        let (server, client) = tls.map(|tls| (tls.server, tls.client)).unzip();
        let (server, client) = (server.map(Arc::new), client.map(Arc::new));
        let dialing = Dialing { tls: client, secret: config.cluster_secret.clone() };
        let mut listener = None;
        if let Some(listen) = config.peer_listen {
            let bound = TcpListener::bind(listen).await.with_context(|| {
                format!("cannot listen for other nodes on {listen}; is another server there?")
            })?;
            listener = Some(bound);
        }
        let address = listener.as_ref().map(TcpListener::local_addr).transpose()?;
        let secret = config.cluster_secret.clone();
        Ok(Peering { listener, address, tls: server, secret, dialing })
    }

    /// This node as it introduces itself.
    #[must_use]
    pub fn row(&self, config: &Config, api: SocketAddr) -> NodeRow {
        let advertised = config.peer_advertise.clone();
        let address = advertised.or_else(|| self.address.map(|address| address.to_string()));
        NodeRow {
            name: config.name.clone().unwrap_or_else(host_name),
            peer_address: address.unwrap_or_default(),
            api_address: api.to_string(),
            zone: config.zone.clone(),
            ..NodeRow::default()
        }
    }

    /// Serves other nodes until told to stop.
    pub fn serve(self, node: &Arc<Node>, stop: &CancellationToken) -> Option<JoinHandle<()>> {
        let listener = self.listener?;
        let routes = tonic::service::Routes::new(node.engine.service());
        let routes = routes.add_service(service(node.cluster.clone()));
        let routes = routes.add_service(live::service(node.clone(), stop.clone()));
        let routes = routes.add_service(rows_service(node.cluster.clone()));
        let mut router = routes.prepare().into_axum_router();
        if let Some(secret) = self.secret {
            let expected: [u8; 32] = Sha256::digest(secret.as_bytes()).into();
            router = router
                .layer(middleware::from_fn(move |request, next| admit(expected, request, next)));
        }
        Some(tokio::spawn(http::serve(router, listener, self.tls, stop.clone())))
    }
}

/// Lets those in who know the secret. Hashes are compared, so that how long it takes tells nothing.
async fn admit(expected: [u8; 32], request: Request, next: Next) -> Response {
    let said = request.headers().get(SECRET_HEADER).map(|value| value.as_bytes());
    let said: Option<[u8; 32]> = said.map(|said| Sha256::digest(said).into());
    if said == Some(expected) {
        return next.run(request).await;
    }
    let detail = match said {
        None => "the nodes of this cluster share a secret, and none was given",
        Some(_) => "the secret is not that of this cluster",
    };
    Status::unauthenticated(detail).into_http::<axum::body::Body>().into_response()
}
