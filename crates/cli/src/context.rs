//! What every client command needs: the connection, and where to print.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use bellwether_client::{Client, DEFAULT_SERVER};
use clap::Args;
use serde::Serialize;

use crate::exit::eprint_line;
use crate::show::Screen;

/// Lists that may be further behind than this are remarked on: healthy nodes are by less.
const BEHIND_REMARKED: Duration = Duration::from_secs(5);

/// How to reach a server, and in which form to answer.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Connection and output")]
pub struct ClientArgs {
    /// Where the server is; of several nodes of a cluster, with commas between them, the first that
    /// can be reached is asked
    #[arg(long, global = true, env = "BELLWETHER_SERVER", value_name = "HOST:PORT", default_value = DEFAULT_SERVER)]
    pub server: String,
    /// The token to send
    #[arg(
        long,
        global = true,
        env = "BELLWETHER_TOKEN",
        value_name = "TOKEN",
        hide_env_values = true
    )]
    pub token: Option<String>,
    /// Certificate authorities (PEM) to trust besides the system's
    #[arg(long, global = true, env = "BELLWETHER_CA_FILE", value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
    /// The namespace of jobs and groups
    #[arg(long, short, global = true, env = "BELLWETHER_NAMESPACE", value_name = "NAME")]
    pub namespace: Option<String>,
    /// JSON instead of tables; lists as one object per line
    #[arg(long, global = true)]
    pub json: bool,
}

/// A command's surroundings.
pub struct Context {
    /// The connection.
    pub client: Client,
    /// Whether programs read the output.
    pub json: bool,
    /// Where to print.
    pub screen: Screen,
}

impl ClientArgs {
    /// Sets everything up. Nothing is sent yet.
    pub fn context(&self) -> Result<Context> {
        let mut builder = Client::builder().server(&self.server);
        if let Some(token) = self.token.as_deref().filter(|token| !token.is_empty()) {
            builder = builder.token(token);
        }
        if let Some(path) = &self.ca_file {
            builder = builder.ca_file(path);
        }
        if let Some(namespace) = &self.namespace {
            builder = builder.namespace(namespace);
        }
        Ok(Context { client: builder.build()?, json: self.json, screen: Screen::stdout() })
    }
}

/// What to say about lists that may be so far behind, if anything.
fn remark(behind: Duration) -> Option<String> {
    (behind > BEHIND_REMARKED).then(|| {
        format!(
            "this list may be {} s behind: the node that was asked is not in touch with those that lead \
             all shards; ask another (--server), or see `bellwether cluster status`",
            behind.as_millis().div_ceil(1_000)
        )
    })
}

impl Drop for Context {
    /// Once a command is through, whatever it was: many make lists.
    fn drop(&mut self) {
        if let Some(remark) = remark(self.client.staleness()) {
            eprint_line(&remark);
        }
    }
}

impl Context {
    /// Prints one thing as JSON, for people to read and programs to parse.
    pub fn print_json(&mut self, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string_pretty(value)?;
        self.screen.line(&text)?;
        Ok(())
    }

    /// Prints one thing of many as a line of JSON.
    pub fn print_json_line(&mut self, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string(value)?;
        self.screen.line(&text)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_may_be_old_is_remarked_on() {
        assert_eq!(remark(Duration::ZERO), None);
        assert_eq!(remark(BEHIND_REMARKED), None);
        let said = remark(Duration::from_millis(12_001)).unwrap();
        assert!(said.starts_with("this list may be 13 s behind: "), "{said}");
    }
}
