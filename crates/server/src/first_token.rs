//! The token that lets somebody make others, where there is none.

use std::time::Duration;

use bellwether_api::Role;
use bellwether_core::read;
use bellwether_core::record::TokenRow;
use bellwether_core::turn::Input;
use bellwether_core::waist::StoreError;
use bytes::Bytes;
use tokio::time::{Instant, timeout_at};

use crate::node::Node;
use crate::shard::Failure;
use crate::{access, clock};

/// How often it is tried to make the first admin token while leaders change.
const TOKEN_TRIES: u32 = 3;
/// How long that may hold up a start.
const TOKEN_WITHIN: Duration = Duration::from_secs(10);

/// A server that wants tokens, of a cluster that has none that may make others, makes one, which is shown this
/// once. So whoever may start a server can get in again when all such tokens have expired.
///
/// # Errors
/// When tokens cannot be read.
pub async fn first_admin_token(node: &Node) -> anyhow::Result<Option<String>> {
    if !node.tokens.required {
        return Ok(None);
    }
    let secret = access::new_secret()?;
    let hash = access::hash(&secret);
    let mut tried = false;
    let deadline = Instant::now() + TOKEN_WITHIN;
    for tries in 0..=TOKEN_TRIES {
        // One that nobody leads can look when it is started again.
        let caught_up = timeout_at(deadline, node.cluster.catch_up(0));
        if node.cluster.leader(0).is_none() || !matches!(caught_up.await, Ok(Ok(()))) {
            break;
        }
        let tokens = match read::tokens(&*node.view(), 0) {
            Err(StoreError::Unreachable { .. }) => break,
            tokens => tokens?,
        };
        if tokens.iter().any(|token| token.hash == hash) {
            node.tokens.reload(|| node.view())?;
            return Ok(Some(secret));
        }
        if tokens.iter().any(|token| token.is_admin(clock::now())) {
            return Ok(None);
        }
        if tries == TOKEN_TRIES {
            break; // That was the look at what came of the last.
        }
        let token = first_admin(&tokens, hash.clone());
        let actor = token.created_by.clone();
        // If another node that starts as well was faster, that is seen when this looks again; and so is what was
        // made though its answer was lost.
        let asked = timeout_at(deadline, node.shards[0].ask(Input::PutToken { actor, token }));
        tried |= match asked.await {
            Ok(Ok(_) | Err(Failure::Unknown(_) | Failure::Store(_))) | Err(_) => true,
            Ok(Err(
                Failure::Rejected(_)
                | Failure::NoLeader(_)
                | Failure::Overloaded
                | Failure::Stopped,
            )) => false,
        };
    }
    if tried {
        tracing::warn!(
            "it is not known whether the admin token was made; if it is no good, start again"
        );
    }
    Ok(tried.then_some(secret))
}

/// An admin token of a name that is free.
fn first_admin(tokens: &[TokenRow], hash: Bytes) -> TokenRow {
    let is_free = |name: &String| tokens.iter().all(|token| token.name != *name);
    let numbered = (2..).map(|n| format!("admin-{n}"));
    TokenRow {
        name: std::iter::once("admin".to_owned()).chain(numbered).find(is_free).unwrap_or_default(),
        hash,
        role: Role::Admin.name().to_owned(),
        namespace: String::new(),
        created_ms: clock::now().0,
        created_by: "first start".to_owned(),
        expires_ms: None,
    }
}
