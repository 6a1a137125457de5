//! Printing for people: tables that fit, times they can read, colours where they help.

mod confirm;
mod progress;
mod screen;
mod status;
mod table;
mod when;

pub use confirm::{can_ask, confirmed};
pub use progress::{items_bar, progress, sending};
pub use screen::{Screen, Tone, now};
pub use status::{job_status, run_status};
pub use table::{Column, Table};
pub use when::{clock_text, duration_text, parse_time, relative_text};
