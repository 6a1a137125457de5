//! What is to be executed: one attempt of one run, complete in itself.
//!
//! Nothing here is stored or sent as it stands; callers translate from their own formats. The
//! `Debug` texts of targets leave out everything that may be a secret: values of environment
//! variables and headers, credentials, bodies, and the query of a URL.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};

use crate::rules::SuccessRules;

/// One attempt of one run.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The run's id.
    pub run_id: String,
    /// The job's id.
    pub job_id: String,
    /// The caller's name for the job; may be empty.
    pub key: String,
    /// The job's namespace.
    pub namespace: String,
    /// The tick this run is for, in RFC 3339.
    pub scheduled_at: String,
    /// Which attempt of the run this is, from 1.
    pub attempt: u32,
    /// Grows with every attempt and every change of leader; lets a target refuse a stale one.
    pub fencing_token: u64,
    /// The same for all attempts of the run.
    pub idempotency_key: String,
    /// What to do.
    pub target: Target,
    /// How long it may take.
    pub timeout: Option<Duration>,
    /// How long a command has between TERM and KILL.
    pub grace: Duration,
    /// What counts as a success.
    pub success: SuccessRules,
    /// The id of the store this run belongs to; see [`crate::kill_orphans`].
    pub instance: String,
}

impl Attempt {
    /// What every attempt tells its target about itself, as pairs of an environment variable and
    /// a header.
    pub(crate) fn identity(&self) -> [(&'static str, &'static str, String); 8] {
        [
            ("BELLWETHER_RUN_ID", "bellwether-run-id", self.run_id.clone()),
            ("BELLWETHER_JOB_ID", "bellwether-job-id", self.job_id.clone()),
            ("BELLWETHER_KEY", "bellwether-key", self.key.clone()),
            ("BELLWETHER_NAMESPACE", "bellwether-namespace", self.namespace.clone()),
            ("BELLWETHER_SCHEDULED_AT", "bellwether-scheduled-at", self.scheduled_at.clone()),
            ("BELLWETHER_ATTEMPT", "bellwether-attempt", self.attempt.to_string()),
            (
                "BELLWETHER_FENCING_TOKEN",
                "bellwether-fencing-token",
                self.fencing_token.to_string(),
            ),
            ("BELLWETHER_IDEMPOTENCY_KEY", "idempotency-key", self.idempotency_key.clone()),
        ]
    }
}

/// What an attempt does.
#[derive(Clone, Debug)]
pub enum Target {
    /// Runs a process on this machine.
    Command(CommandTarget),
    /// Makes an HTTP request.
    Http(HttpTarget),
}

impl Target {
    /// Checks what can be checked without executing, for use when a job is created.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn validate(&self) -> Result<(), String> {
        match self {
            Target::Command(command) => command.validate(),
            Target::Http(http) => http.validate().map(|_| ()),
        }
    }
}

/// What a command target starts.
#[derive(Clone, PartialEq, Eq)]
pub enum Program {
    /// A line for the shell, run as `sh -c LINE`.
    Shell(String),
    /// A program and its arguments, without a shell.
    Argv(Vec<String>),
}

/// A process to run.
#[derive(Clone, PartialEq, Eq)]
pub struct CommandTarget {
    /// What to start.
    pub program: Program,
    /// Variables added to the small environment every command gets.
    pub env: Vec<(String, String)>,
    /// Where to start it; the home directory if not given, as cron does.
    pub cwd: Option<PathBuf>,
    /// As whom to run it, by name; as the user of this process if not given.
    pub user: Option<String>,
    /// What it reads from standard input; nothing (`/dev/null`) if not given.
    pub stdin: Option<Bytes>,
    /// The shell for [`Program::Shell`]; `/bin/sh` if not given.
    pub shell: Option<String>,
}

impl CommandTarget {
    /// A shell line with nothing else set.
    #[must_use]
    pub fn shell(line: impl Into<String>) -> CommandTarget {
        CommandTarget::new(Program::Shell(line.into()))
    }

    /// A program and its arguments with nothing else set.
    #[must_use]
    pub fn argv<S: Into<String>>(argv: impl IntoIterator<Item = S>) -> CommandTarget {
        CommandTarget::new(Program::Argv(argv.into_iter().map(Into::into).collect()))
    }

    fn new(program: Program) -> CommandTarget {
        CommandTarget { program, env: Vec::new(), cwd: None, user: None, stdin: None, shell: None }
    }

    /// Checks what can be checked without executing.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn validate(&self) -> Result<(), String> {
        let no_nul = |what: &str, text: &str| {
            if text.contains('\0') { Err(format!("{what} contains a NUL byte")) } else { Ok(()) }
        };
        match &self.program {
            Program::Shell(line) if line.trim().is_empty() => {
                return Err("the command is empty".to_owned());
            }
            Program::Shell(line) => no_nul("the command", line)?,
            Program::Argv(argv) => {
                if argv.first().is_none_or(String::is_empty) {
                    return Err("the list of arguments does not start with a program".to_owned());
                }
                for argument in argv {
                    no_nul("an argument", argument)?;
                }
            }
        }
        for (name, value) in &self.env {
            if name.is_empty() || name.contains('=') {
                return Err(format!("'{name}' cannot be the name of an environment variable"));
            }
            no_nul("the name of an environment variable", name)?;
            no_nul(&format!("the environment variable {name}"), value)?;
        }
        if let Some(cwd) = &self.cwd {
            no_nul("the working directory", &cwd.to_string_lossy())?;
            if !cwd.is_absolute() {
                return Err("the working directory must be an absolute path".to_owned());
            }
        }
        if let Some(shell) = &self.shell {
            no_nul("the shell", shell)?;
            if !shell.starts_with('/') {
                return Err("the shell must be an absolute path".to_owned());
            }
        }
        match &self.user {
            Some(user) if user.is_empty() => Err("the user is empty".to_owned()),
            Some(user) => no_nul("the user", user),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Program::Shell(line) => write!(f, "Shell({} bytes)", line.len()),
            Program::Argv(argv) => {
                let program = argv.first().map_or("", String::as_str);
                write!(f, "Argv({program:?}, {} more)", argv.len().saturating_sub(1))
            }
        }
    }
}

impl fmt::Debug for CommandTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.env.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("CommandTarget")
            .field("program", &self.program)
            .field("env", &names)
            .field("cwd", &self.cwd)
            .field("user", &self.user)
            .field("stdin_bytes", &self.stdin.as_ref().map(Bytes::len))
            .field("shell", &self.shell)
            .finish()
    }
}

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
