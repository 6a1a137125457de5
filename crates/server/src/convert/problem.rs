//! The problems this module reports, put together in one way.

use bellwether_api::{Problem, Size, Span};

/// Characters of the caller's own text that are repeated to them.
const QUOTED_CHARS_MAX: usize = 60;
/// Characters of a sentence that came from elsewhere.
const DETAIL_CHARS_MAX: usize = 500;

/// A request that can be read but not accepted. An empty field is the request as a whole.
pub(super) fn invalid(code: &str, field: impl Into<String>, detail: impl Into<String>) -> Problem {
    let (field, problem) = (field.into(), Problem::new(422, code, detail));
    if field.is_empty() { problem } else { problem.at(field) }
}

/// A field that goes only with another one.
pub(super) fn not_applicable(field: &str, with: &str) -> Problem {
    invalid("field_not_applicable", field, format!("`{field}` goes only with `{with}`"))
}

/// A text that is too long.
pub(super) fn too_long(field: impl Into<String>, max: usize, unit: &str) -> Problem {
    let field = field.into();
    let detail = format!("`{field}` is longer than {max} {unit}, the most accepted");
    invalid("too_long", field, detail)
}

/// A list or map with too many entries.
pub(super) fn too_many(field: &str, found: usize, max: usize) -> Problem {
    let detail = format!("`{field}` has {found} entries; at most {max} are accepted");
    invalid("too_many", field, detail)
}

/// Data that is too large to be stored with a job.
pub(super) fn too_large(field: &str, found: usize, max: usize) -> Problem {
    let detail = format!(
        "`{field}` has {found} bytes; at most {max} are accepted. Store large data elsewhere and \
         pass a reference to it"
    );
    Problem::new(413, "payload_too_large", detail).at(field)
}

/// A number outside its range.
pub(super) fn out_of_range(
    field: &str,
    found: impl std::fmt::Display,
    range: impl std::fmt::Display,
) -> Problem {
    invalid("out_of_range", field, format!("`{field}` is {found}; it must be {range}"))
}

/// Checks a duration against its range and returns its milliseconds.
pub(super) fn span_within(
    field: &str,
    span: Span,
    min_ms: u64,
    max_ms: u64,
) -> Result<u64, Problem> {
    if (min_ms..=max_ms).contains(&span.0) {
        return Ok(span.0);
    }
    Err(out_of_range(field, span, format!("from {} to {}", Span(min_ms), Span(max_ms))))
}

/// Checks a size against its range and returns its bytes.
pub(super) fn size_within(
    field: &str,
    size: Size,
    min_bytes: u64,
    max_bytes: u64,
) -> Result<u64, Problem> {
    if (min_bytes..=max_bytes).contains(&size.0) {
        return Ok(size.0);
    }
    Err(out_of_range(field, size, format!("from {} to {}", Size(min_bytes), Size(max_bytes))))
}

/// Checks a count against its range.
pub(super) fn count_within(field: &str, count: u32, max: u32) -> Result<u32, Problem> {
    if (1..=max).contains(&count) {
        return Ok(count);
    }
    Err(out_of_range(field, count, format!("from 1 to {max}")))
}

/// A part of a map, as a path: `labels.team`. The caller's text is shortened and made printable.
pub(super) fn path(map: &str, name: &str) -> String {
    format!("{map}.{}", shortened(name, QUOTED_CHARS_MAX))
}

/// The caller's text for a message: shortened, without control characters, in quotes.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", shortened(text, QUOTED_CHARS_MAX))
}

/// A sentence from elsewhere, on one line and not too long.
pub(super) fn sentence(text: &str) -> String {
    shortened(text, DETAIL_CHARS_MAX)
}

fn shortened(text: &str, max: usize) -> String {
    let mut shown: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(max).collect();
    if text.chars().nth(max).is_some() {
        shown.push('…');
    }
    shown
}

/// Of several names, the one that is probably meant.
pub(super) fn nearest<'a>(
    found: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let allowed = 1 + found.chars().count() / 4;
    if found.len() > QUOTED_CHARS_MAX {
        return None;
    }
    let distance = |name: &str| strsim::damerau_levenshtein(&found.to_lowercase(), name);
    known
        .into_iter()
        .map(|name| (distance(name), name))
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, name)| name)
}
