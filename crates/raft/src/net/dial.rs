//! How a node reaches others: with or without TLS, and with the secret that all of them know.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::codegen::http::Uri;
use tonic::metadata::AsciiMetadataValue;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(2);
/// How often an idle connection is tried, and how long that may take: one that is half open must
/// not look alive for longer.
const KEEPALIVE: Duration = Duration::from_secs(1);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(2);

/// The header that carries the secret.
pub const SECRET_HEADER: &str = "bellwether-secret";
/// The header that says for which cluster a request is. At an address there may be another than there
/// was.
pub const CLUSTER_HEADER: &str = "bellwether-cluster";
/// The header that says for which of its nodes.
pub const NODE_HEADER: &str = "bellwether-node";

/// The way to a node.
pub type Way = InterceptedService<Channel, Introduce>;

/// How nodes are reached.
#[derive(Clone, Default)]
pub struct Dialing {
    /// With TLS, if there is any.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// What all nodes know, if they do.
    pub secret: Option<String>,
}

/// Adds the secret to every request, and for whom it is.
#[derive(Clone)]
pub struct Introduce(Vec<(&'static str, AsciiMetadataValue)>);

impl Interceptor for Introduce {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        for (name, value) in &self.0 {
            request.metadata_mut().insert(*name, value.clone());
        }
        Ok(request)
    }
}

fn invalid(error: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error.to_string())
}

impl Dialing {
    /// The way to an address, whoever is there. The connection is made when it is first needed, and
    /// again whenever it is lost.
    ///
    /// # Errors
    /// When the address or the secret makes no sense.
    pub fn way(&self, address: &str) -> io::Result<Way> {
        Ok(InterceptedService::new(self.channel(address)?, Introduce(self.secret()?)))
    }

    /// The way to a node of a cluster at an address. If another is there, it refuses.
    ///
    /// # Errors
    /// When one of them makes no sense.
    pub fn way_to(&self, address: &str, cluster: &str, node: u64) -> io::Result<Way> {
        let mut said = self.secret()?;
        let cluster = AsciiMetadataValue::try_from(cluster).map_err(invalid)?;
        said.push((CLUSTER_HEADER, cluster));
        said.push((NODE_HEADER, AsciiMetadataValue::from(node)));
        Ok(InterceptedService::new(self.channel(address)?, Introduce(said)))
    }

    fn secret(&self) -> io::Result<Vec<(&'static str, AsciiMetadataValue)>> {
        let secret = self.secret.as_deref().map(AsciiMetadataValue::try_from);
        let secret = secret.transpose().map_err(invalid)?;
        let secret = secret.map(|mut secret| {
            secret.set_sensitive(true);
            (SECRET_HEADER, secret)
        });
        Ok(secret.into_iter().collect())
    }

    fn channel(&self, address: &str) -> io::Result<Channel> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .map_err(invalid)?
            .connect_timeout(CONNECT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(KEEPALIVE_TIMEOUT)
            .keep_alive_while_idle(true);
        Ok(match &self.tls {
            None => endpoint.connect_lazy(),
            Some(config) => {
                let tls = TlsConnector::from(config.clone());
                let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
                let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
                let name = ServerName::try_from(host).map_err(invalid)?;
                endpoint.connect_with_connector_lazy(tower::service_fn(move |uri: Uri| {
                    let (tls, name) = (tls.clone(), name.clone());
                    async move {
                        let at = uri.authority().map_or("", |at| at.as_str()).to_owned();
                        let stream = TcpStream::connect(at).await?;
                        stream.set_nodelay(true)?;
                        tls.connect(name, stream).await.map(TokioIo::new)
                    }
                }))
            }
        })
    }
}
