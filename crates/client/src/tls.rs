//! TLS: the system's certificate authorities and, if given, a file of more.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::ClientError;

/// The TLS settings. The provider of cryptography is given here, so that nothing has to be
/// installed for the whole process. The system's authorities are read only if they may be needed.
pub(crate) fn config(https: bool, ca_file: Option<&Path>) -> Result<ClientConfig, ClientError> {
    let mut roots = RootCertStore::empty();
    if https {
        let system = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(system.certs);
    }
    if let Some(path) = ca_file {
        let bad = |reason: String| {
            ClientError::Setup(format!(
                "the certificate authorities in '{}' cannot be used: {reason}",
                path.display()
            ))
        };
        let mut found = 0;
        let certificates =
            CertificateDer::pem_file_iter(path).map_err(|error| bad(error.to_string()))?;
        for certificate in certificates {
            let certificate = certificate.map_err(|error| bad(error.to_string()))?;
            roots.add(certificate).map_err(|error| bad(error.to_string()))?;
            found += 1;
        }
        if found == 0 {
            return Err(bad("it contains no certificate".to_owned()));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| ClientError::Setup(format!("TLS cannot be set up: {error}")))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
