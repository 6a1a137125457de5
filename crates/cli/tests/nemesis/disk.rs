//! Small disks that can be filled up.

use std::io::Write;
use std::path::{Path, PathBuf};

use crate::net::{PREFIX, must, run};
use crate::random::setting;

/// A small disk of its own.
pub struct Disk {
    path: PathBuf,
    full: bool,
}

/// What a disk holds.
const DISK_MB: u64 = 192;
/// What one holds if the test lasts long: a node keeps up to seven segments of its log, whatever it has.
const LARGE_DISK_MB: u64 = 1_024;
/// What lasts longer than so many seconds lasts long.
const LONG: u64 = 100;

impl Disk {
    /// Mounts one at a path.
    pub fn new(path: PathBuf) -> Disk {
        std::fs::create_dir_all(&path).unwrap();
        let name = format!("{PREFIX}{}x", std::process::id());
        let at = path.display();
        let size = if setting("NEMESIS_SECONDS", 0) > LONG { LARGE_DISK_MB } else { DISK_MB };
        must(&format!("mount -t tmpfs -o size={size}m {name} {at}"));
        Disk { path, full: false }
    }

    /// Fills it to the last byte.
    pub fn fill(&mut self) {
        let mut file = std::fs::File::create(self.path.join("ballast")).unwrap();
        let mut piece = vec![1_u8; 1 << 20];
        while !piece.is_empty() {
            if file.write_all(&piece).is_err() {
                piece.truncate(piece.len() / 2);
            }
        }
        self.full = true;
    }

    /// Whether it was filled.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Makes room again.
    pub fn free(&mut self) {
        if std::mem::take(&mut self.full) {
            std::fs::remove_file(self.path.join("ballast")).unwrap();
        }
    }
}

/// Lets go of what is mounted at a path.
pub fn unmount(path: &Path) {
    let _ = run(&format!("umount -l {}", path.display()), None);
}

impl Drop for Disk {
    fn drop(&mut self) {
        unmount(&self.path);
    }
}
