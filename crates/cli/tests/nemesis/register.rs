//! A job as something that is written and read: what clients can see of it, what they do to it, and whether what
//! they were told fits together. The search for that is in `linearizable`; who the clients are is in `clients`.
//!
//! Every change carries a number of its own, so that whoever reads it knows who wrote it. A job has two places for
//! one: a change of a part writes one of them, and must not undo what others did to the other. Its revision
//! counts changes, so that none can take effect twice.

use std::time::Duration;

use crate::linearizable::{Call, Operation, Verdict, search, smallest};

/// Lines of a history that are shown.
const LINES_MAX: usize = 60;

/// What can be seen of a job.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Seen {
    /// The number in its owner.
    pub owner: u32,
    /// The number in its label.
    pub label: u32,
    /// Its revision.
    pub revision: u32,
}

/// What a client was told about how things stood just before its change, or when it looked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Told {
    /// Nothing, or nothing that says it.
    Nothing,
    /// There was no job.
    Absent,
    /// There was one.
    There,
    /// It was just like this.
    Like(Seen),
}

/// What a client did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// It only looked, or was refused.
    None,
    /// It wrote its number in both places of the job, which is created if it is not there.
    Put(u32),
    /// In one.
    Owner(u32),
    /// In the other.
    Label(u32),
    /// It deleted the job.
    Delete,
}

/// The number of a change that nobody has seen.
const UNSEEN: u32 = 0;

impl Change {
    fn number(&mut self) -> Option<&mut u32> {
        match self {
            Change::Put(number) | Change::Owner(number) | Change::Label(number) => Some(number),
            Change::None | Change::Delete => None,
        }
    }
}

/// What a client did, and what it was told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    pub told: Told,
    pub change: Change,
}

impl Operation for Step {
    type State = Option<Seen>;

    fn after(&self, state: &Option<Seen>) -> Option<Option<Seen>> {
        let fits = match self.told {
            Told::Nothing => true,
            Told::Absent => state.is_none(),
            Told::There => state.is_some(),
            Told::Like(seen) => *state == Some(seen),
        };
        if !fits {
            return None;
        }
        let revision = state.map_or(0, |job| job.revision) + 1;
        Some(match self.change {
            Change::None => *state,
            Change::Put(number) => Some(Seen { owner: number, label: number, revision }),
            Change::Owner(owner) => state.map(|job| Seen { owner, revision, ..job }),
            Change::Label(label) => state.map(|job| Seen { label, revision, ..job }),
            Change::Delete => None,
        })
    }

    fn only_looks(&self) -> bool {
        self.change == Change::None
    }

    /// Nobody writes the same number twice, so what was overwritten is gone for ever.
    fn is_past(&self, before: &Option<Seen>, after: &Option<Seen>) -> bool {
        let Told::Like(seen) = self.told else { return false };
        let has_owner = |job: &Option<Seen>| job.is_some_and(|job| job.owner == seen.owner);
        let has_label = |job: &Option<Seen>| job.is_some_and(|job| job.label == seen.label);
        has_owner(before) && !has_owner(after) || has_label(before) && !has_label(after)
    }
}

/// When a number was seen first, if it was.
fn seen_by(number: u32, calls: &[Call<Step>]) -> Option<Duration> {
    let sees = |call: &&Call<Step>| match call.operation.told {
        Told::Like(seen) => seen.owner == number || seen.label == number,
        _ => false,
    };
    calls.iter().filter(sees).filter_map(|call| call.ended).min()
}

/// Adds what is known of changes because their numbers were seen, or were not. One that was not answered, but seen,
/// has happened by then. What was never seen makes no difference to anybody, so it may be the same for all.
fn completed(calls: &[Call<Step>]) -> Vec<Call<Step>> {
    let complete = |call: &Call<Step>| {
        let mut call = call.clone();
        if let Some(number) = call.operation.change.number() {
            match seen_by(*number, calls) {
                Some(seen) => call.ended = call.ended.or(Some(seen)),
                None => *number = UNSEEN,
            }
        }
        call
    };
    calls.iter().map(complete).collect()
}

/// Whether there is an order in which everybody was told the truth about a job that was not there at first. How many
/// positions were looked at; or what cannot be, for people.
pub fn check(calls: &[Call<Step>]) -> Result<usize, String> {
    let known = completed(calls);
    match search(&None, &known) {
        Verdict::InOrder { positions } => Ok(positions),
        Verdict::TooHard => Err("there are too many orders to look at all of them".to_owned()),
        Verdict::Impossible { stuck } => Err(story(calls, &known, stuck)),
    }
}

/// The shortest stretch of a history that shows why there is no order: what was told that contradicts, who wrote what
/// was seen there, and all changes since, with those that were refused.
fn story(calls: &[Call<Step>], known: &[Call<Step>], stuck: usize) -> String {
    let mut matters = smallest(&None, known, stuck);
    let looks: Vec<usize> =
        matters.iter().copied().filter(|at| known[*at].operation.only_looks()).collect();
    let mut since = known[stuck].begun;
    for at in looks {
        since = since.min(known[at].begun);
        let Told::Like(seen) = known[at].operation.told else { continue };
        // Whoever asked for what was seen there, also if that was refused.
        let asked = |call: &Call<Step>| match call.operation.told {
            Told::Like(_) => false,
            _ => [seen.owner, seen.label].iter().any(|number| {
                let written = call.operation.change.clone().number().copied();
                written == Some(*number) || call.words.contains(&format!(" {number}:"))
            }),
        };
        for (wrote, call) in known.iter().enumerate().filter(|(_, call)| asked(call)) {
            since = since.min(call.begun);
            matters.push(wrote);
        }
    }
    // What was refused in the meantime may have been made all the same.
    let until = known[stuck].ended;
    let refused = |call: &Call<Step>| {
        let within = call.ended >= Some(since) && Some(call.begun) <= until;
        within && call.operation.only_looks() && !matches!(call.operation.told, Told::Like(_))
    };
    matters.extend((0..known.len()).filter(|at| refused(&known[*at])));
    matters.sort_unstable();
    matters.dedup();
    let line = |at: &usize| {
        let (begun, ended) = (calls[*at].begun.as_secs_f64(), calls[*at].ended);
        let ended = ended.map_or("       ?".to_owned(), |at| format!("{:8.3}", at.as_secs_f64()));
        let mark = if known[*at].ended == known[stuck].ended { ">" } else { " " };
        format!("{mark} {begun:8.3} – {ended} s  {}", calls[*at].words)
    };
    let mut shown: Vec<&usize> =
        matters.iter().filter(|at| known[**at].ended.is_none_or(|ended| ended >= since)).collect();
    shown.sort_by_key(|at| calls[**at].begun);
    let lines: Vec<String> = shown.into_iter().map(line).collect();
    let left_out = lines.len().saturating_sub(LINES_MAX);
    let omitted = if left_out > 0 { format!("… {left_out} more\n") } else { String::new() };
    format!(
        "there is no order of these in which everybody was told the truth; the one marked > was the first that could not be:\n\
         {omitted}{}",
        lines[left_out..].join("\n")
    )
}

#[cfg(test)]
mod tests;
