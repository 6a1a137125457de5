//! Whom to trust when speaking TLS: the system's certificate authorities and those of a file.
//!
//! The provider of cryptography is given here, so that nothing has to be installed for the whole
//! process.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::executor::ExecutorError;

/// Whom to trust. The system's authorities are read when they are needed for the first time.
pub struct Trust {
    extra_roots: Vec<CertificateDer<'static>>,
    extra_pem: Option<String>,
    config: OnceLock<Result<ClientConfig, String>>,
}

impl Trust {
    /// Trusts the system's authorities, and those in a file (PEM) if one is given.
    ///
    /// # Errors
    /// When the file cannot be used.
    pub fn new(extra_ca_file: Option<&Path>) -> Result<Trust, ExecutorError> {
        let mut extra_roots = Vec::new();
        let mut extra_pem = None;
        if let Some(path) = extra_ca_file {
            let bad = |reason: String| ExecutorError::CaFile { path: path.to_owned(), reason };
            let pem = std::fs::read(path).map_err(|error| bad(error.to_string()))?;
            let mut store = RootCertStore::empty();
            for certificate in CertificateDer::pem_slice_iter(&pem) {
                let certificate = certificate.map_err(|error| bad(error.to_string()))?;
                store.add(certificate.clone()).map_err(|error| bad(error.to_string()))?;
                extra_roots.push(certificate);
            }
            if extra_roots.is_empty() {
                return Err(bad("it contains no certificate".to_owned()));
            }
            extra_pem = Some(String::from_utf8_lossy(&pem).into_owned());
        }
        Ok(Trust { extra_roots, extra_pem, config: OnceLock::new() })
    }

    /// The content of the file, for libraries that read the system's authorities themselves.
    pub(crate) fn extra_pem(&self) -> Option<String> {
        self.extra_pem.clone()
    }

    /// Settings for TLS without a protocol. Reads files the first time: not for a thread on which
    /// others wait.
    pub(crate) fn config(&self) -> Result<ClientConfig, String> {
        self.config.get_or_init(|| self.build()).clone()
    }

    /// The same, from where others wait.
    pub(crate) async fn config_async(self: &Arc<Self>) -> Result<ClientConfig, String> {
        let trust = self.clone();
        match tokio::task::spawn_blocking(move || trust.config()).await {
            Ok(config) => config,
            Err(error) => Err(error.to_string()),
        }
    }

    fn build(&self) -> Result<ClientConfig, String> {
        let mut roots = RootCertStore::empty();
        let system = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(system.certs);
        if roots.is_empty() {
            tracing::warn!("the system has no certificate authorities; TLS may fail");
        }
        roots.add_parsable_certificates(self.extra_roots.iter().cloned());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        Ok(ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth())
    }
}
