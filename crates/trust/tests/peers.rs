//! Nodes of a cluster: they accept one another, and nobody else.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;

use bellwether_trust::{PeerFiles, PeerTls, Trust};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use rustls::{ClientConfig, ClientConnection, ConnectionCommon, ServerConfig, ServerConnection};

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// The files of a node of this name, which trusts `trusts` and has its certificate from `from`.
fn files(directory: &Path, name: &str, trusts: &Authority, from: &Authority) -> PeerFiles {
    let file = |end: &str, text: String| {
        let path = directory.join(format!("{name}.{end}"));
        std::fs::write(&path, text).unwrap();
        path
    };
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let cert = params.signed_by(&key, from).unwrap();
    PeerFiles {
        ca: file("ca", trusts.pem()),
        cert: file("crt", cert.pem()),
        key: file("key", key.serialize_pem()),
    }
}

/// Lets two ends talk until both are content, or one has refused: what it said.
fn handshake(client: &ClientConfig, name: &str, server: &ServerConfig) -> Result<(), String> {
    let name = name.to_owned().try_into().unwrap();
    let mut client = ClientConnection::new(Arc::new(client.clone()), name).unwrap();
    let mut server = ServerConnection::new(Arc::new(server.clone())).unwrap();
    while client.is_handshaking() || server.is_handshaking() {
        pass(&mut client, &mut server)?;
        pass(&mut server, &mut client)?;
    }
    Ok(())
}

fn pass<A, B>(from: &mut ConnectionCommon<A>, to: &mut ConnectionCommon<B>) -> Result<(), String> {
    let mut bytes = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut bytes).unwrap();
    }
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        to.read_tls(&mut rest).unwrap();
        to.process_new_packets().map_err(|error| error.to_string())?;
    }
    Ok(())
}

#[test]
fn nodes_of_one_authority_accept_one_another() {
    let (directory, ours) = (tempfile::tempdir().unwrap(), authority());
    let of = |name| PeerTls::load(&files(directory.path(), name, &ours, &ours)).unwrap();
    let (a, b) = (of("a.example"), of("b.example"));
    assert_eq!(handshake(&a.client, "b.example", &b.server), Ok(()));
    assert_eq!(handshake(&b.client, "a.example", &a.server), Ok(()));
    let wrong = handshake(&a.client, "c.example", &b.server).unwrap_err();
    assert!(wrong.contains("not valid for name"), "{wrong}");
}

#[test]
fn a_node_of_another_authority_is_refused_at_both_ends() {
    let directory = tempfile::tempdir().unwrap();
    let (ours, theirs) = (authority(), authority());
    let load = |files: &PeerFiles| PeerTls::load(files).unwrap();
    let node = load(&files(directory.path(), "a.example", &ours, &ours));
    // It trusts us, but we have no reason to trust it.
    let stranger = load(&files(directory.path(), "b.example", &ours, &theirs));
    let refused = handshake(&stranger.client, "a.example", &node.server).unwrap_err();
    assert!(refused.contains("invalid peer certificate"), "{refused}");
    let refused = handshake(&node.client, "b.example", &stranger.server).unwrap_err();
    assert!(refused.contains("invalid peer certificate"), "{refused}");
}

#[test]
fn nobody_is_accepted_without_a_certificate() {
    let (directory, ours) = (tempfile::tempdir().unwrap(), authority());
    let own = files(directory.path(), "a.example", &ours, &ours);
    let node = PeerTls::load(&own).unwrap();
    let anybody = Trust::new(Some(&own.ca)).unwrap().config_of_file().unwrap();
    let refused = handshake(&anybody, "a.example", &node.server).unwrap_err();
    assert!(refused.contains("certificate"), "{refused}");
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let (directory, ours) = (tempfile::tempdir().unwrap(), authority());
    let good = files(directory.path(), "a.example", &ours, &ours);
    let other = files(directory.path(), "b.example", &ours, &ours);
    let said = |files: PeerFiles| PeerTls::load(&files).unwrap_err().to_string();
    let missing = said(PeerFiles { ca: "/no/ca".into(), ..good.clone() });
    assert!(missing.starts_with("the certificate authorities in '/no/ca' cannot be used: "));
    let missing = said(PeerFiles { cert: "/no/crt".into(), ..good.clone() });
    assert!(missing.starts_with("the certificate in '/no/crt' cannot be used: "), "{missing}");
    let empty = said(PeerFiles { cert: good.key.clone(), ..good.clone() });
    assert!(empty.ends_with("it contains no certificate"), "{empty}");
    let missing = said(PeerFiles { key: "/no/key".into(), ..good.clone() });
    assert!(missing.starts_with("the key in '/no/key' cannot be used: "), "{missing}");
    let mixed = said(PeerFiles { key: other.key.clone(), ..good });
    assert!(mixed.contains("it does not belong to the key in '"), "{mixed}");
}
