//! Asking again for what passes by itself.

use std::time::{Duration, Instant};

use bellwether_client::ClientError;

/// How long it may take to pass, on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(120);

/// Asks for something that may be asked for again, until it is done. On a busy machine a node may stand still for
/// so long that another one is elected, and until then nobody can do it.
pub async fn insist<T>(ask: impl AsyncFn() -> Result<T, ClientError>) -> T {
    let begun = Instant::now();
    let mut again = tokio::time::interval(Duration::from_millis(50));
    loop {
        match ask().await {
            Ok(done) => return done,
            Err(error) => {
                let may_pass = error.status() == Some(503) && begun.elapsed() < PATIENCE;
                assert!(may_pass, "after {:?}: {error}", begun.elapsed());
            }
        }
        again.tick().await;
    }
}
