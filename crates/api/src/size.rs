//! Amounts of memory as texts.

use std::fmt;
use std::str::FromStr;

use bellwether_core::amount::{format_size, parse_size};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use utoipa::ToSchema;

/// A number of bytes such as `64K`, `512M` or `2G`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, ToSchema)]
#[schema(value_type = String, example = "512M", pattern = r"^\s*\d{1,15}\s*([kKmMgGtT]([iI]?[bB])?)?\s*$", max_length = 64)]
pub struct Size(pub u64);

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format_size(self.0))
    }
}

struct SizeText;

impl de::Visitor<'_> for SizeText {
    type Value = Size;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a size such as \"64K\", \"512M\" or \"2G\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
        text.parse().map_err(E::custom)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
        deserializer.deserialize_str(SizeText)
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        parse_size(text).map(Size)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_size(self.0))
    }
}
