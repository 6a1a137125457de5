//! JSON that cannot be read, in words; and JSON that is stored as it stands.

use bellwether_api::Problem;
use serde::Deserialize;

use super::limits::JSON_DEPTH_MAX;
use super::objects::Objects;
use super::problem::{invalid, nearest, quoted, sentence};

/// Reads a body, which is always an object.
///
/// # Errors
/// What [`json_problem`] says, with the path of the field at fault where there is one.
pub fn from_json<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Problem> {
    if body.trim_ascii_start().first() == Some(&b'[') {
        return Err(Problem::new(400, "invalid_type", "found a list, expected an object"));
    }
    read(body, json_problem)
}

/// Reads JSON that may be anything.
pub(super) fn from_any_json<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, Problem> {
    read(text, json_problem)
}

/// The same for JSON that the caller did not write in this form: without line and column.
pub(super) fn from_merged<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Problem> {
    read(text.as_bytes(), json_problem_without_place)
}

fn read<'a, T: Deserialize<'a>>(
    body: &'a [u8],
    problem: impl FnOnce(&serde_json::Error) -> Problem,
) -> Result<T, Problem> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let value = T::deserialize(Objects(&mut reader));
    value.and_then(|value| reader.end().map(|()| value)).map_err(|error| {
        // Only what went wrong is read a second time, by the slower reader that knows where it is.
        let mut again = serde_json::Deserializer::from_slice(body);
        match serde_path_to_error::deserialize::<_, T>(Objects(&mut again)) {
            Err(found) => with_path(problem(&error), &found.path().to_string()),
            Ok(_) => problem(&error),
        }
    })
}

/// Adds the path of a field. For a field that is unknown, missing or doubled the problem has its
/// name, and the path may be that of the object around it.
fn with_path(problem: Problem, path: &str) -> Problem {
    if matches!(path, "" | "." | "?") || problem.code == "invalid_json" {
        return problem;
    }
    let path = sentence(path);
    let field = match &problem.field {
        None => path,
        Some(name) if path == *name || path.ends_with(&format!(".{name}")) => path,
        Some(name) => format!("{path}.{name}"),
    };
    problem.at(field)
}

/// A problem for JSON that could not be read, with line and column. Values are not repeated, since
/// any of them may be a secret that went into the wrong field.
#[must_use]
pub fn json_problem(error: &serde_json::Error) -> Problem {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let message = text.strip_suffix(&place).unwrap_or(&text);
    let mut problem = data_problem(message, !error.is_data());
    if error.line() > 0 {
        problem.detail.push_str(&format!(" (line {}, column {})", error.line(), error.column()));
    }
    problem
}

/// Without line and column, for JSON that the caller did not write in this form.
pub(super) fn json_problem_without_place(error: &serde_json::Error) -> Problem {
    let text = error.to_string();
    let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message);
    data_problem(message, !error.is_data())
}

fn data_problem(message: &str, is_syntax: bool) -> Problem {
    let bad = |code: &str, detail: String| Problem::new(400, code, detail);
    if is_syntax {
        return bad("invalid_json", format!("this is not JSON: {}", sentence(message)));
    }
    if let Some((name, known)) = named(message, "unknown field ") {
        let hint = match nearest(name, backquoted(known)) {
            Some(near) => format!("; did you mean `{near}`?"),
            None => format!("; {}", sentence(known)),
        };
        let name = sentence(name);
        return bad("unknown_field", format!("there is no field {}{hint}", quoted(&name))).at(name);
    }
    if let Some((name, known)) = named(message, "unknown variant ") {
        let detail = format!("{} is not possible here; {}", quoted(name), sentence(known));
        return bad("invalid_value", detail);
    }
    if let Some((name, _)) = named(message, "missing field ") {
        return bad("missing_field", format!("the field `{}` is missing", sentence(name)))
            .at(sentence(name));
    }
    if let Some((name, _)) = named(message, "duplicate field ") {
        return bad("duplicate_field", format!("the field `{}` is there twice", sentence(name)))
            .at(sentence(name));
    }
    for (start, code) in [
        ("invalid type: ", "invalid_type"),
        ("invalid value: ", "invalid_value"),
        ("invalid length ", "invalid_value"),
    ] {
        if let Some(rest) = message.strip_prefix(start) {
            return bad(code, format!("found {}, {}", kind(rest), expected(rest)));
        }
    }
    if message.starts_with("data did not match any variant") {
        return bad("invalid_type", "found a value of a kind that is not possible here".to_owned());
    }
    bad("invalid_value", sentence(message))
}

/// Reads "unknown field `x`, expected …" into the name and the rest.
fn named<'a>(message: &'a str, start: &str) -> Option<(&'a str, &'a str)> {
    let rest = message.strip_prefix(start)?.strip_prefix('`')?;
    // The name may contain anything, so the sentence is taken apart from its end.
    for end in ["`, expected ", "`, there are no "] {
        if let Some(at) = rest.rfind(end) {
            return Some((&rest[..at], &rest[at + 3..]));
        }
    }
    Some((rest.strip_suffix('`').unwrap_or(rest), ""))
}

/// The names in a list such as "expected one of `a`, `b`".
fn backquoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// What kind of value was found, without the value.
fn kind(rest: &str) -> &'static str {
    const KINDS: [(&str, &str); 8] = [
        ("string", "a text"),
        ("integer", "a number"),
        ("floating point", "a number"),
        ("boolean", "true or false"),
        ("map", "an object"),
        ("sequence", "a list"),
        ("null", "null"),
        ("unit", "null"),
    ];
    KINDS.iter().find(|(start, _)| rest.starts_with(start)).map_or("something else", |(_, w)| w)
}

/// What was expected. Names of types mean nothing to callers.
fn expected(rest: &str) -> String {
    let Some((_, wanted)) = rest.rsplit_once("expected ") else {
        return "which is not possible here".to_owned();
    };
    let wanted = match wanted {
        "u8" | "u16" | "u32" | "u64" => "a number without sign or fraction, in range",
        "i8" | "i16" | "i32" | "i64" => "a number without fraction, in range",
        "f32" | "f64" => "a number",
        "a string" => "a text",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "an object",
        text if text.starts_with("struct ") => "an object",
        text => text,
    };
    format!("expected {}", sentence(wanted))
}

/// Checks JSON that is stored as text: it must be possible for every client to read it back.
pub(super) fn check_stored(field: &str, text: &str) -> Result<(), Problem> {
    let seen = look(text);
    if seen.depth > JSON_DEPTH_MAX {
        let detail = format!("`{field}` is nested deeper than {JSON_DEPTH_MAX} levels");
        return Err(invalid("too_deep", field, detail));
    }
    if seen.doubtful && serde_json::from_str::<serde_json::Value>(text).is_err() {
        let detail = format!(
            "`{field}` holds a number that is out of range or half of a character pair (\\ud800 \
             to \\udfff), which most programs cannot read"
        );
        return Err(invalid("invalid_value", field, detail));
    }
    Ok(())
}

struct Seen {
    depth: usize,
    /// Whether there is something that valid JSON may contain but not every reader accepts.
    doubtful: bool,
}

/// One look at JSON that is known to be well-formed.
fn look(text: &str) -> Seen {
    /// More digits than any number needs.
    const DIGITS_MAX: usize = 100;
    let (mut depth, mut deepest, mut doubtful) = (0_usize, 0, false);
    let (mut in_text, mut escaped, mut digits) = (false, false, 0_usize);
    for byte in text.bytes() {
        if in_text {
            doubtful |= escaped && byte == b'u';
            in_text = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            continue;
        }
        doubtful |= digits > DIGITS_MAX || digits > 0 && matches!(byte, b'e' | b'E');
        digits = if byte.is_ascii_digit() { digits + 1 } else { 0 };
        match byte {
            b'"' => in_text = true,
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Seen { depth: deepest, doubtful: doubtful || digits > DIGITS_MAX }
}
