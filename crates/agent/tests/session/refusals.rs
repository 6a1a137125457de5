//! Servers that do not want a worker, and secure connections that cannot be had.

use std::sync::Arc;
use std::time::Duration;

use bellwether_agent::{Session, SessionError};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tonic::Status;

use crate::fake::{FakeServer, Worker, manners, options};

async fn refused(status: Status) -> SessionError {
    let mut rude = manners(5_000);
    rude.refusal = Some(status);
    let server = FakeServer::start(rude);
    let mut options = options(&server.address.to_string());
    options.name_patience = Duration::from_millis(300);
    Worker::start(options, Vec::new()).ends().await.unwrap_err()
}

#[tokio::test]
async fn a_server_that_refuses_is_told_with_its_reason() {
    let error = refused(Status::unauthenticated("the token is not valid")).await;
    assert!(matches!(error, SessionError::NotAllowed(_)), "{error}");
    assert!(error.to_string().contains("the token is not valid"));
    let error = refused(Status::already_exists("it runs on host h")).await;
    assert!(matches!(error, SessionError::NameTaken(_)), "{error}");
    assert_eq!(error.to_string(), "it runs on host h");
    let error = refused(Status::invalid_argument("no such queue")).await;
    assert!(matches!(error, SessionError::Invalid(_)), "{error}");
    let error = refused(Status::unimplemented("")).await;
    assert!(matches!(error, SessionError::NotAServer { .. }), "{error}");
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_is_an_error_and_not_a_reason_to_wait() {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = acceptor.accept(stream).await;
        }
    });
    let worker = Worker::start(options(&format!("https://localhost:{port}")), Vec::new());
    let error = worker.ends().await.unwrap_err();
    assert!(matches!(error, SessionError::Tls { .. }), "{error}");
}

#[tokio::test]
async fn authorities_that_cannot_be_read_are_told_at_once() {
    let mut options = options("https://localhost:1");
    options.ca_file = Some("/no/such/file".into());
    let Err(error) = Session::new(options) else { panic!("it was read") };
    assert!(error.to_string().contains("/no/such/file"), "{error}");
}
