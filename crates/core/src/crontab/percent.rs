//! `%` in commands: where the command ends and its standard input begins.
//!
//! In the command `\%` is a percent sign, and the first bare `%` ends it. In what follows `\%` is a
//! percent sign, a bare `%` a line's end, and a last line's end is added if it is missing. Other
//! backslashes are left to the shell.

/// Splits the rest of a line into the command and what it reads.
pub(super) fn decode(text: &str) -> (String, Option<String>) {
    let mut command = String::with_capacity(text.len());
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            '%' if escaped => {
                command.pop();
                command.push('%');
            }
            '%' => return (command, Some(decode_stdin(&text[at + 1..]))),
            _ => command.push(c),
        }
        escaped = c == '\\' && !escaped;
    }
    (command, None)
}

fn decode_stdin(text: &str) -> String {
    let mut stdin = String::with_capacity(text.len() + 1);
    let mut escaped = false;
    for c in text.chars() {
        match c {
            '%' if escaped => {
                stdin.pop();
                stdin.push('%');
            }
            '%' => stdin.push('\n'),
            _ => stdin.push(c),
        }
        escaped = c == '\\';
    }
    if !stdin.is_empty() && !stdin.ends_with('\n') {
        stdin.push('\n');
    }
    stdin
}

/// Writes a command and its input so that [`decode`] gives them back.
///
/// # Errors
/// Why a crontab cannot express them.
pub(super) fn encode(command: &str, stdin: Option<&str>) -> Result<String, &'static str> {
    let command = command.trim_start_matches([' ', '\t']);
    if command.is_empty() {
        return Err("the command is empty");
    }
    if command.contains(['\n', '\r', '\0']) {
        return Err("the command has several lines");
    }
    let text = command.replace('%', "\\%");
    let Some(stdin) = stdin else { return checked(text, command, None) };
    if stdin.contains(['\r', '\0']) {
        return Err("the standard input has control characters");
    }
    // The last line's end comes by itself, unless it is all there is or follows another.
    let shown = match stdin.strip_suffix('\n') {
        Some(rest) if !rest.is_empty() && !rest.ends_with('\n') => rest,
        _ => stdin,
    };
    let input = shown.replace('%', "\\%").replace('\n', "%");
    checked(format!("{text}%{input}"), command, Some(stdin))
}

/// Backslashes before `%` cannot all be written; rather than listing the cases, read it back.
fn checked(text: String, command: &str, stdin: Option<&str>) -> Result<String, &'static str> {
    let (command_read, stdin_read) = decode(&text);
    if command_read != command {
        return Err("the command has a backslash before a percent sign");
    }
    match (stdin, stdin_read.as_deref()) {
        (wanted, read) if wanted == read => Ok(text),
        (Some(wanted), Some(read)) if read.strip_suffix('\n') == Some(wanted) => {
            Err("the standard input does not end with a line's end")
        }
        _ => Err("the command or its input has a backslash at the end of a line"),
    }
}
