//! Mutual TLS among the nodes of a cluster: each shows a certificate of the cluster's own authority
//! and accepts nobody else.
//!
//! The system's authorities have no say here, and nobody is accepted without a certificate. Both ends
//! are of the same make, so nothing older than TLS 1.3 is spoken.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::{TrustError, provider, roots_of};

/// The files that make a machine a node, all PEM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerFiles {
    /// Certificate of the cluster's authority.
    pub ca: PathBuf,
    /// The node's certificate, good for both ends of a connection.
    pub cert: PathBuf,
    /// The key to it.
    pub key: PathBuf,
}

/// Both ends of connections among nodes, without a protocol.
#[derive(Clone, Debug)]
pub struct PeerTls {
    /// For connections that come in.
    pub server: ServerConfig,
    /// For connections that go out.
    pub client: ClientConfig,
    /// Until when the node's certificate is good, in seconds since 1970.
    pub good_until_s: i64,
}

impl PeerTls {
    /// Reads the files.
    ///
    /// # Errors
    /// When one of them cannot be used, naming it, or when they do not go together.
    pub fn load(files: &PeerFiles) -> Result<PeerTls, TrustError> {
        let (roots, _) = roots_of(&files.ca)?;
        let roots = Arc::new(roots);
        let chain = chain_of(&files.cert)?;
        let good_until_s = end_of(&chain, &files.cert)?;
        let key = key_of(&files.key)?;
        let refused = |error: rustls::Error| refused(files, error);
        let provider = provider();
        Ok(PeerTls {
            server: server(&provider, &roots, &chain, &key).map_err(refused)?,
            client: client(&provider, &roots, chain, key).map_err(refused)?,
            good_until_s,
        })
    }
}

fn server(
    provider: &Arc<CryptoProvider>,
    roots: &Arc<RootCertStore>,
    chain: &[CertificateDer<'static>],
    key: &PrivateKeyDer<'static>,
) -> Result<ServerConfig, rustls::Error> {
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
        .build()
        .map_err(|error| rustls::Error::General(error.to_string()))?;
    ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain.to_vec(), key.clone_key())
}

fn client(
    provider: &Arc<CryptoProvider>,
    roots: &Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ClientConfig, rustls::Error> {
    ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(roots.clone())
        .with_client_auth_cert(chain, key)
}

fn chain_of(path: &Path) -> Result<Vec<CertificateDer<'static>>, TrustError> {
    let bad = |reason: String| TrustError::Certificate { path: path.to_owned(), reason };
    let chain = CertificateDer::pem_file_iter(path).map_err(|error| bad(error.to_string()))?;
    let chain: Result<Vec<_>, _> = chain.collect();
    let chain = chain.map_err(|error| bad(error.to_string()))?;
    if chain.is_empty() {
        return Err(bad("it contains no certificate".to_owned()));
    }
    Ok(chain)
}

/// When the first certificate of a chain that expires does.
fn end_of(chain: &[CertificateDer<'static>], path: &Path) -> Result<i64, TrustError> {
    let mut first = i64::MAX;
    for certificate in chain {
        let parsed = x509_parser::parse_x509_certificate(certificate);
        let (_, certificate) = parsed.map_err(|error| TrustError::Certificate {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        first = first.min(certificate.validity().not_after.timestamp());
    }
    Ok(first)
}

fn key_of(path: &Path) -> Result<PrivateKeyDer<'static>, TrustError> {
    PrivateKeyDer::from_pem_file(path)
        .map_err(|error| TrustError::Key { path: path.to_owned(), reason: error.to_string() })
}

/// What the library objects to is in one of the files, mostly.
fn refused(files: &PeerFiles, error: rustls::Error) -> TrustError {
    let bad = |reason: String| TrustError::Certificate { path: files.cert.clone(), reason };
    match error {
        rustls::Error::InconsistentKeys(_) => {
            bad(format!("it does not belong to the key in '{}'", files.key.display()))
        }
        rustls::Error::InvalidCertificate(error) => bad(error.to_string()),
        other => TrustError::Setup(other),
    }
}
