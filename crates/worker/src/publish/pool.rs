//! Connections that are kept between attempts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How many connections of a kind are kept. Those in use beyond that are closed after use.
const KEPT_MAX: usize = 32;
/// A connection that was not used for so long is closed when another is asked for.
const IDLE_MAX: Duration = Duration::from_secs(300);

/// A connection that knows whether it can be used.
pub(super) trait Live: Clone {
    fn is_live(&self) -> bool;
}

/// Only one attempt connects at a time; the others wait for what it gets.
type Slot<C> = Arc<tokio::sync::Mutex<Option<C>>>;

struct Kept<C> {
    slot: Slot<C>,
    used: Instant,
}

/// Connections by name: an address with everything that makes a difference.
pub(super) struct Pool<C> {
    kept: Mutex<HashMap<String, Kept<C>>>,
}

impl<C> Default for Pool<C> {
    fn default() -> Pool<C> {
        Pool { kept: Mutex::default() }
    }
}

impl<C: Live> Pool<C> {
    /// The connection of this name; a new one if there is none that works.
    pub(super) async fn get<E>(
        &self,
        name: &str,
        connect: impl Future<Output = Result<C, E>>,
    ) -> Result<C, E> {
        let slot = self.slot(name, Instant::now());
        let mut slot = slot.lock().await;
        if let Some(connection) = slot.as_ref().filter(|connection| connection.is_live()) {
            return Ok(connection.clone());
        }
        *slot = None;
        let connection = connect.await?;
        *slot = Some(connection.clone());
        Ok(connection)
    }

    fn slot(&self, name: &str, now: Instant) -> Slot<C> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|_, kept| now.duration_since(kept.used) < IDLE_MAX);
        if !kept.contains_key(name) && kept.len() >= KEPT_MAX {
            let oldest = kept.iter().min_by_key(|(_, kept)| kept.used);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                kept.remove(&oldest);
            }
        }
        let entry = kept
            .entry(name.to_owned())
            .or_insert_with(|| Kept { slot: Slot::default(), used: now });
        entry.used = now;
        entry.slot.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[derive(Clone)]
    struct Wire(usize, Arc<AtomicBool>);

    impl Live for Wire {
        fn is_live(&self) -> bool {
            self.1.load(Ordering::Relaxed)
        }
    }

    async fn connect(number: usize) -> Result<Wire, ()> {
        Ok(Wire(number, Arc::new(AtomicBool::new(true))))
    }

    #[tokio::test]
    async fn a_connection_is_used_again_until_it_breaks() {
        let pool = Pool::default();
        let first = pool.get("a", connect(1)).await.unwrap();
        assert_eq!(pool.get("a", connect(2)).await.unwrap().0, 1);
        assert_eq!(pool.get("b", connect(3)).await.unwrap().0, 3);
        first.1.store(false, Ordering::Relaxed);
        assert!(pool.get("a", async { Err(()) }).await.is_err());
        assert_eq!(pool.get("a", connect(4)).await.unwrap().0, 4);
    }

    #[tokio::test]
    async fn there_is_a_bound_on_what_is_kept() {
        let pool = Pool::default();
        for number in 0..KEPT_MAX * 2 {
            pool.get(&number.to_string(), connect(number)).await.unwrap();
        }
        assert_eq!(pool.kept.lock().unwrap().len(), KEPT_MAX);
        pool.slot("later", Instant::now() + IDLE_MAX);
        assert_eq!(pool.kept.lock().unwrap().len(), 1);
    }
}
