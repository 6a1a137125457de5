//! What a worker says about itself, checked.

use bellwether_protocol::v1 as wire;

use crate::work::seat::{Offer, Room};

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

/// How much a worker takes at once, and how to show it.
pub(super) fn room_of(capacity: Option<&wire::Capacity>) -> Result<(Room, Option<u32>), String> {
    match capacity.and_then(|capacity| capacity.mode.as_ref()) {
        Some(wire::capacity::Mode::Slots(slots)) => {
            Ok((Room::Shared(*slots as usize), Some(*slots)))
        }
        Some(wire::capacity::Mode::Unlimited(true)) => Ok((Room::Unlimited, None)),
        Some(wire::capacity::Mode::Resources(_)) => {
            Err("this server does not place by resources; say how many slots".to_owned())
        }
        Some(wire::capacity::Mode::Unlimited(false)) | None => {
            Err("say how much the worker takes at once".to_owned())
        }
    }
}

/// The room that is left when so much is taken.
pub(super) fn less(room: Room, taken: usize) -> Room {
    match room {
        Room::Shared(free) => Room::Shared(free.saturating_sub(taken)),
        other => other,
    }
}
