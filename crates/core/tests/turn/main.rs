//! The rules, told as stories. Each test is named by the requirement it guards.

#![allow(clippy::unwrap_used)]

#[path = "../world/mod.rs"]
mod world;

mod batch;
mod broken;
mod crash;
mod create;
mod delete;
mod edit;
mod everywhere;
mod group;
mod lists;
mod misfire;
mod nodes;
mod once;
mod order;
mod overlap;
mod pause;
mod prune;
mod recurring;
mod restore;
mod retry;
mod trigger;
