//! Crontabs.
