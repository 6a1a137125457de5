//! The settings of a server: where each comes from, and which one counts.
//!
//! Flags win over the environment, the environment over the file, the file over the defaults. One
//! list of [`Values`] serves all three: its fields are the flags, their environment variables
//! (`BELLWETHER_` and the name in capitals) and the keys of the file. What came from where is kept
//! for `--print-config`.

mod effective;
mod file;
mod unit;
mod values;

pub use effective::{Effective, effective};
pub use values::{LogFormat, Values};
