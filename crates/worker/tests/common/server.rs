//! HTTP servers on loopback, plain and over TLS, and raw ones that misbehave.

use std::convert::Infallible;
use std::future::Future;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: String,
    pub path: String,
    pub headers: hyper::HeaderMap,
    pub body: Bytes,
}

impl Seen {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
    }
}

/// A running server and what it was asked.
pub struct Server {
    pub url: String,
    pub seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    pub fn only(&self) -> Seen {
        let seen = self.seen.lock().unwrap();
        assert_eq!(seen.len(), 1, "{seen:?}");
        seen[0].clone()
    }
}

pub type Reply = hyper::Response<Full<Bytes>>;

pub fn reply(status: u16, body: impl Into<Bytes>) -> Reply {
    hyper::Response::builder().status(status).body(Full::new(body.into())).unwrap()
}

/// Serves plain HTTP.
pub async fn plain(answer: impl Fn(&Seen) -> Reply + Clone + Send + 'static) -> Server {
    serve(None, answer).await
}

/// Serves HTTPS with a certificate for `localhost` and returns the authority's certificate.
pub async fn tls(answer: impl Fn(&Seen) -> Reply + Clone + Send + 'static) -> (Server, String) {
    let ca_key = rcgen::KeyPair::generate().unwrap();
    let mut ca = rcgen::CertificateParams::new(vec![]).unwrap();
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca_pem = ca.self_signed(&ca_key).unwrap().pem();
    let issuer = rcgen::Issuer::new(ca, ca_key);
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["localhost".to_owned()])
        .unwrap()
        .signed_by(&key, &issuer)
        .unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    (serve(Some(TlsAcceptor::from(Arc::new(config))), answer).await, ca_pem)
}

async fn serve(
    tls: Option<TlsAcceptor>,
    answer: impl Fn(&Seen) -> Reply + Clone + Send + 'static,
) -> Server {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let scheme = if tls.is_some() { "https" } else { "http" };
    let log = Arc::clone(&seen);
    let port = raw(move |socket| {
        let (tls, log, answer) = (tls.clone(), Arc::clone(&log), answer.clone());
        async move {
            match tls {
                None => connection(socket, log, answer).await,
                Some(tls) => {
                    if let Ok(secure) = tls.accept(socket).await {
                        connection(secure, log, answer).await;
                    }
                }
            }
        }
    })
    .await;
    Server { url: format!("{scheme}://localhost:{port}"), seen }
}

async fn connection(
    socket: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    log: Arc<Mutex<Vec<Seen>>>,
    answer: impl Fn(&Seen) -> Reply + Clone + Send + 'static,
) {
    let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let (log, answer) = (Arc::clone(&log), answer.clone());
        async move {
            let (parts, body) = request.into_parts();
            let seen = Seen {
                method: parts.method.to_string(),
                path: parts.uri.to_string(),
                headers: parts.headers,
                body: body.collect().await.map(|body| body.to_bytes()).unwrap_or_default(),
            };
            log.lock().unwrap().push(seen.clone());
            Ok::<_, Infallible>(answer(&seen))
        }
    });
    let served =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service);
    drop(served.await);
}

/// Hands every connection to `serve` and returns the port.
pub async fn raw<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> u16
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(serve(socket));
        }
    });
    port
}

/// Reads the head of a request and throws it away.
pub async fn read_request(socket: &mut TcpStream) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match socket.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
}
