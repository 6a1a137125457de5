//! Accepting connections, with or without TLS, until told to stop.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::TlsFiles;

/// How long requests that are under way get when the server stops.
const DRAIN: Duration = Duration::from_secs(5);
/// How long a client may take to send the head of a request, or to shake hands.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Connections that may wait to be accepted, unless the system allows fewer.
const WAITING_MAX: u32 = 4_096;

/// The port of a server. It is taken early, so that it is known early whether it can be had; as long
/// as it is shut connections are refused, and whoever knows of other nodes asks those.
pub enum Port {
    /// Nobody listens.
    Shut(TcpSocket),
    /// Connections wait to be accepted.
    Open(TcpListener),
}

impl Port {
    /// Takes a port.
    ///
    /// # Errors
    /// When it cannot be had.
    pub fn take(address: SocketAddr) -> io::Result<Port> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // As listeners have it: a server can be started again while old connections die away.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(Port::Shut(socket))
    }

    /// Which it is.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        match self {
            Port::Shut(socket) => socket.local_addr(),
            Port::Open(listener) => listener.local_addr(),
        }
    }

    /// Listens, unless it does so already.
    ///
    /// # Errors
    /// When another process, which had taken it at the same time, listens there by now.
    pub fn listen(self) -> io::Result<TcpListener> {
        match self {
            Port::Shut(socket) => socket.listen(WAITING_MAX),
            Port::Open(listener) => Ok(listener),
        }
    }
}

/// Reads certificate and key.
///
/// # Errors
/// A message that names the file.
pub fn tls_config(files: &TlsFiles) -> anyhow::Result<Arc<rustls::ServerConfig>> {
    let certs = CertificateDer::pem_file_iter(&files.cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| format!("cannot read the certificate {}", files.cert.display()))?;
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .with_context(|| format!("cannot read the private key {}", files.key.display()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(certs, key)
        .context("certificate and private key do not go together")?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Serves until `stop`, then lets requests that are under way finish.
pub async fn serve(
    router: axum::Router,
    listener: &TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
    stop: CancellationToken,
) {
    let acceptor = tls.map(TlsAcceptor::from);
    let connections = TaskTracker::new();
    loop {
        let stream = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Out of descriptors, most likely: wait for some to come back.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
        };
        let _ = stream.set_nodelay(true);
        let (router, acceptor, stop) = (router.clone(), acceptor.clone(), stop.clone());
        connections.spawn(async move {
            match acceptor {
                None => connection(stream, router, stop).await,
                Some(acceptor) => {
                    match tokio::time::timeout(HEAD_TIMEOUT, acceptor.accept(stream)).await {
                        Ok(Ok(stream)) => connection(stream, router, stop).await,
                        Ok(Err(error)) => tracing::debug!(%error, "no TLS handshake"),
                        Err(_) => tracing::debug!("a TLS handshake took too long"),
                    }
                }
            }
        });
    }
    connections.close();
    let _ = tokio::time::timeout(DRAIN, connections.wait()).await;
}

/// The same for a listener that nobody needs afterwards.
pub async fn serve_all(
    router: axum::Router,
    listener: TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
    stop: CancellationToken,
) {
    serve(router, &listener, tls, stop).await;
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: axum::Router,
    stop: CancellationToken,
) {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(Some(HEAD_TIMEOUT));
    let service = TowerToHyperService::new(router);
    let serving = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::pin!(serving);
    let mut stopping = false;
    loop {
        tokio::select! {
            outcome = &mut serving => {
                if let Err(error) = outcome {
                    tracing::debug!(%error, "a connection ended badly");
                }
                break;
            }
            () = stop.cancelled(), if !stopping => {
                stopping = true;
                serving.as_mut().graceful_shutdown();
            }
        }
    }
}
