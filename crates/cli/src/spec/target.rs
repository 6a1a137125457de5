//! Flags that say what.

use anyhow::Result;
use bellwether_api::{BasicAuth, HttpAuth, HttpTarget, JobSpec, Size, Span, TextOrList};
use clap::Args;
use serde_json::value::RawValue;

use super::flags::set;
use super::value::{parse_header, parse_pair, parse_span, text_or_file};
use crate::exit::usage;

/// What it does. Exactly one of a command, a request and a handler.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "What")]
pub struct TargetFlags {
    /// A command: one argument is a line for the shell, several are a program and its arguments
    #[arg(last = true, value_name = "COMMAND", group = "what")]
    command: Vec<String>,
    /// Additional environment of the command; repeatable
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = parse_pair, conflicts_with_all = ["http", "job_type"])]
    env: Vec<(String, String)>,
    /// Working directory of the command
    #[arg(long, value_name = "DIR", conflicts_with_all = ["http", "job_type"])]
    cwd: Option<String>,
    /// User to run the command as
    #[arg(long, conflicts_with_all = ["http", "job_type"])]
    user: Option<String>,
    /// Shell for the command; /bin/sh if not given
    #[arg(long, value_name = "PATH", conflicts_with_all = ["http", "job_type"])]
    shell: Option<String>,
    /// What the command reads; @FILE for a file's content
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["http", "job_type"])]
    stdin: Option<String>,
    /// Time between TERM and KILL when the command is stopped
    #[arg(long, value_name = "DURATION", value_parser = parse_span, conflicts_with_all = ["http", "job_type"])]
    grace: Option<Span>,
    /// How much memory the processes of the command may use together: 512M, 2G
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["http", "job_type"])]
    memory_limit: Option<Size>,

    /// A request to this URL
    #[arg(long, value_name = "URL", group = "what")]
    http: Option<String>,
    /// Its method; POST with a body, else GET
    #[arg(long)]
    method: Option<String>,
    /// A header; repeatable
    #[arg(long = "header", short = 'H', value_name = "NAME: VALUE", value_parser = parse_header)]
    headers: Vec<(String, String)>,
    /// Its body; @FILE for a file's content. A JSON object or list is sent as JSON
    #[arg(long, value_name = "TEXT")]
    body: Option<String>,
    /// USER:PASSWORD; @FILE keeps it off the command line
    #[arg(long, value_name = "USER:PASSWORD", conflicts_with = "bearer_token")]
    basic_auth: Option<String>,
    /// A bearer token; @FILE keeps it off the command line
    #[arg(long, value_name = "TOKEN")]
    bearer_token: Option<String>,
    /// Follow redirects
    #[arg(long)]
    follow_redirects: bool,

    /// A handler that a worker has registered
    #[arg(long = "type", id = "job_type", value_name = "NAME", group = "what")]
    job_type: Option<String>,
    /// JSON for the handler; @FILE for a file's content
    #[arg(long, value_name = "JSON")]
    payload: Option<String>,
}

impl TargetFlags {
    pub(super) fn apply(&self, spec: &mut JobSpec) -> Result<()> {
        self.displace(spec);
        match self.command.as_slice() {
            [] => {}
            [line] => spec.command = Some(TextOrList::Text(line.clone())),
            argv => spec.command = Some(TextOrList::List(argv.to_vec())),
        }
        spec.env.extend(self.env.iter().cloned());
        set(&mut spec.cwd, &self.cwd);
        set(&mut spec.user, &self.user);
        set(&mut spec.shell, &self.shell);
        set(&mut spec.stdin, &self.stdin.as_deref().map(text_or_file).transpose()?);
        set(&mut spec.grace, &self.grace);
        set(&mut spec.memory_limit, &self.memory_limit);
        self.apply_http(spec)?;
        set(&mut spec.job_type, &self.job_type);
        if let Some(payload) = &self.payload {
            if spec.job_type.is_none() {
                return Err(usage("--payload goes with --type NAME"));
            }
            let text = text_or_file(payload)?;
            let raw = RawValue::from_string(text.trim().to_owned())
                .map_err(|error| usage(format!("--payload is not JSON: {error}")))?;
            spec.payload = Some(raw);
        }
        Ok(())
    }

    /// Takes away the target that another one is to stand in for.
    fn displace(&self, spec: &mut JobSpec) {
        let (command, http) = (!self.command.is_empty(), self.http.is_some());
        let job_type = self.job_type.is_some();
        if http || job_type {
            spec.command = None;
            spec.env.clear();
            (spec.cwd, spec.user, spec.shell) = (None, None, None);
            (spec.stdin, spec.grace, spec.memory_limit) = (None, None, None);
        }
        if command || job_type {
            spec.http = None;
        }
        if command || http {
            (spec.job_type, spec.payload) = (None, None);
        }
    }

    fn apply_http(&self, spec: &mut JobSpec) -> Result<()> {
        let details = self.method.is_some()
            || !self.headers.is_empty()
            || self.body.is_some()
            || self.basic_auth.is_some()
            || self.bearer_token.is_some()
            || self.follow_redirects;
        if self.http.is_none() && !details {
            return Ok(());
        }
        let mut target = match (&self.http, spec.http.take()) {
            (Some(url), Some(old)) => HttpTarget { url: url.clone(), ..old },
            (Some(url), None) => HttpTarget { url: url.clone(), ..HttpTarget::default() },
            (None, Some(old)) => old,
            (None, None) => {
                return Err(usage("a method, header, body or auth goes with --http URL"));
            }
        };
        set(&mut target.method, &self.method);
        target.headers.extend(self.headers.iter().cloned());
        set(&mut target.body, &self.body.as_deref().map(body).transpose()?);
        set(&mut target.auth, &self.auth()?);
        if self.follow_redirects {
            target.follow_redirects = Some(true);
        }
        spec.http = Some(target);
        Ok(())
    }

    fn auth(&self) -> Result<Option<HttpAuth>> {
        if let Some(text) = &self.basic_auth {
            let text = text_or_file(text)?;
            let Some((username, password)) = text.trim_end().split_once(':') else {
                return Err(usage("--basic-auth is written USER:PASSWORD"));
            };
            let basic = BasicAuth { username: username.to_owned(), password: password.to_owned() };
            return Ok(Some(HttpAuth { basic: Some(basic), bearer: None }));
        }
        let Some(token) = &self.bearer_token else { return Ok(None) };
        let bearer = text_or_file(token)?.trim().to_owned();
        Ok(Some(HttpAuth { basic: None, bearer: Some(bearer) }))
    }
}

/// A body: JSON if it is an object or a list, else text.
fn body(text: &str) -> Result<Box<RawValue>> {
    let text = text_or_file(text)?;
    let trimmed = text.trim();
    if trimmed.starts_with(['{', '['])
        && let Ok(raw) = RawValue::from_string(trimmed.to_owned())
    {
        return Ok(raw);
    }
    Ok(serde_json::value::to_raw_value(&text)?)
}
