//! The rules, told as stories. Each test is named by the requirement it guards.

#[path = "../world/mod.rs"]
mod world;

mod once;
