//! Measurements of a cluster: three nodes, all of them on this one machine, so that they share its
//! processors and its disk.

mod failover;
mod join;
mod log;
mod nodes;
mod rate;
mod starts;

use std::path::Path;

use super::BenchArgs;
use super::figures::Figures;

/// Measures what is wanted.
pub async fn measure(
    figures: &mut Figures,
    args: &BenchArgs,
    dir: &Path,
    wants: impl Fn(&str) -> bool,
) -> anyhow::Result<()> {
    if wants("cluster") {
        rate::measure(figures, args, &dir.join("cluster")).await?;
    }
    if wants("failover") {
        failover::measure(figures, args, &dir.join("failover")).await?;
    }
    if wants("join") {
        join::measure(figures, args, &dir.join("join")).await?;
    }
    if wants("log") {
        log::measure(figures, args, &dir.join("log")).await?;
    }
    Ok(())
}
