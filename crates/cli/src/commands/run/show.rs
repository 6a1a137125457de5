//! `bellwether run show` and `run events`.

use anyhow::Result;
use bellwether_api::{Attempt, Run};

use crate::context::Context;
use crate::show::{Column, Screen, Table, Tone, duration_text, run_status};

/// Shows a run and its attempts.
pub async fn run(context: &mut Context, id: &str) -> Result<()> {
    let run = context.client.run(id).await?;
    if context.json {
        return context.print_json(&run);
    }
    print_head(&mut context.screen, &run)?;
    if !run.attempts.is_empty() {
        context.screen.line("")?;
        let table = attempt_table(&context.screen, &run.attempts);
        context.screen.table(&table)?;
    }
    if let Some(response) = run.attempts.last().and_then(|attempt| attempt.response.as_ref()) {
        context.screen.line("")?;
        context.screen.line(&format!("HTTP {}", response.status))?;
        for (name, value) in &response.headers {
            context.screen.line(&format!("{name}: {value}"))?;
        }
        context.screen.line("")?;
        context.screen.line(response.body.trim_end())?;
    }
    Ok(())
}

fn print_head(screen: &mut Screen, run: &Run) -> Result<()> {
    let (status, tone) = run_status(run.status);
    let title = format!("{}  {}", screen.paint(Tone::Strong, &run.id), screen.paint(tone, &status));
    screen.line(&title)?;
    let key = run.key.as_ref().map(|key| format!("{key} ")).unwrap_or_default();
    screen.field("job", &format!("{key}({}), run {}", run.job_id, run.number))?;
    screen.field("namespace", &run.namespace)?;
    screen.field("queue", &run.queue)?;
    screen.field("cause", &run.cause)?;
    let due = screen.clock_and_when(run.scheduled_at.0);
    screen.field("due", &due)?;
    if let Some(time) = run.started_at {
        let text = screen.clock_and_when(time.0);
        screen.field("started", &text)?;
    }
    if let Some(time) = run.finished_at {
        let text = screen.clock_and_when(time.0);
        screen.field("ended", &text)?;
    }
    if let Some(time) = run.next_attempt_at {
        let text = screen.clock_and_when(time.0);
        screen.field("next attempt", &text)?;
    }
    screen.field("meant for", run.pinned_to.as_deref().unwrap_or_default())?;
    screen.field("waits for", run.held_by.as_deref().unwrap_or_default())?;
    screen.field("reason", run.reason.as_deref().unwrap_or_default())?;
    screen.field("detail", run.detail.as_deref().unwrap_or_default())?;
    Ok(())
}

fn attempt_table(screen: &Screen, attempts: &[Attempt]) -> Table {
    let mut table = Table::new(&[
        Column::number("ATTEMPT"),
        Column::new("OUTCOME"),
        Column::name("WORKER"),
        Column::new("STARTED"),
        Column::number("TOOK"),
        Column::number("EXIT"),
        Column::number("SIGNAL"),
        Column::number("OUTPUT"),
        Column::text("DETAIL"),
    ]);
    for attempt in attempts {
        let outcome = attempt.outcome.clone().unwrap_or_else(|| "under way".to_owned());
        let tone = match outcome.as_str() {
            "succeeded" => Tone::Good,
            "failed" | "lost" => Tone::Bad,
            _ => Tone::Busy,
        };
        let number = |value: Option<String>| (value.unwrap_or_default(), Tone::Plain);
        table.row([
            (attempt.number.to_string(), Tone::Plain),
            (outcome, tone),
            (attempt.worker.clone(), Tone::Faint),
            (attempt.started_at.map(|time| screen.when(time.0)).unwrap_or_default(), Tone::Plain),
            number(attempt.duration_ms.map(duration_text)),
            number(attempt.exit_code.map(|code| code.to_string())),
            number(attempt.signal.map(|signal| signal.to_string())),
            number(attempt.output_bytes.map(|bytes| format!("{bytes} B"))),
            (
                attempt.detail.clone().or_else(|| attempt.reason.clone()).unwrap_or_default(),
                Tone::Faint,
            ),
        ]);
    }
    table
}

/// Shows what happened to a run.
pub async fn events(context: &mut Context, id: &str) -> Result<()> {
    let events = context.client.run_events(id).await?.items;
    if context.json {
        return events.iter().try_for_each(|event| context.print_json_line(event));
    }
    let mut table = Table::new(&[
        Column::new("TIME"),
        Column::new("EVENT"),
        Column::number("ATTEMPT"),
        Column::name("WORKER"),
        Column::number("EXIT"),
        Column::number("STATUS"),
        Column::text("DETAIL"),
    ]);
    for event in events {
        let number = |value: Option<String>| (value.unwrap_or_default(), Tone::Plain);
        table.row([
            (context.screen.clock(event.at.0), Tone::Faint),
            (event.event, Tone::Plain),
            number(event.attempt.map(|n| n.to_string())),
            (event.worker.unwrap_or_default(), Tone::Faint),
            number(event.exit_code.map(|code| code.to_string())),
            number(event.response_status.map(|status| status.to_string())),
            (event.detail.or(event.reason).unwrap_or_default(), Tone::Plain),
        ]);
    }
    if !table.is_empty() {
        context.screen.table(&table)?;
    }
    Ok(())
}
