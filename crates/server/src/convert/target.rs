//! What a job does: exactly one of a command, a request, a message and a handler.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bellwether_api::{JobSpec, Problem, TextOrList};
use bellwether_core::record::{CommandTarget, HandlerTarget, Target};
use bellwether_worker as worker;
use bytes::Bytes;
use serde_json::value::RawValue;

use super::limits::{
    ARGV_BYTES_MAX, ARGV_MAX, COMMAND_BYTES_MAX, ENV_BYTES_MAX, ENV_MAX, GRACE_MAX_MS,
    NAME_CHARS_MAX, PAYLOAD_BYTES_MAX, TEXT_CHARS_MAX,
};
use super::problem::{
    invalid, not_applicable, path, quoted, sentence, span_within, too_large, too_long, too_many,
};
use super::secret::Pieces;
use super::unmask::masked;
use super::{json, name, publish, request};

/// The target of a job. Takes its fields out of the spec.
pub(super) fn target(spec: &mut JobSpec) -> Result<Target, Problem> {
    if spec.command.is_none() {
        only_with_command(spec)?;
    }
    if spec.job_type.is_none() && spec.publish.is_none() && spec.payload.is_some() {
        let detail = "`payload` goes only with `job_type` and `publish`";
        return Err(invalid("field_not_applicable", "payload", detail));
    }
    let given = [
        ("command", spec.command.is_some()),
        ("http", spec.http.is_some()),
        ("publish", spec.publish.is_some()),
        ("job_type", spec.job_type.is_some()),
    ];
    let mut given = given.into_iter().filter(|(_, given)| *given).map(|(field, _)| field);
    // The last one is as good as any to point at.
    if let (Some(_), Some(field)) = (given.next(), given.next_back()) {
        let detail = "a job does one thing; give only one of `command`, `http`, `publish` and \
                      `job_type`";
        return Err(invalid("conflicting_targets", field, detail));
    }
    if let Some(command) = spec.command.take() {
        return self::command(command, spec).map(Target::Command);
    }
    if let Some(http) = spec.http.take() {
        return request::http(http).map(Target::Http);
    }
    if let Some(publish) = spec.publish.take() {
        return publish::publish(publish, spec.payload.take()).map(Target::Publish);
    }
    if let Some(job_type) = spec.job_type.take() {
        return handler(job_type, spec).map(Target::Handler);
    }
    let detail = "the job does nothing; give one of `command`, `http`, `publish` and `job_type`";
    Err(invalid("missing_target", "command", detail))
}

fn only_with_command(spec: &JobSpec) -> Result<(), Problem> {
    for (field, given) in [
        ("env", !spec.env.is_empty()),
        ("cwd", spec.cwd.is_some()),
        ("user", spec.user.is_some()),
        ("stdin", spec.stdin.is_some()),
        ("shell", spec.shell.is_some()),
        ("grace", spec.grace.is_some()),
        ("memory_limit", spec.memory_limit.is_some()),
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
pub(super) fn stored_json(field: &str, raw: Box<RawValue>) -> Result<Box<str>, Problem> {
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
