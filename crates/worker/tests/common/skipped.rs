//! Tests that cannot run here say so where it is seen.

use std::io::Write as _;

/// Says that a test is skipped, and why: on standard error, not by a macro, since the output of a test
/// that passes is caught; and in the file that `SKIPPED_TESTS` names, which `scripts/test.sh` shows in
/// the end.
pub fn say(test: &str, why: &str) {
    let line = format!("SKIPPED: {test}: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(path) = std::env::var_os("SKIPPED_TESTS") {
        let file = std::fs::OpenOptions::new().append(true).open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes())).unwrap();
    }
}
