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
        None if line.starts_with(['"', '\'']) => return None,
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
    let wanted = Some((name.to_owned(), value.to_owned()));
    let writable = |line: &String| {
        !line.contains(['\n', '\r', '\0']) && !line.starts_with('#') && decode(line) == wanted
    };
    // Bare if that works, else with the first kind of quotes that does.
    let quoted = |text: &str| [text.to_owned(), format!("\"{text}\""), format!("'{text}'")];
    let (names, values) = (quoted(name), quoted(value));
    let mut lines = names.iter().flat_map(|name| {
        let values = values.iter().filter(|value| !value.is_empty());
        values.map(move |value| format!("{name}={value}"))
    });
    lines.find(writable)
}
