//! An HTTP request to make, and what can be said against it before it is made.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};

/// Credentials for an HTTP target.
#[derive(Clone, PartialEq, Eq)]
pub enum Auth {
    /// User name and password, sent with every request.
    Basic {
        /// The user name.
        username: String,
        /// The password.
        password: String,
    },
    /// A bearer token.
    Bearer {
        /// The token.
        token: String,
    },
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Auth::Basic { .. } => "Basic(***)",
            Auth::Bearer { .. } => "Bearer(***)",
        })
    }
}

/// A request to make.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpTarget {
    /// The method, in capitals.
    pub method: String,
    /// Where to; `http` or `https`.
    pub url: String,
    /// Headers in addition to those every request gets.
    pub headers: Vec<(String, String)>,
    /// The body; may be empty.
    pub body: Bytes,
    /// Credentials.
    pub auth: Option<Auth>,
    /// Whether to follow redirects, ten at most. If not, a 3xx is a status like any other.
    pub follow_redirects: bool,
    /// How long name lookup, connecting and the TLS handshake may take together.
    pub connect_timeout: Duration,
    /// How much of the response body is read and kept.
    pub body_limit: usize,
}

impl HttpTarget {
    /// A request with no body, headers or credentials, and the usual limits.
    #[must_use]
    pub fn new(method: impl Into<String>, url: impl Into<String>) -> HttpTarget {
        HttpTarget {
            method: method.into(),
            url: url.into(),
            headers: Vec::new(),
            body: Bytes::new(),
            auth: None,
            follow_redirects: false,
            connect_timeout: Duration::from_secs(10),
            body_limit: 64 * 1024,
        }
    }

    /// Checks what can be checked without a connection, and returns the parsed URL.
    ///
    /// # Errors
    /// A sentence that says what is wrong. It never repeats a header's value or the URL.
    pub fn validate(&self) -> Result<Url, String> {
        let url =
            Url::parse(&self.url).map_err(|error| format!("the URL is not valid: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("the URL's scheme is '{}'; use http or https", url.scheme()));
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err("the URL has no host".to_owned());
        }
        parse_method(&self.method)?;
        for (name, value) in &self.headers {
            let (name, _) = parse_header(name, value)?;
            if self.auth.is_some() && name == AUTHORIZATION {
                return Err("give either auth or an authorization header, not both".to_owned());
            }
        }
        match &self.auth {
            Some(Auth::Basic { username, .. }) if username.contains(':') => {
                Err("a user name for basic authentication cannot contain ':'".to_owned())
            }
            Some(Auth::Bearer { token }) if HeaderValue::from_str(token).is_err() => {
                Err("the bearer token contains characters that a header cannot".to_owned())
            }
            _ => Ok(url),
        }
    }
}

/// The method, which must be one of a fixed few: `CONNECT` and `TRACE` are not requests to a
/// resource.
pub(crate) fn parse_method(method: &str) -> Result<reqwest::Method, String> {
    const ALLOWED: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
    if !ALLOWED.contains(&method) {
        return Err(format!("'{method}' is not a method; use one of {}", ALLOWED.join(", ")));
    }
    reqwest::Method::from_bytes(method.as_bytes()).map_err(|_| "invalid method".to_owned())
}

/// A header as it can be sent. The value is marked as sensitive, since any header may carry a key.
pub(crate) fn parse_header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), String> {
    const OURS: [&str; 6] =
        ["connection", "content-length", "transfer-encoding", "upgrade", "te", "trailer"];
    let parsed = HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| format!("{name:?} cannot be the name of a header"))?;
    if OURS.contains(&parsed.as_str()) {
        return Err(format!("the header '{parsed}' belongs to the connection and cannot be set"));
    }
    let mut value = HeaderValue::from_str(value)
        .map_err(|_| format!("the value of header '{parsed}' contains characters it cannot"))?;
    value.set_sensitive(true);
    Ok((parsed, value))
}

/// The URL without what may be secret: user name, password, query and fragment.
pub(crate) fn public_url(url: &Url) -> String {
    let mut url = url.clone();
    // These fail only for URLs that cannot have credentials at all.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url.to_string()
}

impl fmt::Debug for HttpTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        let url = Url::parse(&self.url).map_or("(not a URL)".to_owned(), |url| public_url(&url));
        f.debug_struct("HttpTarget")
            .field("method", &self.method)
            .field("url", &url)
            .field("headers", &names)
            .field("body_bytes", &self.body.len())
            .field("auth", &self.auth)
            .field("follow_redirects", &self.follow_redirects)
            .field("connect_timeout", &self.connect_timeout)
            .field("body_limit", &self.body_limit)
            .finish()
    }
}
