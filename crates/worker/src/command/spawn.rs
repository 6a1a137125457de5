//! Starting a command: its environment, its program, its directory, its user, and clear words
//! when one of them does not exist.
//!
//! A command inherits nothing of the server but a few harmless variables: no token, no password,
//! no descriptor. Without a user to switch to, the process is started by `posix_spawn`, whose cost
//! does not grow with the size of the server, unless it goes into a control group; that is why the program is looked up in `PATH` here.

use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use nix::errno::Errno;
use nix::unistd::{AccessFlags, access};
use tokio::process::{Child, Command};

use crate::attempt::{Attempt, CommandTarget, Program};
use crate::cgroup::Group;
use crate::finished::{Failure, ReasonCode};
use crate::os::{Become, become_user, enter_group};
use crate::user::{self, Account};

const DEFAULT_SHELL: &str = "/bin/sh";
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What a command inherits from the server, besides `LC_*` and what the server is told to pass.
const INHERITED: [&str; 8] =
    ["PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR"];

type Environment = BTreeMap<OsString, OsString>;

/// Starts the command of an attempt. Blocks while accounts are looked up and until the program
/// is being executed or has failed to be.
pub(super) fn spawn(
    attempt: &Attempt,
    target: &CommandTarget,
    pass_env: &[String],
    group: Option<&Group>,
) -> Result<Child, Failure> {
    target.validate().map_err(|error| Failure::new(ReasonCode::InvalidTarget, error))?;
    let account = target.user.as_deref().map(user::switch_to).transpose()?.flatten();
    let shell = target.shell.as_deref().unwrap_or(DEFAULT_SHELL);
    let environment = environment(attempt, target, account.as_ref(), shell, pass_env);
    let cwd = working_directory(target, &environment, account.is_some())?;

    let (program, name, arguments) = match &target.program {
        Program::Shell(line) => (PathBuf::from(shell), shell, vec!["-c", line.as_str()]),
        Program::Argv(argv) => {
            let (name, arguments) = argv.split_first().ok_or_else(|| {
                Failure::new(ReasonCode::InvalidTarget, "there is no program to run")
            })?;
            let program = find_program(name, environment.get(&OsString::from("PATH")))?;
            (program, name.as_str(), arguments.iter().map(String::as_str).collect())
        }
    };
    let mut command = Command::new(&program);
    command
        .arg0(name)
        .args(arguments)
        .env_clear()
        .envs(&environment)
        .process_group(0)
        .kill_on_drop(true)
        .stdin(if target.stdin.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(group) = group {
        // First, with the rights of this process.
        enter_group(&mut command, group.entrance().map_err(|error| no_group(&error))?);
    }
    match &account {
        None => drop(command.current_dir(&cwd)),
        Some(account) => become_user(
            &mut command,
            Become {
                uid: account.uid,
                gid: account.gid,
                groups: account.groups.clone(),
                cwd: CString::new(cwd.as_os_str().as_bytes()).map_err(|_| bad_directory(&cwd))?,
            },
        ),
    }
    command.spawn().map_err(|error| explain(&error, name, &cwd, account.as_ref()))
}

fn no_group(error: &io::Error) -> Failure {
    let message = format!("the process could not be put into its control group: {error}");
    Failure::new(ReasonCode::SpawnFailed, message)
}

/// The environment of a command, in the order in which later entries win: the little that is
/// inherited, the account's, the job's, and what the attempt says about itself.
fn environment(
    attempt: &Attempt,
    target: &CommandTarget,
    account: Option<&Account>,
    shell: &str,
    pass_env: &[String],
) -> Environment {
    let mut environment = Environment::new();
    for (name, value) in std::env::vars_os() {
        let inherited = name.to_str().is_some_and(|name| {
            let passed = pass_env.iter().any(|pass| pass == name);
            passed || INHERITED.contains(&name) || name.starts_with("LC_")
        });
        if inherited {
            environment.insert(name, value);
        }
    }
    environment.entry("PATH".into()).or_insert_with(|| DEFAULT_PATH.into());
    environment.insert("SHELL".into(), shell.into());
    if let Some(account) = account {
        environment.insert("HOME".into(), account.home.clone().into());
        environment.insert("USER".into(), account.name.clone().into());
        environment.insert("LOGNAME".into(), account.name.clone().into());
        environment.remove(&OsString::from("TMPDIR"));
    } else if let Some(home) =
        (!environment.contains_key(&OsString::from("HOME"))).then(user::own_home).flatten()
    {
        environment.insert("HOME".into(), home.into());
    }
    for (name, value) in &target.env {
        environment.insert(name.into(), value.into());
    }
    for (name, _, value) in attempt.identity() {
        // A NUL could only come from a caller's key, and would make the command unstartable.
        environment.insert(name.into(), value.replace('\0', "").into());
    }
    environment.insert("BELLWETHER_INSTANCE".into(), attempt.instance.clone().into());
    environment
}

/// Where to start: as the job says, or at home as cron does, or at `/` if there is no home.
fn working_directory(
    target: &CommandTarget,
    environment: &Environment,
    switches_user: bool,
) -> Result<PathBuf, Failure> {
    let Some(cwd) = &target.cwd else {
        let home = environment.get(&OsString::from("HOME")).map(PathBuf::from);
        let home = home.filter(|home| home.is_absolute() && home.is_dir());
        return Ok(home.filter(|home| switches_user || may_enter(home)).unwrap_or("/".into()));
    };
    // For another user the child finds out, with that user's rights.
    if cwd.is_dir() && (switches_user || may_enter(cwd)) {
        return Ok(cwd.clone());
    }
    Err(bad_directory(cwd))
}

fn may_enter(directory: &Path) -> bool {
    access(directory, AccessFlags::X_OK).is_ok()
}

fn bad_directory(cwd: &Path) -> Failure {
    let message =
        format!("the working directory {} does not exist or cannot be entered", cwd.display());
    Failure::new(ReasonCode::BadWorkingDirectory, message)
}

/// Looks a program up in `PATH`, unless its name is a path already.
fn find_program(name: &str, path: Option<&OsString>) -> Result<PathBuf, Failure> {
    if name.contains('/') {
        return Ok(PathBuf::from(name));
    }
    let mut refused = None;
    for directory in path.into_iter().flat_map(std::env::split_paths) {
        // A relative entry would mean another program in every directory.
        if !directory.is_absolute() {
            continue;
        }
        let candidate = directory.join(name);
        match candidate.metadata() {
            Ok(found) if found.is_file() && found.permissions().mode() & 0o111 != 0 => {
                return Ok(candidate);
            }
            Ok(found) if found.is_file() => refused = refused.or(Some(candidate)),
            _ => {}
        }
    }
    Err(match refused {
        None => {
            let message = format!("the program '{name}' was not found in PATH");
            Failure::new(ReasonCode::CommandNotFound, message)
        }
        Some(path) => {
            let message = format!("{} is not executable", path.display());
            Failure::new(ReasonCode::NotExecutable, message)
        }
    })
}

/// Puts a failure to start into words.
fn explain(error: &io::Error, name: &str, cwd: &Path, account: Option<&Account>) -> Failure {
    let (code, message) = match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOENT) => (
            ReasonCode::CommandNotFound,
            format!("the program '{name}' does not exist, or the interpreter it names does not"),
        ),
        Some(Errno::EACCES | Errno::EISDIR) => {
            (ReasonCode::NotExecutable, format!("the program '{name}' may not be executed"))
        }
        Some(Errno::ENOEXEC) => (
            ReasonCode::NotExecutable,
            format!("'{name}' is neither a program nor a script that names its interpreter"),
        ),
        Some(Errno::ENOTDIR) if account.is_some() => return bad_directory(cwd),
        Some(Errno::EPERM) if account.is_some() => {
            return user::not_permitted(account.map_or("", |account| &account.name));
        }
        Some(Errno::E2BIG) => (
            ReasonCode::InvalidTarget,
            "arguments and environment are longer than the system allows".to_owned(),
        ),
        _ => (ReasonCode::SpawnFailed, format!("the process could not be started: {error}")),
    };
    Failure::new(code, message)
}
