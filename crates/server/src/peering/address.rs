//! The address at which a node is dialled, as people write it.
//!
//! The port may be left out, and is that of every node then. What is kept is one way of writing it, so
//! that two addresses can be compared. Names are not looked up here.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, de};

/// The port on which nodes listen for one another, unless they are told otherwise.
pub const PEER_PORT: u16 = 2356;
/// The longest name of a host.
const NAME_MAX: usize = 253;

/// Where a node is dialled: a host and a port.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PeerAddress {
    host: Host,
    port: u16,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Host {
    Ip(IpAddr),
    /// In small letters.
    Name(String),
}

impl PeerAddress {
    /// Whether only this machine can be meant. A name other than `localhost` may be anybody's.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        match &self.host {
            Host::Ip(ip) => ip.is_loopback(),
            Host::Name(name) => name == "localhost",
        }
    }
}

impl From<SocketAddr> for PeerAddress {
    fn from(address: SocketAddr) -> PeerAddress {
        PeerAddress { host: Host::Ip(address.ip()), port: address.port() }
    }
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = self.port;
        match &self.host {
            Host::Ip(ip) => SocketAddr::new(*ip, port).fmt(f),
            Host::Name(name) => write!(f, "{name}:{port}"),
        }
    }
}

impl FromStr for PeerAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<PeerAddress, String> {
        parse(text.trim()).map_err(|why| {
            format!(
                "'{text}' is not the address of a node: {why}; write HOST or HOST:PORT, such as \
                 10.0.0.1, node-a:{PEER_PORT} or [2001:db8::1]:{PEER_PORT}"
            )
        })
    }
}

impl<'de> Deserialize<'de> for PeerAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PeerAddress, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

fn parse(text: &str) -> Result<PeerAddress, &'static str> {
    if text.contains('/') {
        return Err("it is a host and a port, without 'http://' or anything behind");
    }
    if text.contains('%') {
        return Err("addresses with a zone ('%') cannot be dialled by others");
    }
    // An address of many colons has no port, unless it is in brackets.
    let (host, port) = match text.strip_prefix('[').map(|rest| rest.split_once(']')) {
        Some(Some((host, ""))) => (Host::Ip(IpAddr::V6(v6(host)?)), None),
        Some(Some((host, rest))) => {
            (Host::Ip(IpAddr::V6(v6(host)?)), Some(rest.strip_prefix(':').unwrap_or_default()))
        }
        Some(None) => return Err("the bracket is not closed"),
        None if text.matches(':').count() > 1 => (Host::Ip(IpAddr::V6(v6(text)?)), None),
        None => match text.split_once(':') {
            Some((host, port)) => (named(host)?, Some(port)),
            None => (named(text)?, None),
        },
    };
    if matches!(&host, Host::Ip(ip) if ip.is_unspecified()) {
        return Err("it stands for all addresses of a machine, and cannot be dialled");
    }
    let port = match port.map(str::parse::<u16>) {
        None => PEER_PORT,
        Some(Ok(port)) if port > 0 => port,
        Some(_) => return Err("the port must be a number from 1 to 65535"),
    };
    Ok(PeerAddress { host, port })
}

fn v6(text: &str) -> Result<Ipv6Addr, &'static str> {
    text.parse().map_err(|_| "it is no IPv6 address")
}

fn named(text: &str) -> Result<Host, &'static str> {
    if text.is_empty() {
        return Err("there is no host");
    }
    if let Ok(ip) = text.parse::<Ipv4Addr>() {
        return Ok(Host::Ip(IpAddr::V4(ip)));
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let label = |label: &str| !label.is_empty() && label.bytes().all(allowed);
    // A dot at the end says that the name is whole.
    let name = text.strip_suffix('.').unwrap_or(text);
    if name.len() > NAME_MAX || !name.split('.').all(label) {
        return Err("a host's name has letters, digits, '-', '_' and dots between them");
    }
    let last = name.rsplit('.').next().unwrap_or_default();
    if last.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("it is no IPv4 address");
    }
    Ok(Host::Name(text.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn read(text: &str) -> Result<String, String> {
        text.parse::<PeerAddress>().map(|address| address.to_string())
    }

    #[test]
    fn r126_an_address_without_a_port_means_that_of_every_node() {
        for (text, means) in [
            ("node-a", "node-a:2356"),
            ("Node_A.Example.", "node_a.example.:2356"),
            ("node-a:9000", "node-a:9000"),
            ("10.0.0.1", "10.0.0.1:2356"),
            ("10.0.0.1:9000", "10.0.0.1:9000"),
            ("[2001:db8::1]", "[2001:db8::1]:2356"),
            ("[2001:DB8:0::1]:9000", "[2001:db8::1]:9000"),
            ("2001:db8::1", "[2001:db8::1]:2356"),
            ("::1", "[::1]:2356"),
            (" b ", "b:2356"),
        ] {
            assert_eq!(read(text).unwrap(), means, "{text}");
            assert_eq!(read(means).unwrap(), means, "what is written is read again");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_what_to_write() {
        for (text, why) in [
            ("", "no host"),
            (":2356", "no host"),
            ("a:", "from 1 to 65535"),
            ("a:0", "from 1 to 65535"),
            ("a:65536", "from 1 to 65535"),
            ("a:b", "from 1 to 65535"),
            ("[::1]2356", "from 1 to 65535"),
            ("[::1", "not closed"),
            ("[10.0.0.1]:1", "no IPv6"),
            ("a:1:2", "no IPv6"),
            ("10.0.0.300", "no IPv4"),
            ("10.0.1:2356", "no IPv4"),
            ("0.0.0.0:2356", "cannot be dialled"),
            ("::", "cannot be dialled"),
            ("fe80::1%2", "zone"),
            ("http://a:2356", "http://"),
            ("a b", "letters"),
            ("a..b", "letters"),
            ("ä", "letters"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(why) && error.contains("HOST:PORT"), "{text}: {error}");
        }
    }

    #[test]
    fn only_what_says_so_is_loopback() {
        let is_loopback = |text: &str| text.parse::<PeerAddress>().unwrap().is_loopback();
        for text in ["127.0.0.1", "127.9.9.9:1", "::1", "[::1]:9", "localhost", "LocalHost:1"] {
            assert!(is_loopback(text), "{text}");
        }
        for text in ["10.0.0.1", "node-a", "localhost.example", "2001:db8::1"] {
            assert!(!is_loopback(text), "{text}");
        }
    }
}
