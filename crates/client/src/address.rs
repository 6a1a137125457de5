//! Where a server is: `HOST:PORT`, or a whole URL.

use reqwest::Url;

use crate::{ClientError, DEFAULT_SERVER};

/// The port of a server, unless the address has another.
const DEFAULT_PORT: u16 = 2355;

/// Reads an address into the URL that paths are added to.
///
/// Without a scheme it is plain HTTP, as a server on loopback speaks it. A path is kept, for
/// servers behind a proxy.
pub(crate) fn parse(text: &str) -> Result<Url, ClientError> {
    let bad = |why: &str| {
        ClientError::Setup(format!(
            "'{text}' is not the address of a server: {why}; write HOST:PORT such as \
             {DEFAULT_SERVER}, or a URL such as https://bellwether.example.com"
        ))
    };
    let text_trimmed = text.trim();
    let has_scheme = text_trimmed.contains("://");
    let whole = if has_scheme { text_trimmed.to_owned() } else { format!("http://{text_trimmed}") };
    let mut url = Url::parse(&whole).map_err(|error| bad(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(bad("only http and https are spoken"));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(bad("it has no host"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad("it must not hold a user; give the token apart"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(bad("it must not have a query"));
    }
    // With a scheme, its own port is meant; `HOST` alone is short for Bellwether's.
    if !has_scheme && url.port().is_none() && !text_trimmed.ends_with(":80") {
        url.set_port(Some(DEFAULT_PORT)).map_err(|()| bad("it can have no port"))?;
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_may_be_short_or_whole() {
        for (text, url) in [
            ("127.0.0.1:2355", "http://127.0.0.1:2355/"),
            ("localhost", "http://localhost:2355/"),
            ("localhost:80", "http://localhost/"),
            ("[::1]:9000", "http://[::1]:9000/"),
            ("http://h:1", "http://h:1/"),
            ("https://b.example.com", "https://b.example.com/"),
            ("https://b.example.com/sub/", "https://b.example.com/sub/"),
        ] {
            assert_eq!(parse(text).unwrap().as_str(), url, "{text}");
        }
        for text in ["", "ftp://h", "http://u:p@h", "h:99999", "http://h/?a=b", ":2355"] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains("HOST:PORT"), "{text}: {error}");
        }
    }
}
