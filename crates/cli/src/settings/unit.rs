//! Values with units.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

pub use bellwether_api::Size;
use bellwether_core::time::{format_duration_ms, parse_duration_ms};
use serde::{Deserialize, Deserializer, de};

/// A duration: `30s`, `7d`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lasting(pub u64);

impl Lasting {
    /// The same for the standard library.
    pub fn duration(self) -> Duration {
        Duration::from_millis(self.0)
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
