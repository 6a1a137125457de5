//! Storage that speaks S3, for a test: a real service over a directory, which checks signatures.

use std::net::SocketAddr;
use std::path::PathBuf;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use s3s_fs::FileSystem;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

pub const ACCESS_KEY: &str = "AKIDBELLWETHER";
pub const SECRET_KEY: &str = "a-secret-of-forty-characters-or-less";

/// A service with a bucket, until it is dropped.
pub struct Storage {
    address: SocketAddr,
    directory: tempfile::TempDir,
    /// Threads of its own: some tests have no runtime. There is one until it is dropped.
    runtime: Option<Runtime>,
}

impl Drop for Storage {
    fn drop(&mut self) {
        // Other tests have one, in which nobody may wait for these threads.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Storage {
    /// Starts it, with this bucket.
    pub fn start(bucket: &str) -> Storage {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join(bucket)).unwrap();
        let mut service = S3ServiceBuilder::new(FileSystem::new(directory.path()).unwrap());
        service.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
        let service = service.build();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
        runtime.spawn(async move {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((socket, _)) = listener.accept().await {
                let service = service.clone();
                tokio::spawn(async move {
                    let http = Builder::new(TokioExecutor::new());
                    // Whoever breaks a connection off has its reasons.
                    let _ = http.serve_connection(TokioIo::new(socket), service).await;
                });
            }
        });
        Storage { address, directory, runtime: Some(runtime) }
    }

    /// What the environment of whoever uses it has.
    pub fn variables(&self) -> Vec<(String, String)> {
        variables(&format!("http://{}", self.address), SECRET_KEY)
    }

    /// Where an object is kept.
    #[allow(dead_code, reason = "not all tests look there")]
    pub fn path(&self, object: &str) -> PathBuf {
        self.directory.path().join(object)
    }
}

/// What the environment has that names an endpoint and keys.
pub fn variables(endpoint: &str, secret: &str) -> Vec<(String, String)> {
    let set = [
        ("AWS_ENDPOINT_URL", endpoint),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_REGION", "eu-north-1"),
        ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
        ("AWS_SECRET_ACCESS_KEY", secret),
    ];
    set.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}
