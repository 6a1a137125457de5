//! Whom to trust when speaking TLS: the system's certificate authorities and those of a file; and
//! among the nodes of a cluster, its own authority alone ([`PeerTls`]).
//!
//! It neither connects nor names protocols. The provider of cryptography is given here, so that
//! nothing has to be installed for the whole process.

mod peers;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

pub use peers::{PeerFiles, PeerTls};

/// Why there can be no TLS.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TrustError {
    /// The file of certificate authorities cannot be used.
    #[error("the certificate authorities in '{path}' cannot be used: {reason}")]
    File {
        /// Which file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The file of a certificate cannot be used.
    #[error("the certificate in '{path}' cannot be used: {reason}")]
    Certificate {
        /// Which file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The file of a key cannot be used.
    #[error("the key in '{path}' cannot be used: {reason}")]
    Key {
        /// Which file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The library refuses.
    #[error("TLS cannot be set up: {0}")]
    Setup(rustls::Error),
}

/// Whom to trust. The system's authorities are read when they are needed for the first time.
pub struct Trust {
    extra_roots: RootCertStore,
    extra_pem: Option<String>,
    config: OnceLock<Result<ClientConfig, TrustError>>,
}

impl Trust {
    /// Trusts the system's authorities, and those in a file (PEM) if one is given.
    ///
    /// # Errors
    /// When the file cannot be used.
    pub fn new(ca_file: Option<&Path>) -> Result<Trust, TrustError> {
        let (extra_roots, extra_pem) = match ca_file {
            None => (RootCertStore::empty(), None),
            Some(path) => {
                let (roots, pem) = roots_of(path)?;
                (roots, Some(String::from_utf8_lossy(&pem).into_owned()))
            }
        };
        Ok(Trust { extra_roots, extra_pem, config: OnceLock::new() })
    }

    /// The content of the file, for libraries that read the system's authorities themselves.
    #[must_use]
    pub fn extra_pem(&self) -> Option<String> {
        self.extra_pem.clone()
    }

    /// Settings for TLS, without a protocol. Reads the system's authorities the first time: not for
    /// a thread on which others wait.
    ///
    /// # Errors
    /// When the library refuses.
    pub fn config(&self) -> Result<ClientConfig, TrustError> {
        let load = || {
            let mut roots = self.extra_roots.clone();
            let system = rustls_native_certs::load_native_certs();
            if roots.add_parsable_certificates(system.certs).0 == 0 {
                tracing::warn!("the system has no certificate authorities; TLS may fail");
            }
            with_roots(roots)
        };
        self.config.get_or_init(load).clone()
    }

    /// The same without the system's authorities, for where TLS is not expected: they take a while
    /// to read.
    ///
    /// # Errors
    /// When the library refuses.
    pub fn config_of_file(&self) -> Result<ClientConfig, TrustError> {
        with_roots(self.extra_roots.clone())
    }
}

/// The authorities in a file, and the file as it is.
fn roots_of(path: &Path) -> Result<(RootCertStore, Vec<u8>), TrustError> {
    let bad = |reason: String| TrustError::File { path: path.to_owned(), reason };
    let pem = std::fs::read(path).map_err(|error| bad(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| bad(error.to_string()))?;
        roots.add(certificate).map_err(|error| bad(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(bad("it contains no certificate".to_owned()));
    }
    Ok((roots, pem))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn with_roots(roots: RootCertStore) -> Result<ClientConfig, TrustError> {
    Ok(ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(TrustError::Setup)?
        .with_root_certificates(roots)
        .with_no_client_auth())
}
