//! The few system calls that need `unsafe`, and nothing else.

#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::libc;
use nix::unistd::{Gid, Uid};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
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

/// Something that becomes readable when a child of this process exits.
pub(crate) fn exit_of(child: i32) -> Option<AsyncFd<OwnedFd>> {
    let handle = pidfd_open(Pid::from_raw(child)?, PidfdFlags::empty()).ok()?;
    // SAFETY: the descriptor is owned by what is registered, and so stays open and the same until it
    // is no longer registered.
    unsafe { AsyncFd::register_with_interest(handle, Interest::READABLE) }.ok()
}

/// What a child has used by its end, with everything it waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Spent {
    pub(crate) cpu: Duration,
    /// The most that a single process had in memory. What a process had before it became another
    /// program counts, and that was this process's memory.
    pub(crate) memory_peak_bytes: u64,
}

/// What a child of this process has used; nothing as long as it lives. It remains to be waited for.
pub(crate) fn spent(child: i32) -> io::Result<Option<Spent>> {
    let flags = libc::c_long::from(libc::WEXITED | libc::WNOHANG | libc::WNOWAIT);
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the call writes at most the two structures, which are as the kernel knows them and
    // outlive it. All zeros are a valid value of both, and so is what the kernel writes; the number
    // of the process is there if the call succeeded, and zero if there was nothing to tell.
    let (result, found, usage) = unsafe {
        let result = libc::syscall(
            libc::SYS_waitid,
            libc::c_long::from(libc::P_PID),
            libc::c_long::from(child),
            info.as_mut_ptr(),
            flags,
            usage.as_mut_ptr(),
        );
        (result, info.assume_init().si_pid(), usage.assume_init())
    };
    Errno::result(result)?;
    let time = |time: libc::timeval| {
        let seconds = Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0));
        seconds + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
    };
    Ok((found != 0).then(|| Spent {
        cpu: time(usage.ru_utime) + time(usage.ru_stime),
        memory_peak_bytes: u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1_024,
    }))
}

/// Makes the child a member of a control group after the fork, by its entrance.
pub(crate) fn enter_group(command: &mut Command, entrance: File) {
    let enter = move || {
        nix::unistd::write(&entrance, b"0")?;
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes only this system call. It is
    // async-signal-safe, takes memory prepared before the fork, and neither allocates nor locks.
    unsafe {
        command.pre_exec(enter);
    }
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
