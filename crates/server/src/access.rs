//! Who may do what: tokens and roles.
//!
//! A token is a random secret, stored as its SHA-256; the secret itself is shown once. The tokens
//! of the store are few and kept in memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bellwether_api::{JobSpec, Problem, Role};
use bellwether_core::read;
use bellwether_core::record::TokenRow;
use bellwether_core::time::Time;
use bellwether_core::waist::{StoreError, View};
use bytes::Bytes;
use parking_lot::RwLock;
use rand::TryRngCore;
use sha2::{Digest, Sha256};

/// Who makes a request.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The token's name, or `anonymous`.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// The one namespace it may do it in.
    pub namespace: Option<String>,
}

impl Caller {
    /// Somebody on a server that asks for no token.
    #[must_use]
    pub fn anonymous() -> Caller {
        Caller { name: "anonymous".to_owned(), role: Role::Admin, namespace: None }
    }

    /// Refuses what the role does not allow.
    ///
    /// # Errors
    /// A problem that says what would be needed.
    pub fn need(&self, role: Role) -> Result<(), Problem> {
        if self.role >= role {
            return Ok(());
        }
        let detail = format!(
            "this needs the role {}; the token '{}' has {}",
            role.name(),
            self.name,
            self.role.name()
        );
        Err(Problem::new(403, "role_too_low", detail))
    }

    /// Whether the caller may see this namespace at all.
    #[must_use]
    pub fn sees(&self, namespace: &str) -> bool {
        self.namespace.as_deref().is_none_or(|own| own == namespace)
    }

    /// The namespace that a list is narrowed to: the one that was asked for, else the token's.
    ///
    /// # Errors
    /// A problem if the token is good for another one.
    pub fn narrowed(&self, asked: Option<String>) -> Result<Option<String>, Problem> {
        match asked {
            Some(namespace) => self.need_namespace(&namespace).map(|()| Some(namespace)),
            None => Ok(self.namespace.clone()),
        }
    }

    /// A job without a namespace goes to the one that the token is good for.
    #[must_use]
    pub fn at_home(&self, mut spec: JobSpec) -> JobSpec {
        if spec.namespace.is_none() {
            spec.namespace.clone_from(&self.namespace);
        }
        spec
    }

    /// Refuses another namespace than the token's.
    ///
    /// # Errors
    /// A problem that names the one it is good for.
    pub fn need_namespace(&self, namespace: &str) -> Result<(), Problem> {
        match &self.namespace {
            Some(own) if own != namespace => Err(Problem::new(
                403,
                "other_namespace",
                format!("the token '{}' is good for the namespace '{own}' only", self.name),
            )
            .at("namespace")),
            _ => Ok(()),
        }
    }
}

/// The tokens of the store, by the hash of their secrets.
#[derive(Default)]
pub struct Tokens {
    known: RwLock<Known>,
    /// How often they were read.
    reads: AtomicU64,
    /// Whether all were read that there were when this server was started.
    complete: AtomicBool,
    /// Whether a request without a token is refused.
    pub required: bool,
}

/// What was read last.
#[derive(Default)]
struct Known {
    read: u64,
    by_hash: BTreeMap<Bytes, TokenRow>,
}

impl Tokens {
    /// Whether requests without a token are refused.
    #[must_use]
    pub fn new(required: bool) -> Tokens {
        Tokens { required, ..Tokens::default() }
    }

    /// Reads the tokens again, as a view shows them that is taken now. That may take its time where
    /// other nodes are asked.
    ///
    /// # Errors
    /// When the store cannot be read. Those stay that were known.
    pub fn reload(&self, view: impl FnOnce() -> Arc<dyn View>) -> Result<(), StoreError> {
        // Whoever begins later has a view that is no older than those of whoever began before.
        let read = self.reads.fetch_add(1, Ordering::SeqCst) + 1;
        let rows = read::tokens(&*view(), 0)?;
        let by_hash = rows.into_iter().map(|row| (row.hash.clone(), row)).collect();
        let mut known = self.known.write();
        if read > known.read {
            *known = Known { read, by_hash };
        }
        Ok(())
    }

    /// What was read is all that there was when this server was started: a token that is not among
    /// them is not known to anybody.
    pub fn are_complete(&self) {
        self.complete.store(true, Ordering::Relaxed);
    }

    /// Whether that is so.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.complete.load(Ordering::Relaxed)
    }

    /// Who has this secret.
    ///
    /// # Errors
    /// A problem if nobody has, or not any more.
    pub fn caller(&self, secret: Option<&str>, now: Time) -> Result<Caller, Problem> {
        let Some(secret) = secret else {
            if self.required {
                let detail = "send a token as 'Authorization: Bearer …' \
                              (bellwether --token, or BELLWETHER_TOKEN)";
                return Err(Problem::new(401, "token_missing", detail));
            }
            return Ok(Caller::anonymous());
        };
        let row = self.known.read().by_hash.get(&hash(secret)).cloned();
        let Some(row) = row else {
            if !self.is_complete() {
                let detail = "this node has yet to read the tokens of its cluster; try again, or \
                              ask another node";
                return Err(Problem::new(503, "tokens_unread", detail));
            }
            return Err(Problem::new(
                401,
                "token_unknown",
                "the token is not known; it may have been revoked",
            ));
        };
        if row.expires_ms.is_some_and(|at| at <= now.0) {
            return Err(Problem::new(
                401,
                "token_expired",
                format!("the token '{}' has expired", row.name),
            ));
        }
        Ok(Caller {
            role: Role::of(&row.role).unwrap_or(Role::Viewer),
            namespace: (!row.namespace.is_empty()).then_some(row.namespace),
            name: row.name,
        })
    }
}

/// A new secret.
///
/// # Errors
/// When the system has no randomness to give.
pub fn new_secret() -> std::io::Result<String> {
    let mut bytes = [0u8; 32];
    rand::rngs::OsRng.try_fill_bytes(&mut bytes).map_err(std::io::Error::other)?;
    Ok(format!("bw_{}", URL_SAFE_NO_PAD.encode(bytes)))
}

/// What is stored of a secret.
#[must_use]
pub fn hash(secret: &str) -> Bytes {
    Bytes::copy_from_slice(&Sha256::digest(secret.as_bytes()))
}
