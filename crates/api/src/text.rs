//! Durations and times as texts.

use std::fmt;

use bellwether_core::time::{Time, format_duration_ms, parse_duration_ms};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use utoipa::ToSchema;

/// A duration such as `90s`, `5m` or `1h30m`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, ToSchema)]
#[schema(value_type = String, example = "1h30m", pattern = r"^\s*(\d{1,12}\s*[a-z]+\s*){1,6}$", max_length = 64)]
pub struct Span(pub u64);

/// An instant, RFC 3339.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ToSchema)]
#[schema(value_type = String, format = DateTime, example = "2026-12-31T23:59:59.000Z")]
pub struct Instant(pub Time);

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format_duration_ms(self.0))
    }
}

struct SpanText;

impl de::Visitor<'_> for SpanText {
    type Value = Span;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as \"90s\", \"5m\" or \"1h30m\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
        parse_duration_ms(text).map(Span).map_err(E::custom)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
        deserializer.deserialize_str(SpanText)
    }
}

impl Serialize for Instant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

struct InstantText;

impl de::Visitor<'_> for InstantText {
    type Value = Instant;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time such as \"2026-12-31T23:59:59Z\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Instant, E> {
        Time::parse(text).map(Instant).map_err(E::custom)
    }
}

impl<'de> Deserialize<'de> for Instant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Instant, D::Error> {
        deserializer.deserialize_str(InstantText)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_duration_ms(self.0))
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
