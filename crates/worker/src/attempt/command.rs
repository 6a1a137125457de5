//! A command to run, and what can be said against it before it is run.

use std::fmt;
use std::path::PathBuf;

use bytes::Bytes;

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
    /// How much memory its processes may use together; without limit if not given.
    pub memory_limit_bytes: Option<u64>,
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
        CommandTarget {
            program,
            env: Vec::new(),
            cwd: None,
            user: None,
            stdin: None,
            shell: None,
            memory_limit_bytes: None,
        }
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
            .field("memory_limit_bytes", &self.memory_limit_bytes)
            .finish()
    }
}
