//! Wall clocks that can be wrong: libfaketime, for the wall clock alone. Monotonic time, by which
//! programs measure how long things take, is left as it is, as it is by a clock that is set.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the library is, by machine.
const LIBRARIES: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
];

/// The clock of a node.
pub struct Clock {
    file: PathBuf,
}

fn library() -> Option<&'static str> {
    LIBRARIES.into_iter().find(|path| Path::new(path).exists())
}

/// Why clocks cannot be set wrong here, if that is so.
pub fn missing() -> Option<String> {
    let why = "libfaketime is not there: install the package faketime";
    library().is_none().then(|| why.to_owned())
}

impl Clock {
    /// A clock that is right so far.
    pub fn new(file: PathBuf) -> Clock {
        let clock = Clock { file };
        clock.set(0);
        clock
    }

    /// Sets it wrong by so many seconds. It is noticed within a second.
    pub fn set(&self, seconds: i64) {
        let new = self.file.with_extension("new");
        std::fs::write(&new, format!("{seconds:+}\n")).unwrap();
        std::fs::rename(new, &self.file).unwrap();
    }

    /// Lets a command look at this clock.
    pub fn give_to(&self, command: &mut Command) {
        command
            .env("LD_PRELOAD", library().unwrap())
            .env("FAKETIME_TIMESTAMP_FILE", &self.file)
            .env("FAKETIME_CACHE_DURATION", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }
}

/// Removes what the library leaves in memory when its process is killed.
pub fn forget(process: u32) {
    for name in [format!("faketime_shm_{process}"), format!("sem.faketime_sem_{process}")] {
        let _ = std::fs::remove_file(Path::new("/dev/shm").join(name));
    }
}
