//! The port on which other nodes reach this one: who may speak there, and how.
//!
//! Beyond loopback nobody speaks there without a certificate of the cluster's own authority, or the
//! secret that all of its nodes know.

mod address;
mod check;
mod waiting;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use bellwether_core::record::NodeRow;
use bellwether_core::time::Time;
use bellwether_raft::net::{CLUSTER_HEADER, Dialing, NODE_HEADER, SECRET_HEADER};
use bellwether_trust::PeerTls;
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::clock;
use crate::cluster::{NodeIdentity, Waiting, rows_service, service};
use crate::config::{Config, InvalidConfig};
use crate::node::Node;
use crate::start::host_name;
use crate::{http, live};

pub use address::{PEER_PORT, PeerAddress};
pub use check::check;

/// Before a certificate ends, this long, it is said at every start.
const WARN_BEFORE_S: i64 = 30 * 86_400;

/// How this node reaches others, and is reached.
pub struct Peering {
    listener: Option<TcpListener>,
    address: Option<SocketAddr>,
    tls: Option<Arc<rustls::ServerConfig>>,
    secret: Option<String>,
    /// When the certificate ends.
    good_until: Option<Time>,
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
        let good_until = tls.as_ref().map(|tls| Time(tls.good_until_s.saturating_mul(1_000)));
        if let Some(end) = good_until {
            warn_of(end, clock::now());
        }
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
        Ok(Peering { listener, address, tls: server, secret, good_until, dialing })
    }

    /// This node as it introduces itself.
    #[must_use]
    pub fn row(&self, config: &Config, api: SocketAddr) -> NodeRow {
        let address = self.advertised(config);
        NodeRow {
            name: config.name.clone().unwrap_or_else(host_name),
            peer_address: address.map(|address| address.to_string()).unwrap_or_default(),
            api_address: api.to_string(),
            zone: config.zone.clone(),
            replicas: config.replicas.unwrap_or(0),
            ..NodeRow::default()
        }
    }

    /// Where other nodes are told to reach this one.
    fn advertised(&self, config: &Config) -> Option<PeerAddress> {
        config.peer_advertise.clone().or_else(|| self.address.map(PeerAddress::from))
    }

    /// This node as one that wants to join others, if it is to.
    #[must_use]
    pub fn waiting(&self, config: &Config) -> Option<Waiting> {
        let address = self.advertised(config).filter(|_| !config.join.is_empty())?;
        Some(Waiting { address, nodes: config.join.clone() })
    }

    /// Tells those who ask to join that this node wants to as well, for as long as `joining` takes.
    pub async fn answer_during<T>(&self, own: &Waiting, joining: impl Future<Output = T>) -> T {
        let Some(listener) = &self.listener else { return joining.await };
        let stop = CancellationToken::new();
        // Connections end with this, however it ends; the listener is kept, and whoever dials waits.
        let _ending = stop.clone().drop_guard();
        let router = self.guarded(waiting::router(own));
        let answering = async {
            http::serve(router, listener, self.tls.clone(), stop).await;
            std::future::pending::<Infallible>().await
        };
        tokio::select! {
            joined = joining => joined,
            never = answering => match never {},
        }
    }

    /// Lets only those through who know the secret, if there is one.
    fn guarded(&self, router: Router) -> Router {
        let Some(secret) = &self.secret else { return router };
        let expected: [u8; 32] = Sha256::digest(secret.as_bytes()).into();
        router.layer(middleware::from_fn(move |request, next| admit(expected, request, next)))
    }

    /// Serves other nodes until told to stop.
    pub fn serve(mut self, node: &Arc<Node>, stop: &CancellationToken) -> Option<JoinHandle<()>> {
        let listener = self.listener.take()?;
        if let Some(end) = self.good_until {
            node.metrics.certificate(end);
        }
        let routes = tonic::service::Routes::new(node.engine.service());
        let routes = routes.add_service(service(node.cluster.clone()));
        let routes = routes.add_service(live::service(node.clone(), stop.clone()));
        let routes = routes.add_service(rows_service(node.cluster.clone()));
        let router = routes.prepare().into_axum_router();
        let identity = node.cluster.identity.clone();
        let router = router.layer(middleware::from_fn(move |request, next| {
            for_this_node(identity.clone(), request, next)
        }));
        let router = self.guarded(router);
        Some(tokio::spawn(http::serve_all(router, listener, self.tls, stop.clone())))
    }
}

/// What is asked of nodes, which must be said for whom it is. Groups say it in their messages.
const ASKED_OF_NODES: &str = "/bellwether.node.v1.";
/// Whoever wants to join knows no node yet.
const ASKED_OF_ANY: &str = "/bellwether.node.v1.Nodes/Join";

/// Lets through what is for this node of this cluster. Where one was, another may be: one that took
/// its place, or began a new cluster because its disk was not there. It must not do what the other
/// was to do, least of all erase replicas.
async fn for_this_node(identity: NodeIdentity, request: Request, next: Next) -> Response {
    if is_for(&identity, &request) {
        return next.run(request).await;
    }
    let NodeIdentity { cluster, node, .. } = identity;
    let detail = format!("this is node {node} of cluster {cluster}, and not who was meant");
    Status::failed_precondition(detail).into_http::<axum::body::Body>().into_response()
}

fn is_for(identity: &NodeIdentity, request: &Request) -> bool {
    let path = request.uri().path();
    if !path.starts_with(ASKED_OF_NODES) || path == ASKED_OF_ANY {
        return true;
    }
    let said = |name: &str| request.headers().get(name).map(|value| value.as_bytes());
    said(CLUSTER_HEADER) == Some(identity.cluster.as_bytes())
        && said(NODE_HEADER) == Some(identity.node.to_string().as_bytes())
}

/// Says that a certificate ends soon, or has ended.
fn warn_of(end: Time, now: Time) {
    let left_s = end.0.saturating_sub(now.0) / 1_000;
    if left_s < WARN_BEFORE_S {
        tracing::warn!(
            ends = %end,
            "the certificate of this node is about to end or has, and nodes then accept one another no more: \
             make another with 'bellwether cluster certs --replace' and start the node again"
        );
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
