//! Masks credentials that a target sends back.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Request;
use reqwest::header::AUTHORIZATION;

use crate::attempt::{Auth, HttpTarget};

/// Shorter values are not looked for: they would hit ordinary text.
const SECRET_BYTES_MIN: usize = 4;
/// What stands in place of a secret.
const MASKED: &[u8] = b"***";

/// The secrets of one request.
pub(super) struct Mask {
    /// Longest first, so that a secret that contains another is masked whole.
    secrets: Vec<Vec<u8>>,
}

impl Mask {
    pub(super) fn new(target: &HttpTarget, request: &Request) -> Mask {
        let mut secrets: Vec<Vec<u8>> = Vec::new();
        match &target.auth {
            Some(Auth::Basic { username, password }) => {
                secrets.push(password.clone().into_bytes());
                secrets.push(STANDARD.encode(format!("{username}:{password}")).into_bytes());
            }
            Some(Auth::Bearer { token }) => secrets.push(token.clone().into_bytes()),
            None => {}
        }
        for (name, value) in &target.headers {
            if is_secret(&name.to_ascii_lowercase()) {
                secrets.push(value.clone().into_bytes());
            }
        }
        // Covers credentials from the URL, and those given as a header, without their scheme.
        if let Some(value) = request.headers().get(AUTHORIZATION) {
            let value = value.as_bytes();
            let bare = value.splitn(2, |byte| *byte == b' ').last().unwrap_or(value);
            secrets.push(bare.to_vec());
            if let Ok(pair) = STANDARD.decode(bare)
                && let Some(colon) = pair.iter().position(|byte| *byte == b':')
            {
                secrets.push(pair[colon + 1..].to_vec());
            }
        }
        secrets.retain(|secret| secret.len() >= SECRET_BYTES_MIN);
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Mask { secrets }
    }

    /// The length of the longest secret.
    pub(super) fn longest(&self) -> usize {
        self.secrets.first().map_or(0, Vec::len)
    }

    /// The text with every secret replaced.
    pub(super) fn bytes(&self, text: &[u8]) -> Vec<u8> {
        let mut masked = Vec::with_capacity(text.len());
        let mut at = 0;
        while at < text.len() {
            match self.secrets.iter().find(|secret| text[at..].starts_with(secret)) {
                Some(secret) => {
                    masked.extend_from_slice(MASKED);
                    at += secret.len();
                }
                None => {
                    masked.push(text[at]);
                    at += 1;
                }
            }
        }
        masked
    }
}

/// Whether a header of this name usually carries a credential.
fn is_secret(name: &str) -> bool {
    name == "cookie"
        || ["auth", "token", "secret", "password", "api-key", "apikey", "access-key"]
            .iter()
            .any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r55_echoed_credentials_are_masked() {
        let mut target = HttpTarget::new("GET", "http://ana:from-the-url@localhost/");
        target.headers =
            vec![("X-Api-Key".into(), "key-1234".into()), ("Accept".into(), "text/plain".into())];
        let mut request =
            Request::new(reqwest::Method::GET, reqwest::Url::parse("http://localhost/").unwrap());
        let encoded = STANDARD.encode("ana:from-the-url");
        request.headers_mut().insert(AUTHORIZATION, format!("Basic {encoded}").parse().unwrap());
        let mask = Mask::new(&target, &request);
        let echo = format!("Basic {encoded} key-1234 from-the-url text/plain key-123");
        let masked = String::from_utf8(mask.bytes(echo.as_bytes())).unwrap();
        assert_eq!(masked, "Basic *** *** *** text/plain key-123");
        assert_eq!(mask.longest(), encoded.len());
    }
}
