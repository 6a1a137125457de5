//! What attempts use and workers offer: processors and memory.

use std::fmt;
use std::str::FromStr;

use bellwether_core::amount::{format_cpus, parse_cpus};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use utoipa::ToSchema;

use crate::Size;
use crate::size::SizeShape;

/// What one attempt is expected to use, or what a worker offers all of its attempts together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Resources {
    /// Processors, down to a thousandth. A job that does not say counts as one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<CpusShape>)]
    pub cpu: Option<Cpus>,
    /// Memory, such as `512M`, `2G` or a number of bytes. A job that does not say counts as none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<SizeShape>)]
    pub memory: Option<Size>,
}

/// A number of processors, in thousandths. Written as a number; read from a number or a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cpus(pub u32);

/// How processors may be written.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes `Cpus` in the OpenAPI document")]
pub(crate) enum CpusShape {
    /// A number.
    #[schema(example = 0.5)]
    Number(f64),
    /// The same as a text.
    #[schema(example = "0.5")]
    Text(String),
}

impl FromStr for Cpus {
    type Err = String;

    fn from_str(text: &str) -> Result<Cpus, String> {
        parse_cpus(text).map(Cpus)
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_cpus(u64::from(self.0)))
    }
}

/// As it is given to flags: `cpu=4,memory=8G`.
impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpu = self.cpu.map(|cpu| format!("cpu={cpu}"));
        let memory = self.memory.map(|memory| format!("memory={memory}"));
        f.write_str(&cpu.into_iter().chain(memory).collect::<Vec<_>>().join(","))
    }
}

impl FromStr for Resources {
    type Err = String;

    fn from_str(text: &str) -> Result<Resources, String> {
        let bad = |why: &str| format!("{why}; write it like cpu=4,memory=8G or cpu=0.5");
        let mut resources = Resources::default();
        for part in text.split(',') {
            match part.trim().split_once('=') {
                Some(("cpu", _)) if resources.cpu.is_some() => {
                    return Err(bad("cpu is there twice"));
                }
                Some(("memory", _)) if resources.memory.is_some() => {
                    return Err(bad("memory is there twice"));
                }
                Some(("cpu", count)) => resources.cpu = Some(count.parse()?),
                Some(("memory", size)) => resources.memory = Some(size.parse()?),
                _ => return Err(bad(&format!("'{part}' is neither cpu nor memory"))),
            }
        }
        Ok(resources)
    }
}

impl Serialize for Cpus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 % 1_000 {
            0 => serializer.serialize_u32(self.0 / 1_000),
            _ => serializer.serialize_f64(f64::from(self.0) / 1_000.0),
        }
    }
}

struct CpusText;

impl de::Visitor<'_> for CpusText {
    type Value = Cpus;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of processors such as 2 or 0.5")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Cpus, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Cpus, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Cpus, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Cpus, E> {
        // The shortest text that means the same number, so that 0.1 is 0.1.
        self.visit_str(&number.to_string())
    }
}

impl<'de> Deserialize<'de> for Cpus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Cpus, D::Error> {
        deserializer.deserialize_any(CpusText)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn resources_are_read_in_any_form_and_written_in_one() {
        for (given, written) in [
            (json!({"cpu": 0.5, "memory": "512M"}), json!({"cpu": 0.5, "memory": "512M"})),
            (json!({"cpu": "2.0", "memory": 1024}), json!({"cpu": 2, "memory": "1K"})),
            (json!({"cpu": 0.1, "memory": "1024 MiB"}), json!({"cpu": 0.1, "memory": "1G"})),
            (json!({"cpu": 3.0}), json!({"cpu": 3})),
            (json!({"memory": 1000}), json!({"memory": "1000"})),
        ] {
            let read: Resources = serde_json::from_value(given.clone()).unwrap();
            assert_eq!(serde_json::to_value(read).unwrap(), written, "{given}");
            assert_eq!(read.to_string().parse::<Resources>().unwrap(), read, "{given}");
        }
        for bad in [
            json!({"cpu": -1}),
            json!({"cpu": 0.0001}),
            json!({"cpu": 1e9}),
            json!({"cpu": true}),
            json!({"memory": -5}),
            json!({"memory": 1.5}),
            json!({"memory": "lots"}),
            json!({"disk": 1}),
        ] {
            assert!(serde_json::from_value::<Resources>(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn r49_resources_as_a_flag_are_processors_and_memory() {
        let both = Resources { cpu: Some(Cpus(4_000)), memory: Some(Size(8 << 30)) };
        assert_eq!("cpu=4,memory=8G".parse(), Ok(both));
        assert_eq!("memory=8G, cpu=4".parse(), Ok(both));
        for text in ["", "cpu", "cpu=x", "cpu=-1", "memory=lots", "disk=1G", "cpu=1,cpu=2"] {
            assert!(text.parse::<Resources>().is_err(), "{text}");
        }
    }
}
