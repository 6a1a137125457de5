//! Files of certificate authorities: what is taken, and what is said of those that are not.

#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::path::Path;

use bellwether_trust::Trust;

fn refusal(path: &Path) -> String {
    Trust::new(Some(path)).err().unwrap().to_string()
}

#[test]
fn a_file_that_cannot_be_used_is_named_with_the_reason() {
    let missing = refusal(Path::new("/no/such/file"));
    assert!(missing.starts_with("the certificate authorities in '/no/such/file' cannot be used: "));
    let mut file = tempfile::NamedTempFile::new().unwrap();
    assert!(refusal(file.path()).ends_with("it contains no certificate"));
    file.write_all(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    assert!(refusal(file.path()).contains("cannot be used"));
}

#[test]
fn what_is_in_a_file_is_trusted_and_handed_on() {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["authority".to_owned()]).unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(pem.as_bytes()).unwrap();
    let trust = Trust::new(Some(file.path())).unwrap();
    assert_eq!(trust.extra_pem(), Some(pem));
    assert!(trust.config().is_ok() && trust.config_of_file().is_ok());
    assert_eq!(Trust::new(None).unwrap().extra_pem(), None);
}
