//! A cluster's own certificate authority, and the certificates of its nodes.
//!
//! Nothing is read or written here: certificates and keys are texts (PEM). A node's certificate is
//! good for both ends of a connection, under the node's name and all its addresses.

use std::net::IpAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use jiff::civil::Date;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::exit::usage;

/// For how long the authority is good.
const AUTHORITY_DAYS: u32 = 3_653;

/// The longest name of a host.
const HOST_MAX: usize = 253;

/// A certificate and the key to it.
pub struct Pair {
    /// The certificate.
    pub cert: String,
    /// The key.
    pub key: String,
    /// The last day on which it is good.
    pub until: Date,
}

/// The name of a node, which is also that of its files.
pub fn node_name(text: &str) -> Result<String, String> {
    if text.eq_ignore_ascii_case("ca") {
        return Err("the authority's own files have this name; give the node another".to_owned());
    }
    if text.len() > 63 || !is_host(text) {
        return Err("a node's name has up to 63 letters, digits, '-' and '.'".to_owned());
    }
    Ok(text.to_owned())
}

/// An address of a node without a port: of the internet protocol, or a host's name.
pub fn address(text: &str) -> Result<String, String> {
    if text.parse::<IpAddr>().is_ok() || is_host(text) {
        return Ok(text.to_owned());
    }
    let has_port = text.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    Err(match has_port {
        true => "certificates are for addresses without a port".to_owned(),
        false => "that is neither an IP address nor the name of a host".to_owned(),
    })
}

fn is_host(text: &str) -> bool {
    let is_label = |label: &str| {
        let known = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        known && !label.is_empty() && !label.starts_with('-') && !label.ends_with('-')
    };
    text.len() <= HOST_MAX && text.split('.').all(is_label)
}

/// Makes a new authority.
pub fn new_authority(today: Date) -> Result<Pair> {
    let mut params = params(Vec::new(), "Bellwether cluster authority")?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let until = good_for(&mut params, today, AUTHORITY_DAYS)?;
    let key = KeyPair::generate().context("cannot make a key")?;
    let cert = params.self_signed(&key).context("cannot make the authority's certificate")?;
    Ok(Pair { cert: cert.pem(), key: key.serialize_pem(), until })
}

/// Makes a certificate for a node, from an authority's certificate and key.
pub fn new_node(
    (ca_cert, ca_key): (&str, &str),
    name: &str,
    addresses: &[String],
    today: Date,
    days: u32,
) -> Result<Pair> {
    check_pair(ca_cert, ca_key)?;
    let ca_key = KeyPair::from_pem(ca_key).context("the authority's key cannot be used")?;
    let issuer = Issuer::from_ca_cert_pem(ca_cert, ca_key)
        .context("the authority's certificate cannot be used")?;
    let mut names = vec![name.to_owned()];
    for address in addresses {
        if !names.contains(address) {
            names.push(address.clone());
        }
    }
    let mut params = params(names, name)?;
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let until = good_for(&mut params, today, days)?;
    let key = KeyPair::generate().context("cannot make a key")?;
    let cert = params.signed_by(&key, &issuer).context("cannot make the node's certificate")?;
    Ok(Pair { cert: cert.pem(), key: key.serialize_pem(), until })
}

fn params(names: Vec<String>, common_name: &str) -> Result<CertificateParams> {
    let mut params = CertificateParams::new(names).context("a name cannot be used")?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    Ok(params)
}

/// From yesterday, since clocks differ, for so many days. The last one.
fn good_for(params: &mut CertificateParams, today: Date, days: u32) -> Result<Date> {
    let day = |date: Date| -> Result<_> {
        let (month, day) = (u8::try_from(date.month())?, u8::try_from(date.day())?);
        Ok(rcgen::date_time_ymd(i32::from(date.year()), month, day))
    };
    let until = today.checked_add(jiff::Span::new().days(i64::from(days)))?;
    params.not_before = day(today.yesterday()?)?;
    params.not_after = day(until.tomorrow()?)?;
    Ok(until)
}

/// A certificate and a key that do not belong together would make certificates that nobody accepts.
fn check_pair(cert: &str, key: &str) -> Result<()> {
    let cert = CertificateDer::from_pem_slice(cert.as_bytes())
        .context("the authority's certificate cannot be used")?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
        .context("the authority's key cannot be used")?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    match CertifiedKey::from_der(vec![cert], key, &provider) {
        Err(rustls::Error::InconsistentKeys(_)) => {
            Err(usage("the authority's key does not belong to its certificate"))
        }
        other => other.map(drop).context("the authority's files cannot be used"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_are_checked() {
        assert_eq!(node_name("db-1.example"), Ok("db-1.example".to_owned()));
        for bad in ["", "ca", "CA", "../x", "a/b", "-a", "a.", "a b", &"a".repeat(64)] {
            assert!(node_name(bad).is_err(), "{bad}");
        }
        for good in ["10.0.0.1", "::1", "node.example", "localhost"] {
            assert_eq!(address(good), Ok(good.to_owned()));
        }
        for (bad, said) in [
            ("10.0.0.1:2356", "without a port"),
            ("[::1]:2356", "without a port"),
            ("http://a", "neither an IP address nor the name of a host"),
            ("", "neither"),
        ] {
            assert!(address(bad).unwrap_err().contains(said), "{bad}");
        }
    }

    #[test]
    fn a_key_of_another_authority_is_not_used() {
        let today = jiff::civil::date(2026, 11, 15);
        let (one, other) = (new_authority(today).unwrap(), new_authority(today).unwrap());
        assert_eq!(one.until, jiff::civil::date(2036, 11, 15));
        let mixed = new_node((&one.cert, &other.key), "a", &[], today, 1).err().unwrap();
        assert_eq!(mixed.to_string(), "the authority's key does not belong to its certificate");
        assert!(new_node((&one.cert, &one.key), "a", &[], today, 1).is_ok());
    }
}
