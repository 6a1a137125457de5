//! `bellwether cluster certs`: the certificates with which nodes accept one another.
//!
//! The first call in a directory makes the authority, and each makes the certificate of one node.
//! Nothing that is there is overwritten: the authority never, a node's files only if asked for.

use std::fs::{self, DirBuilder, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::json;

use super::authority::{Pair, address, new_authority, new_node, node_name};
use crate::exit::conflict;
use crate::show::Screen;

/// Which certificates to make.
#[derive(Args, Debug)]
pub struct CertsArgs {
    /// Where the files are kept; made if it is not there
    #[arg(long, value_name = "DIR", default_value = "certs")]
    dir: PathBuf,
    /// The node's name
    #[arg(long, value_name = "NAME", value_parser = node_name)]
    node: String,
    /// Under which addresses other nodes reach it, without a port
    #[arg(long, value_name = "IP|HOST", required = true, num_args = 1.., value_parser = address)]
    address: Vec<String>,
    /// For how many days the node's certificate is good
    #[arg(long, value_name = "N", default_value_t = 730, value_parser = clap::value_parser!(u32).range(1..=3650))]
    days: u32,
    /// Make the node's certificate anew if there is one
    #[arg(long)]
    replace: bool,
}

/// Two files that belong together.
struct Files {
    cert: PathBuf,
    key: PathBuf,
}

impl Files {
    fn of(directory: &Path, name: &str) -> Files {
        let file = |end: &str| directory.join(format!("{name}.{end}"));
        Files { cert: file("crt"), key: file("key") }
    }

    fn names(&self) -> String {
        format!("{} and {}", self.cert.display(), self.key.display())
    }

    /// Whether both are there; one alone is nobody's business to complete.
    fn are_there(&self, remedy: &str) -> Result<bool> {
        match (self.cert.exists(), self.key.exists()) {
            (true, true) => Ok(true),
            (false, false) => Ok(false),
            (cert, _) => {
                let (there, missing) =
                    if cert { (&self.cert, &self.key) } else { (&self.key, &self.cert) };
                let (there, missing) = (there.display(), missing.display());
                Err(conflict(format!("{there} is there, but {missing} is not; {remedy}")))
            }
        }
    }

    /// The key comes first: without it a certificate is of no use.
    fn write(&self, pair: &Pair, replace: bool) -> Result<()> {
        write(&self.key, &pair.key, 0o600, replace)?;
        write(&self.cert, &pair.cert, 0o644, replace)
    }
}

/// Makes them.
pub fn run(args: &CertsArgs, json: bool) -> Result<()> {
    let today = jiff::Timestamp::now().to_zoned(TimeZone::UTC).date();
    let node = Files::of(&args.dir, &args.node);
    if !args.replace && (node.cert.exists() || node.key.exists()) {
        let names = node.names();
        return Err(conflict(format!("{names} are there already; --replace makes them anew")));
    }
    let mut making = DirBuilder::new();
    let made = making.recursive(true).mode(0o700).create(&args.dir);
    made.with_context(|| format!("cannot make the directory '{}'", args.dir.display()))?;
    let authority = Files::of(&args.dir, "ca");
    let new = ensure_authority(&authority, today)?;
    let pair = new_node(
        (&read(&authority.cert)?, &read(&authority.key)?),
        &args.node,
        &args.address,
        today,
        args.days,
    )?;
    node.write(&pair, args.replace)?;
    tell(args, json, (&authority, new), (&node, pair.until))
}

/// Makes the authority if there is none: until when it is good, if it was made.
fn ensure_authority(files: &Files, today: Date) -> Result<Option<Date>> {
    let remedy = "put it back, or use another directory for another authority";
    if files.are_there(remedy)? {
        return Ok(None);
    }
    let pair = new_authority(today)?;
    files.write(&pair, false)?;
    Ok(Some(pair.until))
}

fn tell(
    args: &CertsArgs,
    json: bool,
    (authority, new): (&Files, Option<Date>),
    (node, until): (&Files, Date),
) -> Result<()> {
    let mut screen = Screen::stdout();
    if json {
        let value = json!({
            "ca": { "cert": authority.cert, "key": authority.key, "new": new.is_some() },
            "node": { "cert": node.cert, "key": node.key, "good_until": until.to_string() },
        });
        screen.line(&serde_json::to_string_pretty(&value)?)?;
    } else {
        match new {
            Some(until) => screen.line(&format!(
                "made {}: the cluster's authority, good until {until}",
                authority.names()
            ))?,
            None => screen.line(&format!("used the authority of {}", authority.names()))?,
        }
        let (name, addresses) = (&args.node, args.address.join(", "));
        let names = node.names();
        screen.line(&format!("made {names}: {name} at {addresses}, good until {until}"))?;
        screen.line("")?;
        screen.line(&format!("Copy ca.crt, {name}.crt and {name}.key to the node."))?;
        screen.line("Keep ca.key safe and off the nodes: whoever has it can join the cluster.")?;
    }
    screen.flush()?;
    Ok(())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read '{}'", path.display()))
}

/// Writes a file whole or not at all, and over another one only if asked to.
fn write(path: &Path, text: &str, mode: u32, replace: bool) -> Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let attempt = || -> std::io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        file.as_file().set_permissions(Permissions::from_mode(mode))?;
        file.write_all(text.as_bytes())?;
        file.as_file().sync_all()?;
        let kept = if replace { file.persist(path) } else { file.persist_noclobber(path) };
        kept.map(drop).map_err(|error| error.error)
    };
    attempt().with_context(|| format!("cannot write '{}'", path.display()))
}
