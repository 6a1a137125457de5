//! What operators rely on, one by one.

use std::collections::BTreeSet;

use bellwether_core::placement::{Node, Replicas, Role, Rules, Step, plan};
use bellwether_core::time::{MINUTE_MS, Time};

use super::model::Cluster;
use super::rules;

fn set<const N: usize>(nodes: [u64; N]) -> BTreeSet<u64> {
    BTreeSet::from(nodes)
}

fn leaders(cluster: &Cluster) -> Vec<usize> {
    cluster.leads().into_values().collect()
}

#[test]
fn r116_one_node_grows_to_three_and_every_shard_with_it() {
    let mut cluster = Cluster::new(5, "a", Rules::default());
    assert_eq!(cluster.plan(), vec![], "alone there is nothing to do");
    cluster.join("a");
    cluster.follow();
    assert!(cluster.shards.iter().all(|shard| shard.voters == set([1, 2])), "two nodes: both");
    cluster.join("a");
    cluster.follow();
    assert!(cluster.shards.iter().all(|shard| shard.voters == set([1, 2, 3])));
    assert_eq!(leaders(&cluster), [2, 2, 2]);
}

#[test]
fn r116_the_highest_number_of_replicas_that_a_node_wants_counts() {
    let replicas = |nodes: &[u32]| Rules::wanted_by(nodes.iter().copied()).replicas;
    assert_eq!(replicas(&[]), 3);
    assert_eq!(replicas(&[0, 0]), 3, "nobody has an opinion");
    assert_eq!(replicas(&[5, 0, 3]), 5);
    let mut cluster = Cluster::grown(5, &["a", "b", "c", "d", "e"]);
    assert!(cluster.shards[1..].iter().all(|shard| shard.voters.len() == 3));
    cluster.rules = Rules::wanted_by([5]);
    cluster.follow();
    assert!(cluster.shards.iter().all(|shard| shard.voters.len() == 5));
}

#[test]
fn r126_what_is_missing_is_mended_also_while_it_is_not_known_how_all_shards_stand() {
    let mut cluster = Cluster::new(5, "a", Rules { even_out: false, ..Rules::default() });
    cluster.join("a");
    cluster.join("a");
    cluster.follow();
    assert!(cluster.shards.iter().all(|shard| shard.voters == set([1, 2, 3])));
    assert_eq!(leaders(&cluster), [6, 0, 0], "who has the others is not known");
    cluster.rules.even_out = true;
    cluster.follow();
    assert_eq!(leaders(&cluster), [2, 2, 2]);
}

#[test]
fn r116_a_few_shards_are_copied_at_a_time() {
    let mut cluster = Cluster::new(5, "a", Rules::default());
    cluster.join("a");
    let place = |shard| Step::Place { shard, node: 2, role: Role::Voter };
    assert_eq!(cluster.plan(), [place(0), place(1)]);
    cluster.take(place(1));
    assert_eq!(cluster.plan(), [place(0), place(1)], "what is under way goes on");
    cluster.take(place(1));
    assert_eq!(cluster.plan()[..2], [place(0), Step::Lead { shard: 1, node: 2 }]);
}

#[test]
fn r123_with_three_zones_the_loss_of_one_costs_no_shard_its_majority() {
    let cluster = Cluster::grown(16, &["a", "a", "b", "b", "c", "c"]);
    rules::check(&cluster);
    for zone in ["a", "b", "c"] {
        for shard in &cluster.shards {
            let left = shard.voters.iter().filter(|voter| cluster.zone(**voter) != zone).count();
            assert!(2 * left > shard.voters.len(), "{zone}: {shard:?}");
        }
    }
    assert!(cluster.load().values().all(|load| *load == 8), "{:?}", cluster.load());
    assert!(leaders(&cluster).iter().all(|leads| (2..=3).contains(leads)));
}

#[test]
fn r123_zones_that_come_later_are_made_use_of() {
    let mut cluster = Cluster::grown(4, &["a", "a", "a"]);
    cluster.join("b");
    cluster.join("c");
    cluster.follow();
    rules::check(&cluster);
    for shard in &cluster.shards[1..] {
        assert!(shard.voters.is_superset(&set([4, 5])), "{shard:?}");
    }
}

#[test]
fn nothing_is_moved_for_beauty_while_a_voter_is_down() {
    let mut cluster = Cluster::grown(2, &["a", "a", "a"]);
    cluster.down(3);
    cluster.follow();
    let before = cluster.shards[1..].to_vec();
    cluster.join("b");
    cluster.join("c");
    cluster.follow();
    assert_eq!(cluster.shards[1..], before);
    cluster.up(3);
    cluster.catch_up(3);
    cluster.follow();
    rules::check(&cluster);
}

#[test]
fn r116_a_node_that_is_down_is_replaced_after_a_while_and_not_before() {
    let mut cluster = Cluster::grown(6, &["a", "b", "c", "c"]);
    cluster.down(4);
    cluster.follow();
    cluster.wait_ms(10 * MINUTE_MS - 1);
    assert_eq!(cluster.plan(), vec![], "it may come back");
    cluster.wait_ms(1);
    cluster.follow();
    rules::check(&cluster);
    assert!(cluster.shards.iter().all(|shard| shard.voters == set([1, 2, 3])));
    cluster.up(4);
    cluster.follow();
    rules::check(&cluster);
    assert_eq!(cluster.load()[&4], 3, "back again, it takes its part");
}

#[test]
fn r65_a_node_that_is_back_leads_nothing_before_it_has_caught_up() {
    let mut cluster = Cluster::grown(5, &["a", "b", "c"]);
    cluster.down(3);
    cluster.follow();
    cluster.up(3);
    assert_eq!(cluster.plan(), vec![], "nobody would lead until it has");
    cluster.shards[4].behind.clear();
    let one = Step::Lead { shard: 4, node: 3 };
    assert_eq!(cluster.plan(), vec![one], "one shard does not wait for another");
    cluster.catch_up(3);
    cluster.follow();
    assert_eq!(leaders(&cluster), [2, 2, 2]);
}

#[test]
fn r116_nobody_is_removed_whose_place_nobody_can_take() {
    let mut cluster = Cluster::grown(6, &["a", "b", "c"]);
    cluster.down(3);
    cluster.wait_ms(60 * MINUTE_MS);
    cluster.follow();
    assert!(cluster.shards.iter().all(|shard| shard.voters == set([1, 2, 3])));
    let leads = cluster.leads();
    assert_eq!((leads[&1] + leads[&2], leads[&1].abs_diff(leads[&2])), (7, 1));
}

#[test]
fn a_node_that_leaves_gives_up_its_leaders_first() {
    let mut cluster = Cluster::grown(4, &["a", "a", "a", "a"]);
    cluster.leave(1);
    let led: Vec<u16> = {
        let led = cluster.shards.iter().filter(|shard| shard.leader == Some(1));
        led.map(|shard| shard.shard).collect()
    };
    assert!(!led.is_empty());
    let steps = cluster.plan();
    for shard in led {
        let leads = |step: &&Step| matches!(step, Step::Lead { shard: of, .. } if *of == shard);
        assert!(steps.iter().any(|step| leads(&step)), "{steps:?}");
    }
    cluster.follow();
    let has =
        |node| cluster.shards.iter().any(|s| s.voters.contains(node) || s.learners.contains(node));
    assert!(!has(&1) && has(&2));
    assert!(cluster.shards.iter().all(|shard| shard.voters == set([2, 3, 4])));
}

#[test]
fn r116_a_node_that_is_down_and_leaves_is_replaced_at_once_or_left_out() {
    for (zones, left) in [(vec!["a"; 4], set([1, 2, 3])), (vec!["a"; 3], set([1, 2]))] {
        let mut cluster = Cluster::grown(6, &zones);
        let last = zones.len() as u64;
        cluster.down(last);
        cluster.leave(last);
        cluster.follow();
        assert!(cluster.shards.iter().all(|shard| shard.voters == left), "{cluster:#?}");
        assert!(cluster.shards.iter().all(|shard| !shard.learners.contains(&last)));
    }
}

#[test]
fn r116_a_node_that_leaves_stays_while_it_is_needed_for_a_majority() {
    let mut cluster = Cluster::grown(2, &["a", "a", "a"]);
    cluster.leave(3);
    cluster.down(2);
    cluster.follow();
    assert!(cluster.shards.iter().all(|shard| shard.voters == set([1, 2, 3])), "two are needed");
    let mut back = cluster.clone();
    back.up(2);
    back.follow();
    assert!(back.shards.iter().all(|shard| shard.voters == set([1, 2])));
    cluster.wait_ms(cluster.rules.patience_ms);
    cluster.follow();
    let one = |shard: &Replicas| shard.voters == set([1]);
    assert!(cluster.shards.iter().all(one), "one that is alone does not wait: {cluster:#?}");
}

#[test]
fn the_last_node_is_not_emptied() {
    let mut cluster = Cluster::grown(2, &["a"]);
    cluster.leave(1);
    assert_eq!(cluster.plan(), vec![]);
}

#[test]
fn four_nodes_have_three_voters_of_each_shard_and_equally_many() {
    let cluster = Cluster::grown(8, &["", "", "", ""]);
    assert!(cluster.shards.iter().all(|shard| shard.voters.len() == 3));
    assert!(cluster.load().values().all(|load| *load == 6), "{:?}", cluster.load());
    let first = &cluster.shards[0];
    assert_eq!(first.voters.union(&first.learners).count(), 4, "all have the first shard");
    let mut leaders = leaders(&cluster);
    leaders.sort_unstable();
    assert_eq!(leaders, [2, 2, 2, 3]);
}

#[test]
fn every_node_follows_the_first_shard_and_five_vote() {
    let mut cluster = Cluster::grown(0, &["a", "a", "b", "b", "c", "c", "c"]);
    let first = &cluster.shards[0];
    assert_eq!((first.voters.len(), first.learners.len()), (5, 2), "{first:?}");
    rules::check(&cluster);
    let voter = *first.voters.iter().find(|voter| Some(**voter) != first.leader).unwrap();
    cluster.down(voter);
    cluster.wait_ms(cluster.rules.patience_ms);
    cluster.follow();
    let first = &cluster.shards[0];
    assert!(first.learners.contains(&voter), "it may come back, and follows then: {first:?}");
    assert_eq!(first.voters.len(), 5);
}

#[test]
fn leaders_are_evened_out_by_chains_where_no_single_move_helps() {
    let mut cluster = Cluster::grown(0, &["", "", ""]);
    cluster.shards.clear();
    // The first leads three, the second two and the third one, and the first has nothing that the
    // third could lead.
    for (shard, voters, leader) in [
        (0, vec![1, 2], 1),
        (1, vec![1, 2], 1),
        (2, vec![1, 2], 1),
        (3, vec![2, 3], 2),
        (4, vec![2, 3], 2),
        (5, vec![2, 3], 3),
    ] {
        cluster.shards.push(Replicas {
            shard,
            voters: voters.into_iter().collect(),
            learners: BTreeSet::new(),
            leader: Some(leader),
            behind: BTreeSet::new(),
        });
    }
    cluster.rules = Rules { copies_max: 0, first_shard_voters: 1, ..cluster.rules };
    let steps = cluster.plan();
    assert!(steps.iter().all(|step| matches!(step, Step::Lead { .. })), "{steps:?}");
    steps.into_iter().for_each(|step| cluster.take(step));
    assert_eq!(leaders(&cluster), [2, 2, 2]);
}

#[test]
fn a_shard_without_a_majority_is_left_alone() {
    let mut cluster = Cluster::grown(3, &["a", "b", "c"]);
    cluster.join("a");
    cluster.down(1);
    cluster.down(2);
    cluster.wait_ms(60 * MINUTE_MS);
    assert_eq!(cluster.plan(), vec![]);
}

#[test]
fn a_voter_that_no_list_of_nodes_knows_is_replaced() {
    let cluster = Cluster::grown(1, &["a", "b", "c"]);
    let node =
        |id: u64, zone: &str| Node { id, zone: zone.to_owned(), down_since: None, leaving: false };
    let nodes = [node(1, "a"), node(2, "b"), node(9, "c")];
    let mut shards = cluster.shards.clone();
    shards.iter_mut().for_each(|shard| shard.leader = Some(1));
    let steps = plan(&nodes, &shards, &Rules::default(), Time(0));
    let place = |shard| Step::Place { shard, node: 9, role: Role::Voter };
    assert_eq!(steps, [place(0), place(1)]);
    shards.iter_mut().for_each(|shard| {
        shard.voters.insert(9);
    });
    let steps = plan(&nodes, &shards, &Rules::default(), Time(0));
    assert_eq!(steps, [Step::Remove { shard: 0, node: 3 }, Step::Remove { shard: 1, node: 3 }]);
}
