//! TLS: a certificate is trusted because its file was given, and not otherwise.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say so at once")]

use std::io::Write;
use std::sync::Arc;

use bellwether_client::{Client, ClientError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// Answers every connection with `ok`, over TLS; the address and the certificate.
async fn serve() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let pem = made.cert.pem();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut request = [0; 4096];
                let _ = stream.read(&mut request).await;
                let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.shutdown().await;
            });
        }
    });
    (format!("https://localhost:{port}"), pem)
}

#[tokio::test]
async fn a_certificate_of_the_ca_file_is_trusted() {
    let (address, pem) = serve().await;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(pem.as_bytes()).unwrap();
    let client = Client::builder().server(&address).ca_file(file.path()).build().unwrap();
    assert_eq!(client.metrics().await.unwrap(), "ok");

    let error = Client::new(&address).unwrap().metrics().await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains("certificate"), "{error}");
}

#[test]
fn a_ca_file_without_certificates_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = Client::builder().ca_file(file.path()).build().unwrap_err().to_string();
    assert!(error.contains("no certificate"), "{error}");
    let error = Client::builder().ca_file("/nowhere").build().unwrap_err().to_string();
    assert!(error.contains("/nowhere"), "{error}");
}
