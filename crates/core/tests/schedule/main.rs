//! Schedules, tested through their public face: tables of cases, properties, and an oracle.

mod oracle;
mod probe;
mod properties;
mod speed;
mod table;
