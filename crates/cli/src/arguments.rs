//! What clap does not do by itself: flags before the command, and variables that are misspelt.
//!
//! The flags that say which server and how to answer belong to the commands that talk to one, so
//! that `bellwether server --token X` is an error. People write them first all the same; they are
//! moved behind the command before anything is read.

use std::collections::BTreeSet;
use std::ffi::OsString;

use clap::{Arg, ArgAction, Command};

/// How all variables of ours start.
const PREFIX: &str = "BELLWETHER_";
/// Variables that commands get from a server; see `docs/targets.md`.
const OF_RUNS: [&str; 10] = [
    "BELLWETHER_RUN_ID",
    "BELLWETHER_JOB_ID",
    "BELLWETHER_KEY",
    "BELLWETHER_NAMESPACE",
    "BELLWETHER_SCHEDULED_AT",
    "BELLWETHER_ATTEMPT",
    "BELLWETHER_FENCING_TOKEN",
    "BELLWETHER_IDEMPOTENCY_KEY",
    "BELLWETHER_INSTANCE",
    "BELLWETHER_ITEM",
];

/// A command line whose flags for reaching a server stand behind the command.
pub fn flags_after_command(cli: &Command, line: Vec<OsString>) -> Vec<OsString> {
    // Any command that talks to a server has them all.
    let known: Vec<&Arg> = match cli.find_subcommand("job") {
        Some(job) => job.get_arguments().filter(|arg| arg.is_global_set()).collect(),
        None => Vec::new(),
    };
    let mut end = 1;
    while let Some(word) = line.get(end).and_then(|word| word.to_str())
        && let Some(width) = width(&known, word)
    {
        end += width;
    }
    if end == 1 || end >= line.len() {
        return line;
    }
    let (before, rest) = line.split_at(end);
    let mut moved = vec![before[0].clone(), rest[0].clone()];
    moved.extend(before[1..].iter().cloned());
    moved.extend(rest[1..].iter().cloned());
    moved
}

/// How many words a flag takes on the command line, if it is one of those known.
fn width(known: &[&Arg], word: &str) -> Option<usize> {
    let (name, has_value) = match word.split_once('=') {
        Some((name, _)) => (name, true),
        None => (word, false),
    };
    let arg = known.iter().find(|arg| {
        let long = arg.get_long().map(|long| format!("--{long}"));
        let short = arg.get_short().map(|short| format!("-{short}"));
        long.as_deref() == Some(name)
            || short.is_some_and(|short| !word.starts_with("--") && word.starts_with(&short))
    })?;
    let alone = has_value
        || matches!(arg.get_action(), ArgAction::SetTrue)
        || !word.starts_with("--") && word.len() > 2;
    Some(if alone { 1 } else { 2 })
}

/// What to say about variables that look like ours and are none.
pub fn misspelt_variables(cli: &Command, names: impl Iterator<Item = OsString>) -> Vec<String> {
    let mut known: BTreeSet<String> = OF_RUNS.iter().map(|name| (*name).to_owned()).collect();
    collect(cli, &mut known);
    let mut remarks = Vec::new();
    for name in names.filter_map(|name| name.into_string().ok()) {
        if !name.starts_with(PREFIX) || known.contains(&name) {
            continue;
        }
        // Others may have variables of this kind, too: only what is nearly ours is told.
        let allowed = 1 + (name.len() - PREFIX.len()) / 4;
        let near = known
            .iter()
            .map(|known| (strsim::damerau_levenshtein(&name, known), known))
            .filter(|(distance, _)| *distance <= allowed)
            .min();
        if let Some((_, near)) = near {
            remarks.push(format!("the variable {name} means nothing; did you mean {near}?"));
        }
    }
    remarks
}

fn collect(command: &Command, known: &mut BTreeSet<String>) {
    let names = command.get_arguments().filter_map(Arg::get_env);
    known.extend(names.filter_map(|name| name.to_str()).map(str::to_owned));
    command.get_subcommands().for_each(|command| collect(command, known));
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn moved(line: &str) -> String {
        let line = line.split(' ').map(OsString::from).collect();
        let moved = flags_after_command(&Cli::command(), line);
        moved.join(&OsString::from(" ")).into_string().unwrap()
    }

    #[test]
    fn flags_may_stand_before_the_command() {
        for (line, expected) in [
            ("b --json job list", "b job --json list"),
            ("b --server h:1 -n team job list", "b job --server h:1 -n team list"),
            (
                "b --server=h:1 -nteam --token t job list",
                "b job --server=h:1 -nteam --token t list",
            ),
            ("b job list --json", "b job list --json"),
            ("b --json server", "b server --json"),
            ("b --version", "b --version"),
            ("b --json", "b --json"),
            ("b --unknown job", "b --unknown job"),
            ("b", "b"),
        ] {
            assert_eq!(moved(line), expected);
        }
    }

    #[test]
    fn misspelt_variables_are_told_and_strange_ones_are_not() {
        let names = [
            "BELLWETHER_SERVR",
            "BELLWETHER_WORKER_SLOT",
            "BELLWETHER_TOKEN",
            "BELLWETHER_RUN_ID",
            "BELLWETHER_SERVICE_HOST",
            "BELLWETHER_PORT_2355_TCP",
            "PATH",
        ];
        let remarks = misspelt_variables(&Cli::command(), names.into_iter().map(OsString::from));
        assert_eq!(
            remarks,
            [
                "the variable BELLWETHER_SERVR means nothing; did you mean BELLWETHER_SERVER?",
                "the variable BELLWETHER_WORKER_SLOT means nothing; did you mean \
                 BELLWETHER_WORKER_SLOTS?",
            ]
        );
    }
}
