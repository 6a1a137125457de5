//! Messages that are kept as bytes: a file with one line for each, `name hexadecimal`.
//!
//! It is shared by the tests of all crates that make messages of values or values of messages. What a line stands
//! for is up to the test that names it. Lines are only ever added, by `UPDATE_FIXTURES=1`: what is there is what
//! some version has sent, and is never written again.

use std::io::Write;
use std::path::{Path, PathBuf};

/// What to do when a check fails.
const GUIDE: &str = "nodes and workers of other versions take these bytes for what they always were. \
    Keep the old line, and what it is read as; what is written now gets a line of its own: \
    see docs/changing-a-stored-format.md";

/// A field of a number that no version has, but some will: `999: "new"`.
const FROM_THE_FUTURE: [u8; 6] = [0xba, 0x3e, 3, b'n', b'e', b'w'];

/// A file of messages.
pub struct Kept {
    path: PathBuf,
    text: String,
}

impl Kept {
    /// The messages in a file.
    pub fn open(path: impl AsRef<Path>) -> Kept {
        let path = path.as_ref().to_owned();
        Kept { text: std::fs::read_to_string(&path).unwrap_or_default(), path }
    }

    /// Checks that a value is written as it was, and that this is read as that value; also with a field
    /// that only a later version knows.
    pub fn check<T, E>(
        &mut self,
        name: &str,
        value: &T,
        written: Vec<u8>,
        read: impl Fn(&[u8]) -> Result<T, E>,
    ) where
        T: PartialEq + std::fmt::Debug,
        E: std::fmt::Debug,
    {
        let kept = self.bytes_of(name, &written);
        self.check_read(name, value, &read);
        assert_eq!(hex(&written), hex(&kept), "{name} is written differently: {GUIDE}");
        let newer = [&kept[..], &FROM_THE_FUTURE].concat();
        let read = read(&newer);
        assert_eq!(read.as_ref().ok(), Some(value), "{name} of a later version: {read:?}");
    }

    /// Checks that what an earlier version wrote is read as a value. This version writes something else.
    pub fn check_read<T, E>(&self, name: &str, value: &T, read: impl Fn(&[u8]) -> Result<T, E>)
    where
        T: PartialEq + std::fmt::Debug,
        E: std::fmt::Debug,
    {
        let kept = self.find(name).unwrap_or_else(|| panic!("{name} is gone: {GUIDE}"));
        let read = read(&kept);
        assert_eq!(read.as_ref().ok(), Some(value), "{name} is {read:?}: {GUIDE}");
    }

    fn find(&self, name: &str) -> Option<Vec<u8>> {
        let line =
            |line: &str| line.split_once(' ').map(|(name, hex)| (name.to_owned(), bytes(hex)));
        self.text.lines().filter_map(line).find(|(found, _)| found == name).map(|(_, bytes)| bytes)
    }

    /// The bytes of a message, which become those that are written if it is new.
    fn bytes_of(&mut self, name: &str, written: &[u8]) -> Vec<u8> {
        if let Some(kept) = self.find(name) {
            return kept;
        }
        let update = std::env::var_os("UPDATE_FIXTURES").is_some();
        assert!(update, "{name} is not in {}; add it with UPDATE_FIXTURES=1", self.path.display());
        let line = format!("{name} {}\n", hex(written));
        // Other tests add theirs at the same time.
        let file = std::fs::File::options().create(true).append(true).open(&self.path);
        file.unwrap().write_all(line.as_bytes()).unwrap();
        self.text.push_str(&line);
        written.to_vec()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(byte).collect()
}
