//! What nodes know of backups and what is found in a place, as one list.

use std::collections::BTreeMap;

use bellwether_api::{Backup, BackupState};

/// One entry for each backup, newest first, no more than `limit`. `known` is what nodes have in
/// memory, `found` what is in the place. What is complete there is complete, whatever was known a
/// moment before; of anything else whoever takes it, or has tried to, knows more.
#[must_use]
pub fn combined(known: Vec<Backup>, found: Vec<Backup>, limit: usize) -> Vec<Backup> {
    let mut all: BTreeMap<String, Backup> = BTreeMap::new();
    for backup in found.into_iter().chain(known) {
        match all.get(&backup.name) {
            Some(there) if rank(there.state) >= rank(backup.state) => {}
            _ => {
                all.insert(backup.name.clone(), backup);
            }
        }
    }
    all.into_values().rev().take(limit).collect()
}

/// Which of two accounts of the same backup is the better one.
fn rank(state: BackupState) -> u8 {
    match state {
        BackupState::Incomplete => 0,
        BackupState::Running => 1,
        BackupState::Failed => 2,
        BackupState::Damaged => 3,
        BackupState::Complete => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backup(name: &str, state: BackupState, rows: u64) -> Backup {
        Backup {
            name: name.to_owned(),
            to: "/b".to_owned(),
            state,
            node: None,
            begun_at: None,
            ended_at: None,
            shards: 4,
            shards_done: 0,
            rows,
            bytes: 0,
            stored_bytes: 0,
            cluster: None,
            version: None,
            error: None,
        }
    }

    #[test]
    fn whoever_takes_a_backup_knows_more_than_the_place_until_it_is_complete_there() {
        use BackupState::{Complete, Damaged, Failed, Incomplete, Running};
        for (known, found, shown) in [
            (Running, Incomplete, Running),
            (Running, Complete, Complete),
            (Running, Damaged, Damaged),
            (Failed, Incomplete, Failed),
            (Failed, Complete, Complete),
        ] {
            let known = backup("n", known, 7);
            let all = combined(vec![known], vec![backup("n", found, 9)], 10);
            let rows = if shown == found { 9 } else { 7 };
            assert_eq!(all, [backup("n", shown, rows)]);
        }
    }

    #[test]
    fn the_newest_are_first_and_each_is_there_once() {
        let of = |name: &str| backup(name, BackupState::Complete, 1);
        let all = combined(vec![of("b"), of("d")], vec![of("a"), of("b"), of("c")], 3);
        assert_eq!(all, [of("d"), of("c"), of("b")]);
    }
}
