//! Where replicas and leaders go: clusters that follow the plan until nothing is left to do.

#![allow(clippy::unwrap_used)]

mod examples;
mod model;
mod random;
mod rules;
