//! A bar for work that takes a while.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Fewer steps than this are done before a bar could be read.
const STEPS_MIN: u64 = 50;

/// A bar on standard error; none if that is no terminal or there is little to do.
pub fn progress(steps: usize, what: &str) -> ProgressBar {
    let steps = steps as u64;
    let target =
        if steps < STEPS_MIN { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let bar = ProgressBar::with_draw_target(Some(steps), target);
    if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {per_sec} {eta}")
    {
        bar.set_style(style);
    }
    bar.set_message(what.to_owned());
    bar
}
