//! Commands as lines for a shell: what a crontab cannot say beside a command is said within it.
//!
//! The same function writes a line for the export and recognises it at the import, so that what
//! was put into a line is taken out of it again, and a line that was edited is taken as it stands.

use std::collections::BTreeMap;

use bellwether_api::{JobSpec, TextOrList};

/// Shells that read `cd`, `export` and quotes as they are written here.
const SHELLS: [&str; 7] = ["sh", "bash", "dash", "ash", "ksh", "mksh", "zsh"];

/// A job's command as one line. Its directory and those variables that the crontab's own
/// `settings` do not give it go before it.
///
/// # Errors
/// Why a line cannot say it.
pub fn line(spec: &JobSpec, settings: &BTreeMap<String, String>) -> Result<String, String> {
    let command = match &spec.command {
        Some(TextOrList::Text(line)) => line.clone(),
        Some(TextOrList::List(argv)) => words(argv),
        None => return Err("it does not run a command".to_owned()),
    };
    let before = before(spec, settings)?;
    if before.is_empty() {
        return Ok(command);
    }
    let shell = spec.shell.as_deref().unwrap_or("/bin/sh");
    let name = shell.rsplit('/').next().unwrap_or(shell);
    if !SHELLS.contains(&name) {
        return Err(format!("its directory or variables cannot be set in {shell}"));
    }
    Ok(format!("{before}{command}"))
}

/// What sets directory and variables. A directory that cannot be entered ends the line, however
/// many commands it has.
fn before(spec: &JobSpec, settings: &BTreeMap<String, String>) -> Result<String, String> {
    let mut text = String::new();
    // Cron starts commands in the home directory.
    let there = settings.get("HOME");
    if let Some(cwd) = spec.cwd.as_ref().filter(|cwd| there != Some(*cwd)) {
        text.push_str(&format!("cd {} || exit 1; ", quoted(cwd)));
    }
    let own = spec.env.iter().filter(|(name, value)| settings.get(*name) != Some(*value));
    let mut pairs = Vec::new();
    for (name, value) in own {
        if !is_name(name) {
            return Err(format!("no shell can set its variable '{name}'"));
        }
        pairs.push(format!("{name}={}", quoted(value)));
    }
    if !pairs.is_empty() {
        text.push_str(&format!("export {}; ", pairs.join(" ")));
    }
    Ok(text)
}

/// A program and its arguments.
fn words(argv: &[String]) -> String {
    let mut words: Vec<String> = argv.iter().map(|word| quoted(word)).collect();
    if let Some(program) = words.first_mut()
        && program.contains('=')
        && !program.starts_with('\'')
    {
        // Bare, it would set a variable.
        *program = format!("'{program}'");
    }
    words.join(" ")
}

/// Whether a shell can have a variable of this name.
pub fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A word as a shell reads it back.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(spec: serde_json::Value, settings: &[(&str, &str)], expected: Result<&str, &str>) {
        let spec: JobSpec = serde_json::from_value(spec).unwrap();
        let settings =
            settings.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let line = line(&spec, &settings);
        assert_eq!(line.as_deref().map_err(String::as_str), expected);
    }

    #[test]
    fn words_are_quoted_for_the_shell() {
        for (word, shell) in
            [("make", "make"), ("a b", "'a b'"), ("", "''"), ("it's", r"'it'\''s'"), ("$x", "'$x'")]
        {
            assert_eq!(quoted(word), shell);
        }
        check(json!({"command": ["a=b", "c=d", "e f"]}), &[], Ok("'a=b' c=d 'e f'"));
    }

    #[test]
    fn directory_and_variables_go_before_the_command() {
        check(
            json!({"command": "a; b", "cwd": "/srv/my app", "env": {"A": "it's", "B": "c"}}),
            &[],
            Ok(r"cd '/srv/my app' || exit 1; export A='it'\''s' B=c; a; b"),
        );
        check(
            json!({"command": "a", "cwd": "/srv", "env": {"HOME": "/srv", "B": "c"}}),
            &[("HOME", "/srv"), ("B", "other")],
            Ok("export B=c; a"),
        );
        check(
            json!({"command": "a", "env": {"A.B": "c"}}),
            &[],
            Err("no shell can set its variable 'A.B'"),
        );
        check(
            json!({"command": "a", "cwd": "/", "shell": "/usr/bin/perl"}),
            &[],
            Err("its directory or variables cannot be set in /usr/bin/perl"),
        );
        check(json!({"command": "a", "shell": "/usr/bin/perl"}), &[], Ok("a"));
    }
}
