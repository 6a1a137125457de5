//! The port for other nodes lets in those who belong to the cluster, and nobody else.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bellwether_api::JobStatus;
use bellwether_protocol::node::v1::JoinRequest;
use bellwether_protocol::node::v1::nodes_client::NodesClient;
use bellwether_raft::net::Dialing;
use bellwether_server::{Config, PeerFiles};
use bellwether_trust::PeerTls;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
};
use serde_json::json;
use tonic::Status;

use crate::nodes::{Trio, spec_of};

/// An authority, and where its certificates are.
struct Authority {
    dir: PathBuf,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new(dir: &Path, name: &str) -> Authority {
        let dir = dir.join(name);
        std::fs::create_dir(&dir).unwrap();
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        std::fs::write(dir.join("ca.crt"), issuer.pem()).unwrap();
        Authority { dir, issuer }
    }

    /// A certificate for a node at an address, and who vouches for the others.
    fn files(&self, address: &str, ca: &Authority) -> PeerFiles {
        let host = address.rsplit_once(':').unwrap().0.to_owned();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![host.clone()]).unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        let file = |end: &str| self.dir.join(format!("{host}.{end}"));
        std::fs::write(file("crt"), cert.pem()).unwrap();
        std::fs::write(file("key"), key.serialize_pem()).unwrap();
        PeerFiles { ca: ca.dir.join("ca.crt"), cert: file("crt"), key: file("key") }
    }

    /// Gives a node its certificate.
    fn vouch_for(&self, config: &mut Config) {
        let address = config.peer_listen.unwrap().to_string();
        config.peer_tls = Some(self.files(&address, self));
    }
}

/// Asks to join without saying who it is, dialling as a node would.
async fn ask(address: &str, dialing: &Dialing) -> Status {
    let mut way = NodesClient::new(dialing.way(address).unwrap());
    way.join(JoinRequest::default()).await.unwrap_err()
}

fn with_tls(files: &PeerFiles) -> Dialing {
    Dialing { tls: Some(Arc::new(PeerTls::load(files).unwrap().client)), secret: None }
}

/// Starts a node that is not let in; what it says.
async fn refused(join: &str, change: impl Fn(&mut Config)) -> String {
    let dir = tempfile::tempdir().unwrap();
    let Err(error) = Trio::try_join(&dir, join, &change).await else {
        panic!("a stranger was let in");
    };
    format!("{error:#}")
}

async fn run_a_job(trio: &Trio) {
    let spec = json!({"key": "j", "schedule": {"delay": "1s"}, "job_type": "bellwether.noop"});
    trio.nodes[2].client.create_job(spec_of(spec)).await.unwrap();
    trio.until("the job has run", async || {
        let job = trio.nodes[1].client.job("j").await;
        job.is_ok_and(|job| job.info.status == JobStatus::Completed)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r126_nodes_with_certificates_are_one_cluster_and_strangers_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let ours = Arc::new(Authority::new(dir.path(), "ours"));
    let theirs = Authority::new(dir.path(), "theirs");
    let vouching = ours.clone();
    let trio = Trio::start_with(move |config| vouching.vouch_for(config)).await;
    run_a_job(&trio).await;

    let address = trio.nodes[0].server.peer_address().unwrap();
    let before = trio.nodes[0].client.cluster().await.unwrap();
    // Whoever has a certificate of ours is understood: what it asks makes no sense.
    let known = ask(&address, &with_tls(&ours.files("127.0.0.1:1", &ours))).await;
    assert_eq!(known.code(), tonic::Code::InvalidArgument, "{known:?}");
    // One that trusts the cluster, and is not trusted by it; one without any certificate.
    let foreign = with_tls(&theirs.files("127.0.0.1:1", &ours));
    for stranger in [foreign, Dialing::default()] {
        let refused = ask(&address, &stranger).await;
        let source = std::error::Error::source(&refused);
        let unheard = source.is_some_and(|error| error.is::<tonic::transport::Error>());
        assert!(unheard, "it got no further than the connection: {refused:?}");
    }
    // Whole nodes say what is wrong, at once: one does not accept the cluster, or the cluster not it.
    let said = refused(&address, |config| theirs.vouch_for(config)).await;
    assert!(said.contains("--peer-ca") && said.contains("UnknownIssuer"), "{said}");
    let said = refused(&address, |config| {
        let address = config.peer_listen.unwrap().to_string();
        config.peer_tls = Some(theirs.files(&address, &ours));
    });
    let said = said.await;
    assert!(said.contains("does not accept the certificate of this node"), "{said}");

    let after = trio.nodes[0].client.cluster().await.unwrap();
    let names = |nodes: &[bellwether_api::Node]| -> Vec<(u64, String)> {
        nodes.iter().map(|node| (node.node, node.peer.clone())).collect()
    };
    assert_eq!(names(&after.nodes), names(&before.nodes), "nothing of the cluster has changed");
    trio.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r126_who_does_not_know_the_secret_is_told_so() {
    let know = |secret: &str| {
        let secret = secret.to_owned();
        move |config: &mut Config| config.cluster_secret = Some(secret.clone())
    };
    let trio = Trio::start_with(know("known-to-these-nodes")).await;
    run_a_job(&trio).await;
    let address = trio.nodes[0].server.peer_address().unwrap();
    let said = refused(&address, know("known-to-other-nodes")).await;
    assert!(said.contains("the secret is not that of this cluster"), "{said}");
    let said = refused(&address, |_| {}).await;
    assert!(said.contains("share a secret, and none was given"), "{said}");
    assert_eq!(trio.nodes[0].client.cluster().await.unwrap().nodes.len(), 3);
    trio.stop().await;
}
