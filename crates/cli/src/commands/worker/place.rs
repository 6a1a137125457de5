//! Where a worker is: the name of its machine, and where it keeps its state.

use std::path::PathBuf;

use anyhow::Result;

use crate::exit::usage;

/// The name of this machine.
pub fn machine_name() -> Result<String> {
    let name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    name.filter(|name| !name.is_empty())
        .ok_or_else(|| usage("this machine has no name; give the worker one with --name"))
}

/// The state directory of a worker that is not told: the system's for root, else the user's.
pub fn state_dir(name: &str) -> Result<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let root = nix::unistd::geteuid().is_root();
    let base = variable("XDG_STATE_HOME")
        .or_else(|| variable("HOME").filter(|_| !root).map(|home| home.join(".local/state")))
        .filter(|base| base.is_absolute());
    let base = match base {
        Some(base) => base.join("bellwether-worker"),
        None if root => PathBuf::from("/var/lib/bellwether-worker"),
        None => return Err(usage("there is no home directory; say --state-dir")),
    };
    // A name may contain anything; a directory's may not.
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '.' };
    let directory: String = name.chars().map(plain).collect();
    Ok(base.join(format!("w-{directory}")))
}
