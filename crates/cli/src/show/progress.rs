//! Bars for work that takes a while, on standard error; none if that is no terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Fewer steps than this are done before a bar could be read.
const STEPS_MIN: u64 = 50;

/// A bar on standard error; none if that is no terminal or there is little to do.
pub fn progress(steps: usize, what: &str) -> ProgressBar {
    let steps = steps as u64;
    let target =
        if steps < STEPS_MIN { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let bar = ProgressBar::with_draw_target(Some(steps), target);
    let bar = styled(bar, "{msg} {wide_bar} {pos}/{len} {per_sec} {eta}");
    bar.set_message(what.to_owned());
    bar
}

/// A bar for so many items, whose message says all that is known of them.
pub fn items_bar(total: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
    styled(bar, "{bar:12} {wide_msg}")
}

/// Counts lines that are being sent, of which nobody knows how many there are.
pub fn sending() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    styled(bar, "sending, {human_pos} lines so far")
}

fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}
