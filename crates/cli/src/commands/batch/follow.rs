//! Following a batch to its end.
//!
//! A bar on a terminal; elsewhere a line now and then, so that a log shows that it goes on. The batch
//! does not care whether anybody looks: Ctrl-C ends the looking and no more.

use std::io::IsTerminal as _;
use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::Result;
use bellwether_api::Batch;
use bellwether_client::Client;
use indicatif::ProgressBar;

use super::pace::{Pace, ended, ending, is_over};
use crate::commands::patience::Patience;
use crate::context::Context;
use crate::exit::{self, Exit, eprint_line};
use crate::show::items_bar;

/// How soon to look again at first, and how rarely at most.
const LOOK_FIRST: Duration = Duration::from_millis(20);
const LOOK_MAX: Duration = Duration::from_millis(500);
/// How often a line is printed where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Waits until a batch is over and says how it ended. An error unless all of it succeeded.
pub async fn wait(context: &mut Context, batch: Batch) -> Result<()> {
    let id = batch.id.clone();
    let followed = tokio::select! {
        over = until_over(&context.client, batch, context.json) => over?,
        _ = pin!(tokio::signal::ctrl_c()) => {
            eprint_line(&format!(
                "\n{id} goes on without you; `bellwether batch show {id} --wait` watches it again, \
                 `bellwether batch cancel {id}` cancels it"
            ));
            return Err(exit::silent(Exit::Failed));
        }
    };
    if context.json {
        context.print_json(&followed)?;
    } else {
        context.screen.line(&format!("{id} {}", ending(&followed)))?;
    }
    context.screen.flush()?;
    if followed.succeeded == followed.total {
        return Ok(());
    }
    if !context.json && followed.failed + followed.lost > 0 {
        eprint_line(&format!("see `bellwether batch runs {id} --status failed,lost`"));
    }
    Err(exit::silent(Exit::Failed))
}

/// Looks at a batch until it is over, through restarts of the server, and shows how far it is.
async fn until_over(client: &Client, mut batch: Batch, json: bool) -> Result<Batch> {
    let id = batch.id.clone();
    let mut teller = Teller::new(batch.total, json);
    let mut patience = Patience::default();
    let mut pause = LOOK_FIRST;
    loop {
        teller.tell(&batch, Instant::now());
        if is_over(&batch) {
            teller.bar.finish_and_clear();
            return Ok(batch);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LOOK_MAX);
        match client.batch(&id).await {
            Ok(seen) => {
                patience.answered("");
                batch = seen;
            }
            Err(error) => patience.after(error).await?,
        }
    }
}

/// Who tells how far it is.
struct Teller {
    bar: ProgressBar,
    /// When the next line is due, where lines are wanted.
    next_line: Option<Instant>,
    pace: Pace,
}

impl Teller {
    fn new(total: u64, json: bool) -> Teller {
        let terminal = std::io::stderr().is_terminal();
        let lines = !terminal && !json;
        Teller {
            bar: items_bar(total),
            next_line: lines.then(|| Instant::now() + LINE_EVERY),
            pace: Pace::default(),
        }
    }

    fn tell(&mut self, batch: &Batch, now: Instant) {
        self.pace.see(now, ended(batch));
        let text = self.pace.text(batch);
        if self.next_line.is_some_and(|due| due <= now) && !is_over(batch) {
            eprint_line(&text);
            self.next_line = Some(now + LINE_EVERY);
        }
        self.bar.set_message(text);
        self.bar.set_position(ended(batch));
    }
}
