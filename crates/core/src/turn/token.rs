//! Access tokens. They live in shard 0, like everything that belongs to no shard.

use super::{Halt, Rejection, RejectionKind, Reply, Turn};
use crate::key;
use crate::read;
use crate::record::{self, Audit, TokenRow};
use crate::waist::Family;

impl Turn<'_> {
    pub(super) fn put_token(&mut self, actor: &str, token: TokenRow) -> Result<Reply, Halt> {
        let key = key::token(self.memory.shard, &token.name);
        if self.store.get(Family::Meta, &key)?.is_some() {
            return Err(Rejection::conflict(
                "token_exists",
                format!("there is a token named '{}'; revoke it first", token.name),
            )
            .into());
        }
        self.store.put(Family::Meta, key, record::encode(&token));
        self.note_token(actor, "token.create", &token, &token.role);
        Ok(Reply::Done)
    }

    pub(super) fn revoke_token(
        &mut self,
        actor: &str,
        name: &str,
        keep_admin: bool,
    ) -> Result<Reply, Halt> {
        let key = key::token(self.memory.shard, name);
        let Some(token) = self.read::<TokenRow>(Family::Meta, &key)? else {
            return Err(Rejection {
                kind: RejectionKind::NotFound,
                code: "token_not_found".into(),
                message: format!("there is no token named '{name}'"),
            }
            .into());
        };
        if keep_admin && token.is_admin(self.now) && !self.has_other_admin(name)? {
            let message = format!(
                "'{name}' is the last token that may make others, and without one nobody gets in; \
                 create another admin token first"
            );
            return Err(Rejection::conflict("last_admin_token", message).into());
        }
        self.store.delete(Family::Meta, key);
        self.note_token(actor, "token.revoke", &token, "");
        Ok(Reply::Done)
    }

    fn has_other_admin(&self, name: &str) -> Result<bool, Halt> {
        for token in read::tokens(self.store.view(), self.memory.shard)? {
            // It may have been revoked in this very turn.
            let key = key::token(self.memory.shard, &token.name);
            if token.name != name
                && token.is_admin(self.now)
                && self.store.get(Family::Meta, &key)?.is_some()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn note_token(&mut self, actor: &str, action: &str, token: &TokenRow, role: &str) {
        self.note(Audit {
            actor: actor.to_owned(),
            action: action.to_owned(),
            subject: token.name.clone(),
            namespace: token.namespace.clone(),
            detail: role.to_owned(),
            ..Audit::default()
        });
    }
}
