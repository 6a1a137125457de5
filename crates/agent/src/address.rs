//! Where a server is: `HOST:PORT`, or a URL.

use std::fmt;
use std::str::FromStr;

use tonic::codegen::http::Uri;

/// The port of a server, unless the address has another.
const DEFAULT_PORT: u16 = 2355;

/// The address of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Address {
    pub(crate) tls: bool,
    /// Without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Address {
    /// The address as the target of requests.
    pub(crate) fn uri(&self, tls: bool) -> String {
        let scheme = if tls { "https" } else { "http" };
        let (open, close) = if self.host.contains(':') { ("[", "]") } else { ("", "") };
        format!("{scheme}://{open}{}{close}:{}", self.host, self.port)
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        let bad = |why: &str| {
            format!(
                "'{text}' is not the address of a server: {why}; write HOST:PORT such as \
                 127.0.0.1:{DEFAULT_PORT}, or a URL such as https://bellwether.example.com"
            )
        };
        let given = text.trim();
        let has_scheme = given.contains("://");
        let whole = if has_scheme { given.to_owned() } else { format!("http://{given}") };
        let uri: Uri = whole.parse().map_err(|error| bad(&format!("{error}")))?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(bad("only http and https are spoken")),
        };
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        if authority.contains('@') {
            return Err(bad("it must not hold a user; give the token apart"));
        }
        let after_host = authority.rsplit(']').next().unwrap_or("");
        if after_host.contains(':') && uri.port_u16().is_none() {
            return Err(bad("its port is none"));
        }
        if !matches!(uri.path_and_query().map(|path| path.as_str()), None | Some("/")) {
            return Err(bad("workers need the server itself, without a path"));
        }
        let host = uri.host().unwrap_or("").trim_matches(['[', ']']).to_owned();
        if host.is_empty() {
            return Err(bad("it has no host"));
        }
        let default = match (has_scheme, tls) {
            (false, _) => DEFAULT_PORT,
            (true, false) => 80,
            (true, true) => 443,
        };
        Ok(Address { tls, host, port: uri.port_u16().unwrap_or(default) })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.uri(self.tls))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_may_be_short_or_whole() {
        for (text, whole) in [
            ("127.0.0.1:2355", "http://127.0.0.1:2355"),
            ("localhost", "http://localhost:2355"),
            ("[::1]:9000", "http://[::1]:9000"),
            ("http://h:1/", "http://h:1"),
            ("https://b.example.com", "https://b.example.com:443"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), whole, "{text}");
        }
        for text in ["", "ftp://h", "http://u:p@h", "h:99999", "http://h/sub", "http://h/?a=b"] {
            let error = text.parse::<Address>().unwrap_err();
            assert!(error.contains("HOST:PORT"), "{text}: {error}");
        }
    }
}
