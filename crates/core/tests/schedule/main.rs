//! Schedules, tested through their public face: tables of cases, properties, and an oracle.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say so at once")]

mod api;
mod croner;
mod fixtures;
mod oracle;
mod properties;
mod speed;
mod table;
