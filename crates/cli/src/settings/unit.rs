//! Values with units.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use bellwether_core::amount::{format_size, parse_size};
use bellwether_core::time::{format_duration_ms, parse_duration_ms};
use serde::{Deserialize, Deserializer, de};

/// A number of bytes: `1024`, `64K`, `256M`, `2G`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size(pub u64);

/// A duration: `30s`, `7d`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lasting(pub u64);

impl Lasting {
    /// The same for the standard library.
    pub fn duration(self) -> Duration {
        Duration::from_millis(self.0)
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

impl FromStr for Lasting {
    type Err = String;

    fn from_str(text: &str) -> Result<Lasting, String> {
        parse_duration_ms(text).map(Lasting)
    }
}

impl fmt::Display for Lasting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_duration_ms(self.0))
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Size;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as \"256M\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_i64<E: de::Error>(self, count: i64) -> Result<Size, E> {
                u64::try_from(count).map(Size).map_err(|_| E::custom("a size is not negative"))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl<'de> Deserialize<'de> for Lasting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Lasting, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_and_write() {
        for (text, bytes, written) in [
            ("1000", 1000, "1000"),
            ("64k", 65_536, "64K"),
            ("256 MiB", 256 << 20, "256M"),
            ("2G", 2 << 30, "2G"),
            ("0", 0, "0"),
        ] {
            let size: Size = text.parse().unwrap();
            assert_eq!((size.0, size.to_string().as_str()), (bytes, written));
        }
        for text in ["", "M", "1.5G", "-1", "1X", "99999999999T"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }
}
