//! Addresses that nobody else takes.

use std::sync::atomic::{AtomicU32, Ordering};

static NEXT: AtomicU32 = AtomicU32::new(1);

/// An address on a loopback host of its own. A port of 127.0.0.1 that was found free may be taken by
/// anybody's connection before a server listens there, or while it is down.
pub fn own_address() -> String {
    let (process, n) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    format!("127.{}.{}.{}:2355", 1 + process / 250 % 250, 1 + process % 250, 1 + n % 250)
}
