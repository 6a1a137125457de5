//! One connection to one server: TCP, TLS if asked for, HTTP/2.
//!
//! The stream is opened here and not by the gRPC library, because how it fails matters: a refusal
//! says that nobody listens, a time-out says nothing.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bellwether_trust::{Trust, TrustError};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tonic::codegen::http::Uri;
use tonic::transport::{Channel, Endpoint};

use crate::address::Address;
use crate::error::SessionError;

/// How long name lookup, connecting and TLS may take together.
const DIAL_TIME_MAX: Duration = Duration::from_secs(5);

/// Why there is no connection.
#[derive(Debug)]
pub(crate) enum DialError {
    /// Nobody listens there.
    Refused,
    /// TLS failed: a certificate that is not trusted, or something that does not speak it.
    Tls(String),
    /// Anything else.
    Failed(String),
}

/// What connections have in common.
pub(crate) struct Dialer {
    tls: Option<TlsConnector>,
}

impl Dialer {
    /// Reads the certificate authorities, if any server is to be reached by TLS.
    pub(crate) fn new(servers: &[Address], ca_file: Option<&Path>) -> Result<Dialer, SessionError> {
        let connector = || -> Result<TlsConnector, TrustError> {
            let mut config = Trust::new(ca_file)?.config()?;
            config.alpn_protocols = vec![b"h2".to_vec()];
            Ok(TlsConnector::from(Arc::new(config)))
        };
        let wanted = servers.iter().any(|server| server.tls);
        let tls = wanted.then(connector).transpose();
        Ok(Dialer { tls: tls.map_err(|error| SessionError::Invalid(error.to_string()))? })
    }

    /// Connects.
    pub(crate) async fn dial(&self, address: &Address) -> Result<Channel, DialError> {
        let stream = match timeout(DIAL_TIME_MAX, self.open(address)).await {
            Ok(stream) => stream?,
            Err(_) => return Err(DialError::Failed("it does not answer".to_owned())),
        };
        let origin: Uri = address
            .uri(address.tls)
            .parse()
            .map_err(|error| DialError::Failed(format!("the address cannot be used: {error}")))?;
        let endpoint = Endpoint::from_shared(address.uri(false))
            .map_err(|error| DialError::Failed(error.to_string()))?
            .origin(origin)
            .connect_timeout(DIAL_TIME_MAX)
            .initial_stream_window_size(4 * 1024 * 1024)
            .initial_connection_window_size(4 * 1024 * 1024);
        // One stream, handed out once: what is broken is dialled anew by the session.
        let stream = Arc::new(Mutex::new(Some(stream)));
        let connector = tower::service_fn(move |_: Uri| {
            let stream = stream.lock().take().map(TokioIo::new);
            async move { stream.ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected)) }
        });
        let connected = timeout(DIAL_TIME_MAX, endpoint.connect_with_connector(connector)).await;
        match connected {
            Ok(Ok(channel)) => Ok(channel),
            Ok(Err(error)) => Err(DialError::Failed(root_cause(&error))),
            Err(_) => Err(DialError::Failed("it does not answer".to_owned())),
        }
    }

    async fn open(&self, address: &Address) -> Result<Box<dyn Stream>, DialError> {
        let tcp = match TcpStream::connect((address.host.as_str(), address.port)).await {
            Ok(tcp) => tcp,
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                return Err(DialError::Refused);
            }
            Err(error) => return Err(DialError::Failed(error.to_string())),
        };
        // Reports are small and should not wait for one another.
        let _ = tcp.set_nodelay(true);
        let Some(tls) = self.tls.as_ref().filter(|_| address.tls) else { return Ok(Box::new(tcp)) };
        let name = ServerName::try_from(address.host.clone())
            .map_err(|error| DialError::Tls(error.to_string()))?;
        let stream = tls.connect(name, tcp).await.map_err(|error| tls_error(&error))?;
        if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
            return Err(DialError::Tls("it does not speak HTTP/2, which workers need".to_owned()));
        }
        Ok(Box::new(stream))
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// A handshake that broke off says nothing about certificates: it may go better the next time.
fn tls_error(error: &io::Error) -> DialError {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(cause) => DialError::Tls(cause.to_string()),
        None => DialError::Failed(error.to_string()),
    }
}

/// What lies at the bottom; the layers above only say that something failed.
pub(crate) fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
