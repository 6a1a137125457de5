//! Accounts of this machine, for commands that run as another user.

use std::ffi::CString;
use std::path::PathBuf;

use nix::unistd::{Gid, Uid, User, getgrouplist};

use crate::finished::{Failure, ReasonCode};

/// An account and all groups it is in.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(crate) name: String,
    pub(crate) uid: Uid,
    pub(crate) gid: Gid,
    pub(crate) groups: Vec<Gid>,
    pub(crate) home: PathBuf,
}

/// The account to switch to, or nothing if that is who we are already. Looks it up afresh each
/// time, since accounts change while a server runs; may block on a directory service.
pub(crate) fn switch_to(name: &str) -> Result<Option<Account>, Failure> {
    let unknown = |why: &str| {
        let message = format!("the user '{name}' {why} on this machine");
        Failure::new(ReasonCode::UnknownUser, message)
    };
    let user = User::from_name(name)
        .map_err(|error| unknown(&format!("could not be looked up ({})", error.desc())))?
        .ok_or_else(|| unknown("does not exist"))?;
    let own = Uid::effective();
    if user.uid == own {
        return Ok(None);
    }
    if !own.is_root() {
        return Err(not_permitted(name));
    }
    let c_name = CString::new(name).map_err(|_| unknown("does not exist"))?;
    let groups = getgrouplist(&c_name, user.gid)
        .map_err(|error| unknown(&format!("has groups that cannot be read ({})", error.desc())))?;
    Ok(Some(Account { name: user.name, uid: user.uid, gid: user.gid, groups, home: user.dir }))
}

/// Says that only root can do this.
pub(crate) fn not_permitted(name: &str) -> Failure {
    let message = format!("running as the user '{name}' needs a server that runs as root");
    Failure::new(ReasonCode::UserNotPermitted, message)
}

/// The home directory of the user of this process, if the environment does not say.
pub(crate) fn own_home() -> Option<PathBuf> {
    User::from_uid(Uid::effective()).ok().flatten().map(|user| user.dir)
}
