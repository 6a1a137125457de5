//! Requests: what a job with an `http` target sends, and where. Headers and bodies are checked in
//! the same way for messages to brokers.

use std::collections::BTreeMap;

use bellwether_api::{HttpAuth, HttpTarget, MASK, Problem};
use bellwether_core::record::{self, BasicAuth, Header};
use bellwether_worker as worker;
use bytes::Bytes;
use serde_json::value::RawValue;

use super::limits::{
    CONNECT_TIMEOUT_MAX_MS, HEADERS_BYTES_MAX, HEADERS_MAX, PAYLOAD_BYTES_MAX, URL_BYTES_MAX,
    USERNAME_CHARS_MAX,
};
use super::name::longer_than;
use super::problem::{invalid, path, sentence, span_within, too_large, too_long, too_many};
use super::secret::Pieces;
use super::target::stored_json;
use super::unmask::masked;

/// Any valid URL, for checks of the worker's that are not about the URL.
const SOME_URL: &str = "http://localhost/";

/// The request of a job.
pub(super) fn http(http: HttpTarget) -> Result<record::HttpTarget, Problem> {
    let url = url(http.url)?;
    let method = method(http.method)?;
    let headers = headers("http.headers", http.headers, check_header)?;
    let (body, body_is_json) = body("http.body", http.body)?;
    let (basic, bearer) = auth(http.auth, &headers)?;
    let connect_timeout_ms = match http.connect_timeout {
        None => 0,
        Some(span) => span_within("http.connect_timeout", span, 1, CONNECT_TIMEOUT_MAX_MS)?,
    };
    Ok(record::HttpTarget {
        method,
        url,
        headers,
        body,
        body_is_json,
        basic,
        bearer,
        follow_redirects: http.follow_redirects.unwrap_or(false),
        connect_timeout_ms,
    })
}

fn url(url: String) -> Result<String, Problem> {
    let wrong = |detail: &str| invalid("invalid_url", "http.url", detail);
    if url.len() > URL_BYTES_MAX {
        return Err(too_long("http.url", URL_BYTES_MAX, "bytes"));
    }
    if url.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(wrong("the URL contains spaces or control characters; write a space as %20"));
    }
    // Other spellings would be understood, but user and password could not be found in them.
    let lower = url.get(..8).unwrap_or(&url).to_ascii_lowercase();
    let authority = lower.strip_prefix("http://").or_else(|| lower.strip_prefix("https://"));
    if authority.is_none() {
        return Err(wrong("the URL must start with http:// or https://"));
    }
    let rest = &url[url.find("://").map_or(0, |at| at + 3)..];
    if rest.starts_with(['/', '\\', '?', '#']) || rest.is_empty() {
        return Err(wrong("the URL has no host"));
    }
    worker::HttpTarget::new("GET", url.as_str())
        .validate()
        .map_err(|text| wrong(&sentence(&text)))?;
    if Pieces::of_url(&url).has_mask() {
        return Err(masked("http.url"));
    }
    Ok(url)
}

fn method(method: Option<String>) -> Result<String, Problem> {
    let Some(method) = method else {
        return Ok(String::new());
    };
    let method = method.to_ascii_uppercase();
    let check = worker::HttpTarget::new(method.as_str(), SOME_URL).validate();
    check.map_err(|text| invalid("invalid_method", "http.method", sentence(&text)))?;
    Ok(method)
}

fn check_header(name: &str, value: &str) -> Result<(), String> {
    let mut probe = worker::HttpTarget::new("GET", SOME_URL);
    probe.headers.push((name.to_owned(), value.to_owned()));
    probe.validate().map(|_| ())
}

/// Headers as they are stored, each of which passes the worker's own check.
pub(super) fn headers(
    field: &str,
    headers: BTreeMap<String, String>,
    check: impl Fn(&str, &str) -> Result<(), String>,
) -> Result<Vec<Header>, Problem> {
    if headers.len() > HEADERS_MAX {
        return Err(too_many(field, headers.len(), HEADERS_MAX));
    }
    let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > HEADERS_BYTES_MAX {
        return Err(too_long(field, HEADERS_BYTES_MAX, "bytes"));
    }
    let mut stored: Vec<Header> = Vec::with_capacity(headers.len());
    for (name, value) in headers {
        let field = path(field, &name);
        if stored.iter().any(|earlier| earlier.name.eq_ignore_ascii_case(&name)) {
            let detail = "the header is there twice, with other capitals";
            return Err(invalid("invalid_header", field, detail));
        }
        if Pieces::of_value(&name, &value).has_mask() {
            return Err(masked(field));
        }
        check(&name, &value).map_err(|text| invalid("invalid_header", field, sentence(&text)))?;
        stored.push(Header { name, value });
    }
    Ok(stored)
}

/// The body as it is sent, and whether it is JSON: a text is sent without its quotes.
pub(super) fn body(field: &str, body: Option<Box<RawValue>>) -> Result<(Bytes, bool), Problem> {
    let Some(raw) = body else {
        return Ok((Bytes::new(), false));
    };
    if !raw.get().starts_with('"') {
        let text = stored_json(field, raw)?;
        return Ok((Bytes::from(text.into_string().into_bytes()), true));
    }
    let text: String = serde_json::from_str(raw.get())
        .map_err(|_| invalid("invalid_value", field, "the body is not a text that can be sent"))?;
    if text.len() > PAYLOAD_BYTES_MAX {
        return Err(too_large(field, text.len(), PAYLOAD_BYTES_MAX));
    }
    Ok((Bytes::from(text.into_bytes()), false))
}

fn auth(
    auth: Option<HttpAuth>,
    headers: &[Header],
) -> Result<(Option<BasicAuth>, String), Problem> {
    let Some(auth) = auth else {
        return Ok((None, String::new()));
    };
    let wrong = |field: &str, detail: &str| Err(invalid("invalid_auth", field, detail));
    let (given, basic, bearer) = match (auth.basic, auth.bearer) {
        (Some(basic), None) => {
            if basic.password == MASK {
                return Err(masked("http.auth.basic.password"));
            }
            if longer_than(&basic.username, USERNAME_CHARS_MAX) {
                return Err(too_long("http.auth.basic.username", USERNAME_CHARS_MAX, "characters"));
            }
            if basic.password.len() > URL_BYTES_MAX {
                return Err(too_long("http.auth.basic.password", URL_BYTES_MAX, "bytes"));
            }
            let (username, password) = (basic.username, basic.password);
            let given =
                worker::Auth::Basic { username: username.clone(), password: password.clone() };
            (given, Some(BasicAuth { username, password }), String::new())
        }
        (None, Some(token)) if token.is_empty() => {
            return wrong("http.auth.bearer", "the token is empty");
        }
        (None, Some(token)) => {
            if token == MASK {
                return Err(masked("http.auth.bearer"));
            }
            if token.len() > URL_BYTES_MAX {
                return Err(too_long("http.auth.bearer", URL_BYTES_MAX, "bytes"));
            }
            (worker::Auth::Bearer { token: token.clone() }, None, token)
        }
        (None, None) => return wrong("http.auth", "give `basic` or `bearer`"),
        (Some(_), Some(_)) => return wrong("http.auth", "give either `basic` or `bearer`"),
    };
    let mut probe = worker::HttpTarget::new("GET", SOME_URL);
    probe.auth = Some(given);
    probe.headers = headers.iter().map(|h| (h.name.clone(), h.value.clone())).collect();
    match probe.validate() {
        Ok(_) => Ok((basic, bearer)),
        Err(text) => wrong("http.auth", &sentence(&text)),
    }
}
