//! Whether the settings of the port for other nodes can be meant: it is not open by accident, and
//! others can reach it.

use anyhow::bail;

use super::PeerAddress;
use crate::config::{Config, InvalidConfig};

/// Shortest secret.
const SECRET_MIN: usize = 16;

/// Checks that the port for other nodes is not open by accident, and that others can reach it.
///
/// # Errors
/// A message that says what to do.
pub fn check(config: &Config) -> anyhow::Result<()> {
    if let Some(secret) = &config.cluster_secret
        && (secret.len() < SECRET_MIN || !secret.bytes().all(|byte| byte.is_ascii_graphic()))
    {
        bail!(InvalidConfig(format!(
            "the cluster secret must have at least {SECRET_MIN} characters, all of them visible \
             ASCII without spaces"
        )));
    }
    let Some(listen) = config.peer_listen else {
        if !config.join.is_empty() {
            bail!(InvalidConfig(
                "--join needs --peer-listen: other nodes must reach this one".to_owned()
            ));
        }
        return Ok(());
    };
    let guarded = config.peer_tls.is_some() || config.cluster_secret.is_some();
    if !listen.ip().is_loopback() && !guarded && !config.insecure_peers {
        bail!(InvalidConfig(format!(
            "{listen} can be reached from other machines, and whoever reaches it could join the \
             cluster: make certificates with 'bellwether cluster certs' and give --peer-ca, \
             --peer-cert and --peer-key, or give all nodes the same --cluster-secret-file, or say \
             --insecure-peers to go without both (--insecure is for the API alone), or listen on \
             loopback"
        )));
    }
    if listen.ip().is_unspecified() && config.peer_advertise.is_none() {
        bail!(InvalidConfig(format!(
            "{listen} is not an address that other nodes can dial: give --peer-advertise HOST:PORT"
        )));
    }
    check_reachable(config, listen.into())
}

/// A node that only its own machine can reach must not join nodes elsewhere: they would count on it, and
/// never hear it.
fn check_reachable(config: &Config, listen: PeerAddress) -> anyhow::Result<()> {
    let advertised = config.peer_advertise.clone().unwrap_or(listen);
    let elsewhere = config.join.iter().find(|address| !address.is_loopback());
    if let Some(elsewhere) = elsewhere.filter(|_| advertised.is_loopback()) {
        bail!(InvalidConfig(format!(
            "{elsewhere} is on another machine and could not reach this node at {advertised}: give \
             --peer-listen ADDRESS:2356 with an address of this machine that other nodes can dial \
             (or --peer-advertise, if they dial another one)"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// A node that listens and joins, and knows a secret.
    fn node(listen: &str, advertise: &str, join: &[&str]) -> Config {
        Config {
            peer_listen: Some(listen.parse().unwrap()),
            peer_advertise: (!advertise.is_empty()).then(|| advertise.parse().unwrap()),
            join: join.iter().map(|address| address.parse().unwrap()).collect(),
            cluster_secret: Some("known-to-these-nodes".to_owned()),
            ..Config::default()
        }
    }

    fn refusal(config: &Config) -> String {
        let refused = check(config).unwrap_err();
        refused.downcast::<InvalidConfig>().expect("a setting is wrong").0
    }

    #[test]
    fn r126_a_node_that_others_cannot_reach_does_not_join_them() {
        for (listen, advertise, join) in [
            ("127.0.0.1:2356", "", &["10.0.0.1"][..]),
            ("127.0.0.1:2356", "", &["node-a"]),
            ("127.0.0.1:2356", "", &["127.0.0.1:9", "10.0.0.1"]),
            ("[::1]:2356", "", &["10.0.0.1"]),
            ("10.0.0.2:2356", "localhost", &["10.0.0.1"]),
        ] {
            let said = refusal(&node(listen, advertise, join));
            assert!(said.contains("--peer-listen ADDRESS:2356"), "{said}");
            assert!(said.contains("--peer-advertise"), "{said}");
        }
        for (listen, advertise, join) in [
            ("127.0.0.1:2356", "", &["127.0.0.1:9", "localhost:10"][..]),
            ("127.0.0.1:2356", "", &[]),
            ("127.0.0.1:2356", "node-b", &["10.0.0.1"]),
            ("10.0.0.2:2356", "", &["10.0.0.1"]),
            ("0.0.0.0:2356", "node-b", &["10.0.0.1"]),
        ] {
            check(&node(listen, advertise, join)).unwrap();
        }
    }

    #[test]
    fn r126_the_port_for_nodes_is_not_open_by_accident() {
        let guarded = node("10.0.0.2:2356", "", &[]);
        check(&guarded).unwrap();
        let open = Config { cluster_secret: None, ..guarded };
        for insecure in [false, true] {
            let said = refusal(&Config { insecure, ..open.clone() });
            for choice in
                ["cluster certs", "--peer-cert", "--cluster-secret-file", "--insecure-peers"]
            {
                assert!(said.contains(choice), "{choice}: {said}");
            }
        }
        check(&Config { insecure_peers: true, ..open.clone() }).unwrap();
        let at_home = node("127.0.0.1:2356", "", &[]);
        check(&Config { cluster_secret: None, ..at_home }).unwrap();
    }
}
