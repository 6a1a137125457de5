//! What a worker says about itself, checked.

use bellwether_core::turn::{Demand, Lane, Offer};
use bellwether_protocol::v1 as wire;

use crate::work::budget::{Budget, Offered};
use crate::work::seat::Room;

fn plain(text: &str, max: usize) -> bool {
    !text.is_empty()
        && text.len() <= max
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
}

/// Whether this may be the name of a worker.
///
/// # Errors
/// What names look like.
pub fn check_worker_name(name: &str) -> Result<(), String> {
    if plain(name, 128) {
        return Ok(());
    }
    Err("a worker's name has 1 to 128 letters, digits and . _ -".to_owned())
}

/// Names that may stand in records, logs and addresses.
pub(super) fn check_names(hello: &wire::Hello) -> Result<(), String> {
    check_worker_name(&hello.name)?;
    if !plain(&hello.instance, 64) {
        return Err("the instance of a worker has 1 to 64 letters, digits and . _ -".to_owned());
    }
    let label = |(name, value): (&String, &String)| name.len() <= 128 && value.len() <= 256;
    if hello.labels.len() > 64 || !hello.labels.iter().all(label) {
        return Err("a worker has at most 64 labels of 128 and 256 characters".to_owned());
    }
    if hello.queues.len() > 256 || hello.job_types.len() > 1_024 {
        return Err("a worker takes from at most 256 queues and has 1024 job types".to_owned());
    }
    Ok(())
}

/// What it takes, of the namespace that its token is good for.
pub(super) fn offer_of(hello: &wire::Hello, namespace: Option<&str>) -> Offer {
    Offer {
        namespace: namespace.map(ToOwned::to_owned),
        queues: hello.queues.iter().cloned().collect(),
        labels: hello.labels.clone().into_iter().collect(),
        commands: hello.commands,
        http: hello.http,
        job_types: hello.job_types.iter().cloned().collect(),
    }
}

/// How much a worker takes at once, as it says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// So many attempts.
    Slots(u32),
    /// As many as there are.
    Unlimited,
    /// As many as their declared demand together allows.
    Resources(Offered),
}

/// How much a worker takes at once.
pub(super) fn capacity_of(capacity: Option<&wire::Capacity>) -> Result<Capacity, String> {
    match capacity.and_then(|capacity| capacity.mode.as_ref()) {
        Some(wire::capacity::Mode::Slots(slots)) => Ok(Capacity::Slots(*slots)),
        Some(wire::capacity::Mode::Unlimited(true)) => Ok(Capacity::Unlimited),
        Some(wire::capacity::Mode::Resources(resources)) => {
            let given = |amount: u64| (amount > 0).then_some(amount);
            let offered = Offered {
                cpu_milli: given(u64::from(resources.cpu_milli)),
                memory_bytes: given(resources.memory_bytes),
            };
            match offered == Offered::default() {
                true => Err("say how much cpu or memory the worker has".to_owned()),
                false => Ok(Capacity::Resources(offered)),
            }
        }
        Some(wire::capacity::Mode::Unlimited(false)) | None => {
            Err("say how much the worker takes at once".to_owned())
        }
    }
}

impl Capacity {
    /// The room that is left of it when a worker holds runs of these lanes.
    pub(super) fn room<'a>(self, held: impl Iterator<Item = &'a Lane>) -> Room {
        match self {
            Capacity::Slots(slots) => Room::Shared((slots as usize).saturating_sub(held.count())),
            Capacity::Unlimited => Room::Unlimited,
            Capacity::Resources(offered) => {
                let taken = held.fold(Demand::NONE, |taken, lane| taken.and(lane.demand));
                Room::Resources(Budget::new(offered, taken))
            }
        }
    }
}
