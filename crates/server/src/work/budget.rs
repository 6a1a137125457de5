//! What a worker offers its attempts together, and how much of it they have declared to use.

use bellwether_core::amount::{format_cpus, format_size};
use bellwether_core::turn::Demand;

/// What a worker offers. What it does not name it does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offered {
    /// Thousandths of a processor.
    pub cpu_milli: Option<u64>,
    /// Bytes of memory.
    pub memory_bytes: Option<u64>,
}

/// In words: `4 cpu and 8G of memory`.
impl std::fmt::Display for Offered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let cpu = self.cpu_milli.map(|milli| format!("{} cpu", format_cpus(milli)));
        let memory = self.memory_bytes.map(|bytes| format!("{} of memory", format_size(bytes)));
        let both: Vec<String> = cpu.into_iter().chain(memory).collect();
        f.write_str(&both.join(" and "))
    }
}

/// What is offered and what is taken of it.
///
/// Invariant: what is taken through [`Budget::free`] and [`Budget::take`] is never more than what
/// is offered. Only a worker that comes back with less than it holds has taken more, and gets
/// nothing until it has less.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    offered: Offered,
    taken: Demand,
}

impl Budget {
    /// Of which so much is taken.
    #[must_use]
    pub fn new(offered: Offered, taken: Demand) -> Budget {
        Budget { offered, taken }
    }

    /// How many attempts of a demand still fit when some is set aside.
    #[must_use]
    pub fn free(&self, demand: Demand, aside: Demand) -> usize {
        let used = self.taken.and(aside);
        let cpu = fits(self.offered.cpu_milli, used.cpu_milli, demand.cpu_milli);
        cpu.min(fits(self.offered.memory_bytes, used.memory_bytes, demand.memory_bytes))
    }

    /// Whether an attempt of a demand fits when nothing else is there.
    #[must_use]
    pub fn could_take(&self, demand: Demand) -> bool {
        Budget::new(self.offered, Demand::NONE).free(demand, Demand::NONE) > 0
    }

    /// Takes so many attempts, which must fit.
    pub fn take(&mut self, demand: Demand, count: usize) {
        self.taken = self.taken.and(demand.times(count));
    }

    /// Gives back what was taken.
    pub fn put(&mut self, demand: Demand, count: usize) {
        self.taken = self.taken.without(demand.times(count));
    }

    /// What it offers.
    #[must_use]
    pub fn offered(&self) -> Offered {
        self.offered
    }
}

/// How often `each` fits into what is left.
fn fits(offered: Option<u64>, used: u64, each: u64) -> usize {
    /// As many as there are.
    const ANY: usize = usize::MAX / 2;
    match (offered, each) {
        (None, _) | (_, 0) => ANY,
        (Some(offered), each) => {
            usize::try_from(offered.saturating_sub(used) / each).unwrap_or(ANY).min(ANY)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn demand(cpu_milli: u64, memory_bytes: u64) -> Demand {
        Demand { cpu_milli, memory_bytes }
    }

    #[test]
    fn the_scarcer_resource_decides() {
        let offered = Offered { cpu_milli: Some(4_000), memory_bytes: Some(1_000) };
        let mut budget = Budget::new(offered, Demand::NONE);
        assert_eq!(budget.free(demand(500, 0), Demand::NONE), 8);
        assert_eq!(budget.free(demand(500, 300), Demand::NONE), 3);
        assert_eq!(budget.free(demand(500, 300), demand(3_500, 0)), 1);
        assert!(!budget.could_take(demand(4_001, 0)) && !budget.could_take(demand(0, 1_001)));
        budget.take(demand(4_000, 0), 1);
        assert_eq!(budget.free(demand(1, 0), Demand::NONE), 0);
        assert!(budget.free(demand(0, 0), Demand::NONE) > 1_000_000, "what takes nothing fits");
        assert!(budget.could_take(demand(4_000, 1_000)), "once it is free");
    }

    #[test]
    fn what_is_not_offered_is_not_counted() {
        let offered = Offered { cpu_milli: None, memory_bytes: Some(100) };
        let budget = Budget::new(offered, Demand::NONE);
        assert_eq!(budget.free(demand(9_000_000, 50), Demand::NONE), 2);
        assert_eq!(offered.to_string(), "100 of memory");
    }

    proptest! {
        /// Whatever comes and goes, what is declared together is never more than what is offered.
        #[test]
        fn r49_what_is_taken_is_never_more_than_what_is_offered(
            cpu in 0u64..5_000,
            memory in prop::option::of(0u64..1_000),
            steps in prop::collection::vec((0u64..2_000, 0u64..400, 0usize..5, any::<bool>()), 0..200),
        ) {
            let offered = Offered { cpu_milli: Some(cpu), memory_bytes: memory };
            let mut budget = Budget::new(offered, Demand::NONE);
            let mut under_way: Vec<(Demand, usize)> = Vec::new();
            for (cpu_milli, memory_bytes, want, ends) in steps {
                let wanted = demand(cpu_milli, memory_bytes);
                let granted = want.min(budget.free(wanted, Demand::NONE));
                budget.take(wanted, granted);
                under_way.push((wanted, granted));
                let together = under_way
                    .iter()
                    .fold(Demand::NONE, |sum, (demand, count)| sum.and(demand.times(*count)));
                prop_assert!(together.cpu_milli <= cpu);
                prop_assert!(memory.is_none_or(|memory| together.memory_bytes <= memory));
                if ends {
                    let (demand, count) = under_way.remove(0);
                    budget.put(demand, count);
                }
            }
        }
    }
}
