//! Environment lines: `NAME=value`, quoted as Debian's cron has it.
//!
//! Blanks around the `=` do not count. Name and value may be quoted with `'` or `"`; there are no
//! escapes. An unquoted value loses blanks at its end and keeps everything else, `#` and quotes
//! inside too. Nothing is expanded.

/// Reads a line as a setting; `None` if it is something else.
pub(super) fn decode(line: &str) -> Option<(String, String)> {
    let line = line.trim_start();
    let (name, rest) = match unquote(line) {
        Some((name, rest)) => (name, rest.trim_start().strip_prefix('=')?),
        None => {
            let (name, rest) = line.split_once('=')?;
            (name.trim_end(), rest)
        }
    };
    if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c == '=') {
        return None;
    }
    let value = rest.trim();
    let value = match unquote(value) {
        Some((value, "")) => value,
        // Something after the closing quote, or no closing quote.
        Some(_) => return None,
        None if value.starts_with(['"', '\'']) => return None,
        None => value,
    };
    Some((name.to_owned(), value.to_owned()))
}

/// The inside of a quoted text at the start, and what follows it.
fn unquote(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    text[1..].split_once(quote)
}

/// Writes a setting so that [`decode`] gives it back; `None` if that is not possible.
pub(super) fn encode(name: &str, value: &str) -> Option<String> {
    let bare = !value.is_empty() && value.trim() == value && !value.starts_with(['"', '\'']);
    let text = if bare {
        format!("{name}={value}")
    } else {
        let quote = ['"', '\''].into_iter().find(|quote| !value.contains(*quote))?;
        format!("{name}={quote}{value}{quote}")
    };
    let one_line = !text.contains(['\n', '\r', '\0']) && !name.starts_with('#');
    (one_line && decode(&text) == Some((name.to_owned(), value.to_owned()))).then_some(text)
}
