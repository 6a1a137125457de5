//! What a job does: exactly one of a command, a request and a handler.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bellwether_api::{HttpAuth, HttpTarget, JobSpec, MASK, Problem, TextOrList};
use bellwether_core::record::{self, BasicAuth, CommandTarget, HandlerTarget, Header, Target};
use bellwether_worker as worker;
use bytes::Bytes;
use serde_json::value::RawValue;

use super::json;
use super::limits::{
    ARGV_BYTES_MAX, ARGV_MAX, COMMAND_BYTES_MAX, CONNECT_TIMEOUT_MAX_MS, ENV_BYTES_MAX, ENV_MAX,
    GRACE_MAX_MS, HEADERS_BYTES_MAX, HEADERS_MAX, NAME_CHARS_MAX, PAYLOAD_BYTES_MAX,
    TEXT_CHARS_MAX, URL_BYTES_MAX, USERNAME_CHARS_MAX,
};
use super::name;
use super::problem::{
    invalid, not_applicable, path, quoted, sentence, span_within, too_large, too_long, too_many,
};
use super::secret::Pieces;
use super::unmask::masked;

/// Any valid URL, for checks of the worker's that are not about the URL.
const SOME_URL: &str = "http://localhost/";

/// The target of a job. Takes its fields out of the spec.
pub(super) fn target(spec: &mut JobSpec) -> Result<Target, Problem> {
    if spec.command.is_none() {
        only_with_command(spec)?;
    }
    if spec.job_type.is_none() && spec.payload.is_some() {
        return Err(not_applicable("payload", "job_type"));
    }
    match (spec.command.take(), spec.http.take(), spec.job_type.take()) {
        (Some(command), None, None) => self::command(command, spec).map(Target::Command),
        (None, Some(http), None) => self::http(http).map(Target::Http),
        (None, None, Some(job_type)) => handler(job_type, spec).map(Target::Handler),
        (None, None, None) => Err(invalid(
            "missing_target",
            "command",
            "the job does nothing; give one of `command`, `http` and `job_type`",
        )),
        (command, _, job_type) => {
            // The last one is as good as any to point at.
            let field = match (command, job_type) {
                (_, Some(_)) => "job_type",
                _ => "http",
            };
            let detail = "a job does one thing; give only one of `command`, `http` and `job_type`";
            Err(invalid("conflicting_targets", field, detail))
        }
    }
}

fn only_with_command(spec: &JobSpec) -> Result<(), Problem> {
    for (field, given) in [
        ("env", !spec.env.is_empty()),
        ("cwd", spec.cwd.is_some()),
        ("user", spec.user.is_some()),
        ("stdin", spec.stdin.is_some()),
        ("shell", spec.shell.is_some()),
        ("grace", spec.grace.is_some()),
    ] {
        if given {
            return Err(not_applicable(field, "command"));
        }
    }
    Ok(())
}

fn handler(job_type: String, spec: &mut JobSpec) -> Result<HandlerTarget, Problem> {
    let job_type = name::free("job_type", Some(job_type), NAME_CHARS_MAX)?;
    let payload = match spec.payload.take() {
        None => Bytes::new(),
        Some(raw) => {
            let text = stored_json("payload", raw)?;
            Bytes::from(text.into_string().into_bytes())
        }
    };
    Ok(HandlerTarget { job_type, payload })
}

/// JSON that is kept as the caller wrote it, within its bounds.
fn stored_json(field: &str, raw: Box<RawValue>) -> Result<Box<str>, Problem> {
    let text: Box<str> = raw.into();
    if text.len() > PAYLOAD_BYTES_MAX {
        return Err(too_large(field, text.len(), PAYLOAD_BYTES_MAX));
    }
    json::check_stored(field, &text)?;
    Ok(text)
}

fn command(command: TextOrList, spec: &mut JobSpec) -> Result<CommandTarget, Problem> {
    let (line, argv) = match command {
        TextOrList::Text(line) => (line, Vec::new()),
        TextOrList::List(argv) => (String::new(), argv),
    };
    if line.len() > COMMAND_BYTES_MAX {
        return Err(too_long("command", COMMAND_BYTES_MAX, "bytes"));
    }
    if argv.len() > ARGV_MAX {
        return Err(too_many("command", argv.len(), ARGV_MAX));
    }
    if argv.iter().map(String::len).sum::<usize>() > ARGV_BYTES_MAX {
        return Err(too_long("command", ARGV_BYTES_MAX, "bytes"));
    }
    let shell = short_text("shell", spec.shell.take())?;
    if !shell.is_empty() && !argv.is_empty() {
        let detail = "`shell` goes only with a `command` in one line; a list of arguments is run \
                      without a shell";
        return Err(invalid("field_not_applicable", "shell", detail));
    }
    let stdin = spec.stdin.take().unwrap_or_default();
    if stdin.len() > PAYLOAD_BYTES_MAX {
        return Err(too_large("stdin", stdin.len(), PAYLOAD_BYTES_MAX));
    }
    let grace_ms = match spec.grace {
        None => 0,
        Some(grace) => span_within("grace", grace, 1, GRACE_MAX_MS)?,
    };
    let target = CommandTarget {
        line,
        argv,
        env: env(std::mem::take(&mut spec.env))?,
        cwd: short_text("cwd", spec.cwd.take())?,
        user: name::free("user", spec.user.take(), NAME_CHARS_MAX)?,
        stdin: Bytes::from(stdin.into_bytes()),
        shell,
        grace_ms,
    };
    check_command(&target)?;
    Ok(target)
}

/// A path: not empty if given.
fn short_text(field: &str, text: Option<String>) -> Result<String, Problem> {
    let Some(text) = text else {
        return Ok(String::new());
    };
    if name::longer_than(&text, TEXT_CHARS_MAX) {
        return Err(too_long(field, TEXT_CHARS_MAX, "characters"));
    }
    if text.is_empty() {
        let detail = format!("`{field}` is empty; leave it out or give an absolute path");
        return Err(invalid("invalid_command", field, detail));
    }
    Ok(text)
}

fn env(env: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Problem> {
    if env.len() > ENV_MAX {
        return Err(too_many("env", env.len(), ENV_MAX));
    }
    let bytes: usize = env.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > ENV_BYTES_MAX {
        return Err(too_long("env", ENV_BYTES_MAX, "bytes"));
    }
    for (name, value) in &env {
        let field = path("env", name);
        if name.is_empty() || name.contains(['=', '\0']) {
            let detail = format!("{} cannot be the name of a variable", quoted(name));
            return Err(invalid("invalid_env", field, detail));
        }
        if value.contains('\0') {
            let detail = "the value contains a NUL character, which a variable cannot";
            return Err(invalid("invalid_env", field, detail));
        }
        if Pieces::of_value(name, value).has_mask() {
            return Err(masked(field));
        }
    }
    Ok(env)
}

/// Has the worker's own check look at the parts, so that what is accepted can be executed.
fn check_command(target: &CommandTarget) -> Result<(), Problem> {
    let some = |text: &String| (!text.is_empty()).then(|| text.clone());
    let program = worker::CommandTarget {
        program: match target.argv.is_empty() {
            true => worker::Program::Shell(target.line.clone()),
            false => worker::Program::Argv(target.argv.clone()),
        },
        ..worker::CommandTarget::shell("true")
    };
    let checks = [
        ("command", program),
        (
            "cwd",
            worker::CommandTarget {
                cwd: some(&target.cwd).map(PathBuf::from),
                ..worker::CommandTarget::shell("true")
            },
        ),
        (
            "shell",
            worker::CommandTarget {
                shell: some(&target.shell),
                ..worker::CommandTarget::shell("true")
            },
        ),
    ];
    for (field, part) in checks {
        part.validate().map_err(|message| invalid("invalid_command", field, sentence(&message)))?;
    }
    Ok(())
}

fn http(http: HttpTarget) -> Result<record::HttpTarget, Problem> {
    let url = url(http.url)?;
    let method = method(http.method)?;
    let headers = headers(http.headers)?;
    let (body, body_is_json) = body(http.body)?;
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

fn headers(headers: BTreeMap<String, String>) -> Result<Vec<Header>, Problem> {
    if headers.len() > HEADERS_MAX {
        return Err(too_many("http.headers", headers.len(), HEADERS_MAX));
    }
    let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > HEADERS_BYTES_MAX {
        return Err(too_long("http.headers", HEADERS_BYTES_MAX, "bytes"));
    }
    let mut stored: Vec<Header> = Vec::with_capacity(headers.len());
    for (name, value) in headers {
        let field = path("http.headers", &name);
        if stored.iter().any(|earlier| earlier.name.eq_ignore_ascii_case(&name)) {
            let detail = "the header is there twice, with other capitals";
            return Err(invalid("invalid_header", field, detail));
        }
        if Pieces::of_value(&name, &value).has_mask() {
            return Err(masked(field));
        }
        let mut probe = worker::HttpTarget::new("GET", SOME_URL);
        probe.headers.push((name, value));
        probe.validate().map_err(|text| invalid("invalid_header", field, sentence(&text)))?;
        stored.extend(probe.headers.pop().map(|(name, value)| Header { name, value }));
    }
    Ok(stored)
}

/// The body as it is sent, and whether it is JSON: a text is sent without its quotes.
fn body(body: Option<Box<RawValue>>) -> Result<(Bytes, bool), Problem> {
    let Some(raw) = body else {
        return Ok((Bytes::new(), false));
    };
    if !raw.get().starts_with('"') {
        let text = stored_json("http.body", raw)?;
        return Ok((Bytes::from(text.into_string().into_bytes()), true));
    }
    let text: String = serde_json::from_str(raw.get()).map_err(|_| {
        invalid("invalid_value", "http.body", "the body is not a text that can be sent")
    })?;
    if text.len() > PAYLOAD_BYTES_MAX {
        return Err(too_large("http.body", text.len(), PAYLOAD_BYTES_MAX));
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
            if name::longer_than(&basic.username, USERNAME_CHARS_MAX) {
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
