//! Replicas that nobody counts on any more.
//!
//! A node that is down when a shard moves away from it has its replica still when it is back, and nobody
//! sends that anything. What it has of the log and nobody has committed can never go.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bellwether_core::waist::Shard;

use super::wire::attend::{Said, SaidOfReplica};

/// For so long what a leader said counts, and what a majority said of it.
const HEARD_WITHIN: Duration = Duration::from_secs(1);

/// A replica that nobody counts on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stray {
    /// Where it is.
    pub node: u64,
    /// Of which shard.
    pub shard: Shard,
    /// The entry of the shard's log that says who takes part, and does not name the node.
    pub without: u64,
}

/// Replicas on nodes that whoever leads the shard does not name. Only the word of one counts that a
/// majority has confirmed just now, and that is not about to change it.
pub(super) fn strays(said: &[(Instant, Said)]) -> Vec<Stray> {
    let mut leaders: BTreeMap<Shard, &SaidOfReplica> = BTreeMap::new();
    for (_, said) in said.iter().filter(|(at, _)| at.elapsed() < HEARD_WITHIN) {
        let leads = |replica: &&SaidOfReplica| {
            let confirmed = replica.confirmed_ms.map(Duration::from_millis);
            replica.leader == Some(said.row.node)
                && !replica.changing
                && confirmed.is_some_and(|ago| ago < HEARD_WITHIN)
        };
        for replica in said.replicas.iter().filter(leads) {
            let newest = leaders.entry(replica.shard).or_insert(replica);
            if newest.term < replica.term {
                *newest = replica;
            }
        }
    }
    let of_node = |said: &Said| {
        let node = said.row.node;
        let strays = said.replicas.iter().filter_map(|replica| {
            let leader = leaders.get(&replica.shard)?;
            let named = leader.voters.contains(&node) || leader.learners.contains(&node);
            let (shard, without) = (replica.shard, leader.membership);
            let known = replica.term <= leader.term && replica.membership <= without;
            (known && !named).then_some(Stray { node, shard, without })
        });
        strays.collect::<Vec<_>>()
    };
    said.iter().flat_map(|(_, said)| of_node(said)).collect()
}

#[cfg(test)]
mod tests {
    use bellwether_core::record::NodeRow;
    use bellwether_core::time::Time;

    use super::*;

    /// Node 1 leads shard 3 with 2 and 4, as the entry 50 says; 5 learns.
    fn leading() -> SaidOfReplica {
        SaidOfReplica {
            shard: 3,
            leader: Some(1),
            term: 7,
            last: 90,
            applied: 90,
            behind: 0,
            voters: [1, 2, 4].into(),
            learners: [5].into(),
            membership: 50,
            changing: false,
            confirmed_ms: Some(100),
            agreed: Some(90),
            bytes: None,
            acting: None,
        }
    }

    /// A replica that was let go while its node was down.
    fn old() -> SaidOfReplica {
        let voters = [1, 2, 6].into();
        SaidOfReplica {
            leader: None,
            term: 6,
            voters,
            membership: 20,
            confirmed_ms: None,
            ..leading()
        }
    }

    fn said(node: u64, replica: SaidOfReplica) -> (Instant, Said) {
        let said = Said {
            row: NodeRow { node, ..NodeRow::default() },
            started: Time(0),
            version: String::new(),
            disk_bytes: 0,
            log_bytes: 0,
            replicas: vec![replica],
            stopping: false,
            workers: Vec::new(),
            removed: false,
            leaving: false,
            hears: Vec::new(),
            queues: Vec::new(),
            clock: None,
        };
        (Instant::now(), said)
    }

    fn found(leader: SaidOfReplica, other: (u64, SaidOfReplica)) -> Vec<Stray> {
        strays(&[said(1, leader), said(other.0, other.1)])
    }

    #[test]
    fn r126_a_replica_that_was_let_go_while_its_node_was_down_is_found() {
        assert_eq!(found(leading(), (6, old())), [Stray { node: 6, shard: 3, without: 50 }]);
        for member in [2, 4, 5] {
            assert_eq!(found(leading(), (member, old())), [], "{member} takes part");
        }
    }

    #[test]
    fn r126_nothing_is_removed_on_the_word_of_one_who_may_be_wrong() {
        let changing = SaidOfReplica { changing: true, ..leading() };
        let unconfirmed = SaidOfReplica { confirmed_ms: Some(5_000), ..leading() };
        let follower = SaidOfReplica { leader: Some(2), ..leading() };
        for leader in [changing, unconfirmed, follower] {
            assert_eq!(found(leader, (6, old())), []);
        }
        let of_later_term = SaidOfReplica { term: 8, ..old() };
        let taken_in_again = SaidOfReplica { membership: 51, ..old() };
        for replica in [of_later_term, taken_in_again] {
            assert_eq!(found(leading(), (6, replica)), []);
        }
    }
}
