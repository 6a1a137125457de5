//! Lists: how many items, and in which form.
//!
//! One rule for all of them. People get a table of the first hundred, and are told on standard
//! error if there are more. Programs get everything, as it comes, because a list that is cut in
//! silence is a wrong answer. `--limit N` and `--all` say otherwise to both.

use std::pin::pin;

use anyhow::Result;
use bellwether_client::ClientError;
use clap::Args;
use futures::{Stream, StreamExt, TryStreamExt};
use serde::Serialize;

use crate::context::Context;
use crate::exit::eprint_line;
use crate::show::{Screen, Table};
use crate::spec::parse_count;

/// How many are shown to people, unless told otherwise.
const SHOWN: usize = 100;
/// How many a server gives at once.
const PAGE_MAX: usize = 1_000;

/// How many to list.
#[derive(Args, Clone, Copy, Debug)]
pub struct Amount {
    /// At most so many [default: 100, with --json all]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    limit: Option<usize>,
    /// All, however many there are
    #[arg(long, conflicts_with = "limit")]
    all: bool,
}

impl Amount {
    /// The most that are wanted.
    fn most(self, json: bool) -> usize {
        match self.limit {
            Some(limit) => limit,
            None if self.all || json => usize::MAX,
            None => SHOWN,
        }
    }

    /// Items to ask for at once.
    pub fn page(self, json: bool) -> Option<u32> {
        // One more than wanted, to know whether there are more.
        u32::try_from(self.most(json).saturating_add(1).min(PAGE_MAX)).ok()
    }
}

/// Prints a list: as lines of JSON, or as a table; `none` says that there is nothing.
pub async fn print<T: Serialize>(
    context: &mut Context,
    amount: Amount,
    items: impl Stream<Item = Result<T, ClientError>>,
    none: &str,
    table: impl FnOnce(&Screen, &[T]) -> Table,
) -> Result<()> {
    let most = amount.most(context.json);
    if context.json {
        let mut items = pin!(items.take(most));
        while let Some(item) = items.try_next().await? {
            context.print_json_line(&item)?;
        }
        return Ok(());
    }
    let mut items: Vec<T> = items.take(most.saturating_add(1)).try_collect().await?;
    let more = items.len() > most;
    items.truncate(most);
    if items.is_empty() {
        eprint_line(none);
        return Ok(());
    }
    context.screen.table(&table(&context.screen, &items))?;
    context.screen.flush()?;
    if more && amount.limit.is_none() {
        eprint_line(&format!(
            "these are the first {most}; there are more: use --all, or --limit N"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_get_everything_and_people_a_hundred() {
        let amount = |limit, all| Amount { limit, all };
        for (amount, json, most, page) in [
            (amount(None, false), false, 100, 101),
            (amount(None, false), true, usize::MAX, 1_000),
            (amount(Some(5), false), false, 5, 6),
            (amount(Some(5), false), true, 5, 6),
            (amount(None, true), false, usize::MAX, 1_000),
        ] {
            assert_eq!((amount.most(json), amount.page(json)), (most, Some(page)), "{amount:?}");
        }
    }
}
