//! What a view has been told, so that nothing is asked twice.
//!
//! Rows come in spans: all rows between two keys. Whatever lies within one is known, also that a key
//! is not there. The memory that this takes is bounded: when there is too much, all is forgotten and
//! asked for again.

use std::collections::BTreeMap;
use std::sync::Arc;

use bellwether_core::waist::{Family, Row};
use bytes::Bytes;

/// Bytes that are remembered at most.
const BYTES_MAX: usize = 8 << 20;
/// Bytes that a row takes besides its own.
const ROW_BYTES: usize = 64;

/// All rows of a family with `from <= key < to`.
#[derive(Clone, Debug)]
pub struct Span {
    /// The first key that it covers.
    pub from: Bytes,
    /// The first key that it does not cover any more.
    pub to: Bytes,
    /// The rows, ascending.
    pub rows: Arc<Vec<Row>>,
}

/// What a view has been told.
#[derive(Default)]
pub struct Known {
    spans: BTreeMap<(Family, Bytes), Span>,
    values: BTreeMap<(Family, Bytes), Option<Bytes>>,
    bytes: usize,
}

impl Known {
    /// The value of a key, if that is known: there may be none.
    #[must_use]
    pub fn get(&self, family: Family, key: &[u8]) -> Option<Option<Bytes>> {
        let key = Bytes::copy_from_slice(key);
        if let Some(span) = self.from(family, &key) {
            let found = span.rows.binary_search_by(|(at, _)| at.cmp(&key));
            return Some(found.ok().map(|at| span.rows[at].1.clone()));
        }
        self.values.get(&(family, key)).cloned()
    }

    /// The span that has a key.
    #[must_use]
    pub fn from(&self, family: Family, key: &Bytes) -> Option<&Span> {
        let (_, span) =
            self.spans.range((family, Bytes::new())..=(family, key.clone())).next_back()?;
        (span.to > *key).then_some(span)
    }

    /// The span that has what comes before a key.
    #[must_use]
    pub fn before(&self, family: Family, key: &Bytes) -> Option<&Span> {
        let (_, span) =
            self.spans.range((family, Bytes::new())..(family, key.clone())).next_back()?;
        (span.to >= *key).then_some(span)
    }

    /// Remembers the value of a key.
    pub fn put(&mut self, family: Family, key: Bytes, value: Option<Bytes>) {
        self.make_room(ROW_BYTES + key.len() + value.as_ref().map_or(0, Bytes::len));
        self.values.insert((family, key), value);
    }

    /// Remembers a span.
    pub fn put_span(&mut self, family: Family, span: Span) {
        let rows = span.rows.iter().map(|(key, value)| ROW_BYTES + key.len() + value.len());
        self.make_room(ROW_BYTES + rows.sum::<usize>());
        self.spans.insert((family, span.from.clone()), span);
    }

    fn make_room(&mut self, bytes: usize) {
        if self.bytes + bytes > BYTES_MAX {
            *self = Known::default();
        }
        self.bytes += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Bytes {
        Bytes::copy_from_slice(text.as_bytes())
    }

    fn span(from: &str, to: &str, keys: &[&str]) -> Span {
        let rows = keys.iter().map(|key| (bytes(key), bytes(&format!("{key}!")))).collect();
        Span { from: bytes(from), to: bytes(to), rows: Arc::new(rows) }
    }

    #[test]
    fn what_lies_within_a_span_is_known_and_nothing_else() {
        let mut known = Known::default();
        known.put_span(Family::Job, span("b", "f", &["c", "d"]));
        known.put(Family::Job, bytes("x"), None);
        assert_eq!(known.get(Family::Job, b"d"), Some(Some(bytes("d!"))));
        assert_eq!(known.get(Family::Job, b"e"), Some(None));
        assert_eq!(known.get(Family::Job, b"x"), Some(None));
        for unknown in ["a", "f", "y"] {
            assert_eq!(known.get(Family::Job, unknown.as_bytes()), None, "{unknown}");
        }
        assert_eq!(known.get(Family::State, b"d"), None);
        assert!(known.from(Family::Job, &bytes("b")).is_some());
        assert!(known.from(Family::Job, &bytes("f")).is_none());
        assert!(known.before(Family::Job, &bytes("f")).is_some());
        assert!(known.before(Family::Job, &bytes("b")).is_none());
    }

    #[test]
    fn too_much_is_forgotten() {
        let mut known = Known::default();
        known.put(Family::Job, bytes("a"), Some(Bytes::from(vec![0; BYTES_MAX / 2])));
        known.put(Family::Job, bytes("b"), Some(Bytes::from(vec![0; BYTES_MAX / 2])));
        assert_eq!(known.get(Family::Job, b"a"), None);
        assert!(known.get(Family::Job, b"b").is_some());
    }
}
