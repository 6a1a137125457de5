//! The two system calls that need `unsafe`, and nothing else.

#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;

use nix::errno::Errno;
use nix::libc;
use nix::unistd::{Gid, Uid};
use tokio::process::Command;

/// Marks every descriptor of this process except the standard three as not to be inherited by
/// children. Rust opens its own files that way; this is for those that came from whoever started
/// this process.
pub(crate) fn seal_descriptors() -> io::Result<()> {
    // SAFETY: the call takes three integers and touches no memory of this process. It closes
    // nothing: with this flag it only sets the close-on-exec bit.
    let result =
        unsafe { libc::syscall(libc::SYS_close_range, 3u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    Errno::result(result).map(drop).map_err(io::Error::from)
}

/// Who a child is to become, and where it is to start as that user.
pub(crate) struct Become {
    pub(crate) uid: Uid,
    pub(crate) gid: Gid,
    pub(crate) groups: Vec<Gid>,
    pub(crate) cwd: CString,
}

/// Makes the child switch user after the fork and enter its directory with that user's rights. A
/// directory that cannot be entered is reported as `ENOTDIR`, to be told apart from a program that
/// cannot be executed.
pub(crate) fn become_user(command: &mut Command, become_: Become) {
    let switch = move || {
        nix::unistd::setgroups(&become_.groups)?;
        nix::unistd::setgid(become_.gid)?;
        nix::unistd::setuid(become_.uid)?;
        nix::unistd::chdir(become_.cwd.as_c_str()).map_err(|_| Errno::ENOTDIR)?;
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes only these four system calls. They are
    // async-signal-safe, take memory prepared before the fork, and neither allocate nor lock.
    unsafe {
        command.pre_exec(switch);
    }
}
