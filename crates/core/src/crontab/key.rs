//! Names for imported jobs.

use std::collections::{BTreeMap, BTreeSet};

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::Entry;

/// The longest readable part of a key.
const SLUG_LEN_MAX: usize = 40;

/// The keys given out so far.
#[derive(Default)]
pub(super) struct Keys {
    taken: BTreeSet<String>,
    /// How often each command has come, by its hash.
    seen: BTreeMap<u64, u64>,
}

impl Keys {
    /// A key such as `backup-sh-full-1f2e3d4c`: readable, and the same whenever the same command
    /// is imported, wherever its line stands and whatever its times are.
    pub(super) fn choose(&mut self, entry: &Entry) -> String {
        let slug = slug(&entry.command);
        let user = entry.user.as_deref().unwrap_or("");
        let stdin = entry.stdin.as_deref().unwrap_or("");
        let identity = format!("{user}\0{}\0{stdin}", entry.command);
        // The same command on a second line gets the second name, and so on.
        let occurrence = self.seen.entry(xxh3_64(identity.as_bytes())).or_default();
        loop {
            let hash = xxh3_64_with_seed(identity.as_bytes(), *occurrence) as u32;
            *occurrence += 1;
            let key = format!("{slug}-{hash:08x}").trim_start_matches('-').to_owned();
            if self.taken.insert(key.clone()) {
                return key;
            }
        }
    }
}

/// The command's first words, without its directory and without what only the shell sees.
fn slug(command: &str) -> String {
    let visible = command.split(['>', '<', '|', ';', '&']).next().unwrap_or("");
    let mut words = visible.split_whitespace().skip_while(|word| word.contains('='));
    let program = words.next().unwrap_or("");
    let program = program.rsplit('/').next().unwrap_or(program);
    let mut slug = String::new();
    for c in std::iter::once(program).chain(words).flat_map(|word| word.chars().chain([' '])) {
        if slug.len() >= SLUG_LEN_MAX {
            break;
        }
        if c.is_ascii_alphanumeric() {
            slug.push(c.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    slug.trim_end_matches('-').to_owned()
}
