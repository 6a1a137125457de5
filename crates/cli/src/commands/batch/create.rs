//! `bellwether batch create`: a template by flags and items from a file, or all of it from a file.

use std::path::{Path, PathBuf};

use anyhow::Result;
use bellwether_api::{Instant, JobSpec, NewBatch, Problem, Span};
use bellwether_client::{ClientError, CreatedBatch};
use bellwether_server::convert;
use clap::Args;

use super::follow;
use super::lines::{Form, Lines};
use super::pace::count;
use crate::context::Context;
use crate::exit::usage;
use crate::show::{now, sending};
use crate::spec::{TemplateFlags, parse_span, typed_time};
use crate::words;

/// Runs something for each item of a list. All items are accepted, or none; then it waits until all
/// is over, and exits with 1 unless all succeeded.
///
/// A handler gets its item as payload, a request as body, a command as the variable BELLWETHER_ITEM.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  ls *.jpg | bellwether batch create --items - -- 'convert \"$BELLWETHER_ITEM\" -resize 50% \"small/$BELLWETHER_ITEM\"'\n  \
                        bellwether batch create --items users.ndjson --items-json --type mail.send --retries 3 --key march\n  \
                        bellwether batch create -f batch.ndjson --no-wait"
)]
pub struct CreateArgs {
    /// A file with an item on each line; - for standard input. A line is a text; empty ones are none
    #[arg(long, value_name = "FILE", required_unless_present = "file")]
    items: Option<PathBuf>,
    /// Each line of --items is JSON
    #[arg(long, requires = "items")]
    items_json: bool,
    /// NDJSON: the batch on the first line, then an item (or a whole job, if there is no template)
    /// on each; - for standard input. Flags go over what the first line says
    #[arg(long, short, value_name = "FILE", conflicts_with = "items")]
    file: Option<PathBuf>,
    /// Your own name for it, unique in its namespace: created twice, it is there once
    #[arg(long)]
    key: Option<String>,
    /// Text for people
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// The job to trigger once all is over: key or id
    #[arg(long, value_name = "JOB")]
    on_complete: Option<String>,
    /// Begin at a time
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// Begin so long from now
    #[arg(long, value_name = "DURATION", value_parser = parse_span, conflicts_with = "at")]
    delay: Option<Span>,
    /// Do not wait for its end
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    template: TemplateFlags,
}

/// Creates it.
pub async fn run(context: &mut Context, args: CreateArgs) -> Result<()> {
    let (head, lines) = args.read()?;
    let form = if args.items.is_some() && !args.items_json { Form::Texts } else { Form::Json };
    let created = send(context, head, lines, form).await?;
    let batch = created.batch;
    if args.no_wait && context.json {
        return context.print_json(&batch);
    }
    if !context.json {
        let word = if created.new { "created" } else { "exists already, unchanged:" };
        let key = batch.key.as_ref().map(|key| format!(" ({key})")).unwrap_or_default();
        let items = if batch.total == 1 { "item" } else { "items" };
        context.screen.line(&format!(
            "{word} {}{key}, {} {items}",
            batch.id,
            count(batch.total)
        ))?;
        context.screen.flush()?;
    }
    if args.no_wait {
        return Ok(());
    }
    follow::wait(context, batch).await
}

impl CreateArgs {
    /// The batch without its items, and where those come from.
    fn read(&self) -> Result<(NewBatch, Lines)> {
        if let Some(path) = &self.items {
            let mut head = NewBatch::default();
            self.apply(&mut head)?;
            head.template.get_or_insert_default();
            return Ok((head, Lines::open(path)?));
        }
        // One of both is there: the flags say so.
        let path = self.file.as_deref().unwrap_or(Path::new("-"));
        let mut lines = Lines::open(path)?;
        let Some(first) = lines.first()? else {
            return Err(usage(format!(
                "{} is empty; its first line is the batch without its items",
                lines.name
            )));
        };
        let mut head: NewBatch = convert::from_json(&first).map_err(|problem| {
            usage(format!("{}: {}", lines.place(lines.number), words::of_problem(&problem)))
        })?;
        self.apply(&mut head)?;
        Ok((head, lines))
    }

    /// Puts what the flags say over what there is.
    fn apply(&self, head: &mut NewBatch) -> Result<()> {
        for (field, flag) in [
            (&mut head.key, &self.key),
            (&mut head.description, &self.description),
            (&mut head.on_complete, &self.on_complete),
        ] {
            if flag.is_some() {
                field.clone_from(flag);
            }
        }
        if let Some(at) = &self.at {
            head.schedule_time = Some(Instant(typed_time(at)?));
        }
        if let Some(Span(ms)) = self.delay {
            head.schedule_time = Some(Instant(now().plus_ms(ms)));
        }
        if let Some(template) = &mut head.template {
            return self.template.apply(template);
        }
        let mut template = JobSpec::default();
        self.template.apply(&mut template)?;
        // Without a template lines are whole jobs: one that says nothing would change that.
        if serde_json::to_value(&template)? != serde_json::to_value(JobSpec::default())? {
            head.template = Some(Box::new(template));
        }
        Ok(())
    }
}

/// Sends the lines as they are read.
async fn send(context: &Context, head: NewBatch, lines: Lines, form: Form) -> Result<CreatedBatch> {
    let before = lines.number;
    let name = lines.name.clone();
    let bar = sending();
    let (stream, fault) = lines.stream(form, bar.clone())?;
    let answer = context.client.create_batch_lines(head, stream).await;
    bar.finish_and_clear();
    // What could not be read is why nothing was created, whatever the connection says.
    if let Some(fault) = fault.get() {
        return Err(usage(fault.clone()));
    }
    answer.map_err(|error| in_file(error, &name, before).into())
}

/// A problem that names a line of the request, as one that names the line of the file: the request
/// has the batch on line 1, the file that many lines before the items.
fn in_file(error: ClientError, name: &str, before: u64) -> ClientError {
    let Some(problem) = error.problem() else { return error };
    let Some(rest) = problem.detail.strip_prefix("line ") else { return error };
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, rest) = rest.split_at(digits);
    let Some(line) = number.parse().ok().and_then(|line: u64| (line + before).checked_sub(1))
    else {
        return error;
    };
    // Within its line, the text of an item is on line 1.
    let rest = rest.replace(" (line 1, column ", " (column ");
    let detail = format!("{name}, line {line}{rest}");
    ClientError::Problem(Box::new(Problem { detail, field: None, ..problem.clone() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_request_is_told_as_a_line_of_the_file() {
        let problem =
            Problem::new(422, "invalid_env", "line 7: no (line 1, column 2)").at("line 7");
        let error = || ClientError::Problem(Box::new(problem.clone()));
        let said = |error: ClientError| error.to_string();
        let items = in_file(error(), "items.txt", 0);
        assert_eq!(said(items), "items.txt, line 6: no (column 2) (invalid_env)");
        let file = in_file(error(), "b.ndjson", 3);
        assert_eq!(said(file), "b.ndjson, line 9: no (column 2) (invalid_env)");
        let other = Problem::new(409, "key_exists", "the key is taken").at("key");
        let other = in_file(ClientError::Problem(Box::new(other)), "items.txt", 0);
        assert_eq!(said(other), "key: the key is taken (key_exists)");
    }
}
