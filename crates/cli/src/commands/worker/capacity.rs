//! How much a worker runs at once.

use bellwether_agent::protocol::{Resources, capacity::Mode};
use clap::Args;

/// One of three ways to say it.
#[derive(Args, Debug)]
#[group(multiple = false)]
pub struct CapacityArgs {
    /// How many attempts it runs at once [default: the number of processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    slots: Option<u32>,
    /// What its attempts may use together, as they declare it
    #[arg(long, value_name = "cpu=4,memory=8G", value_parser = resources)]
    resources: Option<Resources>,
    /// As many at once as there are
    #[arg(long)]
    unlimited: bool,
}

impl CapacityArgs {
    /// The capacity as a server is told it.
    pub fn mode(&self) -> Result<Mode, String> {
        if let Some(resources) = self.resources {
            return Ok(Mode::Resources(resources));
        }
        if self.unlimited {
            return Ok(Mode::Unlimited(true));
        }
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        let slots = self.slots.unwrap_or_else(|| u32::try_from(processors()).unwrap_or(1));
        Ok(Mode::Slots(slots))
    }
}

/// What a worker offers: not nothing.
fn resources(text: &str) -> Result<Resources, String> {
    let given: bellwether_api::Resources = text.parse()?;
    let resources = Resources {
        cpu_milli: given.cpu.map_or(0, |cpu| cpu.0),
        memory_bytes: given.memory.map_or(0, |memory| memory.0),
    };
    let is_nothing = given.cpu.is_some_and(|cpu| cpu.0 == 0);
    if is_nothing || given.memory.is_some_and(|memory| memory.0 == 0) {
        return Err(
            "a worker that has none of it gets nothing; leave it out if it does not count \
                    it"
            .to_owned(),
        );
    }
    Ok(resources)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r49_resources_are_processors_and_memory() {
        let both = Resources { cpu_milli: 4_000, memory_bytes: 8 << 30 };
        assert_eq!(resources("cpu=4,memory=8G").unwrap(), both);
        assert_eq!(resources("cpu=0.25").unwrap().cpu_milli, 250);
        for text in ["", "cpu", "cpu=x", "cpu=0", "cpu=-1", "memory=0", "memory=lots", "disk=1G"] {
            assert!(resources(text).is_err(), "{text}");
        }
    }
}
