//! `bellwether token …`: who may do what.

use anyhow::Result;
use bellwether_api::{Role, Span, Token, TokenSpec};
use clap::{Args, Subcommand};

use crate::context::{ClientArgs, Context};
use crate::exit::{conflict, eprint_line, usage};
use crate::show::{Column, Table, Tone, confirmed, now};
use crate::spec::parse_span;

/// Tokens.
#[derive(Args, Debug)]
pub struct TokenArgs {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Make a token; its secret is printed this once
    Create {
        /// Its name, for lists and the audit log
        name: String,
        /// viewer, operator, editor or admin; each includes those before it
        #[arg(long, value_parser = parse_role)]
        role: Role,
        /// How long it is good for; until revoked if not given
        #[arg(long, value_name = "DURATION", value_parser = parse_span)]
        expires_after: Option<Span>,
    },
    /// List tokens
    List,
    /// Revoke a token
    Revoke {
        /// Its name
        name: String,
        /// Do not ask
        #[arg(long, short)]
        yes: bool,
        /// Also if it is the last one with which tokens can be made
        #[arg(long)]
        force: bool,
    },
}

fn parse_role(text: &str) -> Result<Role, String> {
    Role::of(text).ok_or_else(|| "a role is viewer, operator, editor or admin".to_owned())
}

/// Does it.
pub async fn run(args: TokenArgs) -> Result<()> {
    let mut context = args.client.context()?;
    match args.action {
        Action::Create { name, role, expires_after } => {
            let namespace = context.client.namespace().map(str::to_owned);
            let spec = TokenSpec { name, role, namespace, expires_after };
            create(&mut context, &spec).await?;
        }
        Action::List => list(&mut context).await?,
        Action::Revoke { name, yes, force } => revoke(&mut context, &name, yes, force).await?,
    }
    context.screen.flush()?;
    Ok(())
}

async fn create(context: &mut Context, spec: &TokenSpec) -> Result<()> {
    let new = context.client.create_token(spec).await?;
    if context.json {
        return context.print_json(&new);
    }
    // The secret alone on standard output, so that it can be piped into a file.
    context.screen.line(&new.secret)?;
    let scope = match &new.token.namespace {
        Some(namespace) => format!(" in the namespace {namespace}"),
        None => String::new(),
    };
    eprint_line(&format!(
        "token {} ({}{scope}): this is the only time it is shown; use it as BELLWETHER_TOKEN",
        new.token.name,
        new.token.role.name()
    ));
    Ok(())
}

async fn revoke(context: &mut Context, name: &str, yes: bool, force: bool) -> Result<()> {
    let tokens = context.client.tokens().await?.items;
    if !force && is_last_admin(&tokens, name) {
        return Err(conflict(format!(
            "'{name}' is the last admin token: without it nobody can make tokens any more; make \
             another one first (bellwether token create NAME --role admin), or say --force"
        )));
    }
    if !confirmed(&format!("Revoke the token '{name}'?"), yes)? {
        return Err(usage("nothing was changed"));
    }
    context.client.revoke_token(name).await?;
    if context.json {
        return context.print_json(&serde_json::json!({ "revoked": name }));
    }
    context.screen.line(&format!("token {name} is revoked"))?;
    Ok(())
}

/// Whether this is the only token that may make others, everywhere and for good.
fn is_last_admin(tokens: &[Token], name: &str) -> bool {
    let is_admin = |token: &&Token| token.role == Role::Admin && token.namespace.is_none();
    let lasting = |token: &&Token| token.expires_at.is_none_or(|at| at.0 > now());
    let mut admins = tokens.iter().filter(is_admin).filter(lasting);
    matches!((admins.next(), admins.next()), (Some(only), None) if only.name == name)
}

async fn list(context: &mut Context) -> Result<()> {
    let tokens = context.client.tokens().await?.items;
    if context.json {
        return tokens.iter().try_for_each(|token| context.print_json_line(token));
    }
    if tokens.is_empty() {
        context.screen.line("there are no tokens")?;
        return Ok(());
    }
    let mut table = Table::new(&[
        Column::name("TOKEN"),
        Column::new("ROLE"),
        Column::new("NAMESPACE"),
        Column::new("CREATED"),
        Column::text("BY"),
        Column::new("EXPIRES"),
    ]);
    for Token { name, role, namespace, created_at, created_by, expires_at } in tokens {
        table.row([
            (name, Tone::Plain),
            (role.name().to_owned(), Tone::Plain),
            (namespace.unwrap_or_else(|| "all".to_owned()), Tone::Faint),
            (context.screen.when(created_at.0), Tone::Plain),
            (created_by, Tone::Faint),
            (expires_at.map_or("never".to_owned(), |at| context.screen.when(at.0)), Tone::Plain),
        ]);
    }
    context.screen.table(&table)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_admin_token_is_known() {
        let token = |name: &str, role: &str, more: serde_json::Value| -> Token {
            let mut token = json!({"name": name, "role": role, "created_by": "x",
                                   "created_at": "2026-01-01T00:00:00Z"});
            token.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            serde_json::from_value(token).unwrap()
        };
        let mut tokens = vec![
            token("root", "admin", json!({})),
            token("ci", "editor", json!({})),
            token("team", "admin", json!({"namespace": "team"})),
            token("old", "admin", json!({"expires_at": "2020-01-02T00:00:00Z"})),
        ];
        assert!(is_last_admin(&tokens, "root"));
        assert!(!is_last_admin(&tokens, "ci") && !is_last_admin(&tokens, "old"));
        tokens.push(token("second", "admin", json!({})));
        assert!(!is_last_admin(&tokens, "root"));
    }
}
