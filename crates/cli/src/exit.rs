//! What exit codes mean, and how failures are told.
//!
//! The codes are part of the interface; `docs/cli.md` lists them.

use std::io;
use std::process::ExitCode;

use bellwether_agent::SessionError;
use bellwether_backup::BackupError;
use bellwether_client::ClientError;
use bellwether_server::InvalidConfig;
use bellwether_worker::host::StateDirError;

use crate::words;

/// Why a command ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Exit {
    /// All is well.
    Ok = 0,
    /// It was tried and did not work.
    Failed = 1,
    /// The command line or what it names is not valid.
    Usage = 2,
    /// There is no such thing.
    NotFound = 3,
    /// It does not go with what is there.
    Conflict = 4,
    /// The server cannot be reached or is not ready, or the connection to it broke.
    Unreachable = 5,
    /// The token does not allow it, or there is none.
    NotAllowed = 6,
}

/// A failure of the command itself. Without a message everything has been said already.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    exit: Exit,
    message: String,
}

/// The command line, or a file it names, is not valid.
pub fn usage(message: impl Into<String>) -> anyhow::Error {
    Fault { exit: Exit::Usage, message: message.into() }.into()
}

/// It did not work.
pub fn failed(message: impl Into<String>) -> anyhow::Error {
    Fault { exit: Exit::Failed, message: message.into() }.into()
}

/// It does not go with what is there.
pub fn conflict(message: impl Into<String>) -> anyhow::Error {
    Fault { exit: Exit::Conflict, message: message.into() }.into()
}

/// It did not work, and that has been said already.
pub fn silent(exit: Exit) -> anyhow::Error {
    Fault { exit, message: String::new() }.into()
}

/// Says what went wrong and gives the exit code.
pub fn report(error: &anyhow::Error) -> ExitCode {
    let exit = exit_of(error);
    if exit != Exit::Ok {
        let text = message(error);
        if !text.is_empty() {
            eprint_line(&format!("error: {text}"));
        }
        if let Some(hint) = error.downcast_ref::<ClientError>().and_then(words::hint) {
            eprint_line(&format!("hint: {hint}"));
        }
    }
    ExitCode::from(exit as u8)
}

/// Writes to standard error; if even that is gone, there is nobody to tell.
pub fn eprint_line(text: &str) {
    use std::io::Write;
    let _ = writeln!(io::stderr(), "{text}");
}

/// The code for an error, by the first cause that says one.
pub fn exit_of(error: &anyhow::Error) -> Exit {
    for cause in error.chain() {
        if let Some(fault) = cause.downcast_ref::<Fault>() {
            return fault.exit;
        }
        if let Some(error) = cause.downcast_ref::<ClientError>() {
            return client_exit(error);
        }
        if let Some(error) = cause.downcast_ref::<BackupError>() {
            return backup_exit(error);
        }
        if let Some(error) = cause.downcast_ref::<SessionError>() {
            return session_exit(error);
        }
        if let Some(StateDirError::InUse { .. } | StateDirError::OfAnother { .. }) =
            cause.downcast_ref()
        {
            return Exit::Conflict;
        }
        if cause.is::<InvalidConfig>() {
            return Exit::Usage;
        }
        if let Some(error) = cause.downcast_ref::<io::Error>()
            && error.kind() == io::ErrorKind::BrokenPipe
        {
            // Whoever read our output has seen enough.
            return Exit::Ok;
        }
    }
    Exit::Failed
}

fn client_exit(error: &ClientError) -> Exit {
    match error {
        ClientError::Problem(problem) => match problem.status {
            401 | 403 => Exit::NotAllowed,
            404 => Exit::NotFound,
            409 => Exit::Conflict,
            503 => Exit::Unreachable,
            400 | 405 | 413 | 415 | 422 => Exit::Usage,
            _ => Exit::Failed,
        },
        ClientError::Unreachable { .. } | ClientError::Interrupted { .. } => Exit::Unreachable,
        ClientError::Setup(_) => Exit::Usage,
        _ => Exit::Failed,
    }
}

fn session_exit(error: &SessionError) -> Exit {
    match error {
        SessionError::Invalid(_) => Exit::Usage,
        SessionError::NotAllowed(_) => Exit::NotAllowed,
        SessionError::NameTaken(_) => Exit::Conflict,
        SessionError::Tls { .. } => Exit::Unreachable,
        _ => Exit::Failed,
    }
}

/// The whole chain of causes in one line, none repeated.
fn message(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = match cause.downcast_ref::<ClientError>() {
            Some(error) => words::of(error),
            None => cause.to_string(),
        };
        if cause.is_empty() || text.ends_with(&cause) {
            continue;
        }
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&cause);
    }
    text
}

fn backup_exit(error: &BackupError) -> Exit {
    match error {
        BackupError::BadPlace(..) | BackupError::Several { .. } => Exit::Usage,
        BackupError::NotFound { .. } | BackupError::None(_) | BackupError::NoBucket { .. } => {
            Exit::NotFound
        }
        BackupError::StorageSilent { .. } => Exit::Unreachable,
        BackupError::StorageRefuses { .. } => Exit::NotAllowed,
        BackupError::NotEmpty(_) | BackupError::HalfRestored(_) => Exit::Conflict,
        _ => Exit::Failed,
    }
}

#[cfg(test)]
mod tests {
    use bellwether_api::Problem;

    use super::*;

    #[test]
    fn exit_codes_follow_the_kind_of_failure() {
        for (status, exit) in [
            (401, Exit::NotAllowed),
            (403, Exit::NotAllowed),
            (404, Exit::NotFound),
            (409, Exit::Conflict),
            (413, Exit::Usage),
            (422, Exit::Usage),
            (500, Exit::Failed),
            (503, Exit::Unreachable),
        ] {
            let problem = Problem::new(status, "code", "detail");
            let error = anyhow::Error::new(ClientError::Problem(Box::new(problem)));
            assert_eq!(exit_of(&error), exit, "{status}");
            assert_eq!(exit_of(&error.context("while applying")), exit, "{status}");
        }
        assert_eq!(exit_of(&usage("no")), Exit::Usage);
        let broken = ClientError::Interrupted { server: String::new(), reason: String::new() };
        assert_eq!(exit_of(&anyhow::Error::new(broken)), Exit::Unreachable);
        let settings = InvalidConfig("no".to_owned());
        assert_eq!(exit_of(&anyhow::Error::new(settings)), Exit::Usage);
        let pipe = io::Error::new(io::ErrorKind::BrokenPipe, "gone");
        assert_eq!(exit_of(&anyhow::Error::new(pipe)), Exit::Ok);
        assert_eq!(exit_of(&anyhow::anyhow!("anything")), Exit::Failed);
    }

    #[test]
    fn a_cause_is_told_once() {
        let error = anyhow::anyhow!("no such file").context("cannot read jobs.yaml");
        assert_eq!(message(&error), "cannot read jobs.yaml: no such file");
        let error = anyhow::anyhow!("same").context("same");
        assert_eq!(message(&error), "same");
    }
}
