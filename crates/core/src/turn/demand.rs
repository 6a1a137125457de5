//! What a run takes of a worker that counts resources.
//!
//! It is what the job declares, and nothing is measured: a declaration is a promise of the job's
//! author. Workers that count slots do not look at it.

use std::fmt;

use crate::amount::{format_cpus, format_size};
use crate::record::Definition;

/// What a job counts as that does not say how much of a processor an attempt uses: a whole one.
const CPU_MILLI: u32 = 1_000;

/// An amount of each resource.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Demand {
    /// Thousandths of a processor.
    pub cpu_milli: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
}

impl Demand {
    /// Nothing.
    pub const NONE: Demand = Demand { cpu_milli: 0, memory_bytes: 0 };
    /// More than there is.
    pub const MOST: Demand = Demand { cpu_milli: u64::MAX, memory_bytes: u64::MAX };

    /// What an attempt of a job takes: what the job declares. What it does not declare counts as
    /// one processor, and as no memory.
    #[must_use]
    pub fn of(definition: &Definition) -> Demand {
        let declared = definition.resources.unwrap_or_default();
        Demand {
            cpu_milli: u64::from(declared.cpu_milli.unwrap_or(CPU_MILLI)),
            memory_bytes: declared.memory_bytes.unwrap_or(0),
        }
    }

    /// So many times as much.
    #[must_use]
    pub fn times(self, count: usize) -> Demand {
        let count = count as u64;
        Demand {
            cpu_milli: self.cpu_milli.saturating_mul(count),
            memory_bytes: self.memory_bytes.saturating_mul(count),
        }
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Demand) -> Demand {
        Demand {
            cpu_milli: self.cpu_milli.saturating_add(other.cpu_milli),
            memory_bytes: self.memory_bytes.saturating_add(other.memory_bytes),
        }
    }

    /// What is left of it without the other.
    #[must_use]
    pub fn without(self, other: Demand) -> Demand {
        Demand {
            cpu_milli: self.cpu_milli.saturating_sub(other.cpu_milli),
            memory_bytes: self.memory_bytes.saturating_sub(other.memory_bytes),
        }
    }
}

/// In words: `0.5 cpu and 512M of memory`.
impl fmt::Display for Demand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cpu", format_cpus(self.cpu_milli))?;
        match self.memory_bytes {
            0 => Ok(()),
            bytes => write!(f, " and {} of memory", format_size(bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Resources;

    #[test]
    fn what_is_not_declared_counts_as_one_processor_and_no_memory() {
        let of = |resources| Demand::of(&Definition { resources, ..Definition::default() });
        let demand = |cpu_milli, memory_bytes| Demand { cpu_milli, memory_bytes };
        assert_eq!(of(None), demand(1_000, 0));
        let declared = |cpu_milli, memory_bytes| Some(Resources { cpu_milli, memory_bytes });
        assert_eq!(of(declared(None, Some(7))), demand(1_000, 7));
        assert_eq!(of(declared(Some(0), None)), demand(0, 0), "nothing is an amount as well");
        assert_eq!(
            of(declared(Some(500), Some(1 << 29))).to_string(),
            "0.5 cpu and 512M of memory"
        );
        assert_eq!(demand(2_000, 0).to_string(), "2 cpu");
    }
}
