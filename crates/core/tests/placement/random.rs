//! Nodes join, leave, fall and rise at any time, and steps are taken or not: in the end all is well.

use bellwether_core::placement::{NodeId, Rules};
use bellwether_core::time::MINUTE_MS;
use proptest::prelude::*;

use super::model::Cluster;
use super::rules;

/// Something that happens.
#[derive(Clone, Debug)]
enum Event {
    Join(usize),
    Leave(usize),
    Down(usize),
    Up(usize),
    CatchUp(usize),
    Wait(u64),
    /// A round of the plan, of which the steps with a bit are taken.
    Steps(u64),
}

const ZONES: [&str; 4] = ["a", "b", "c", "d"];

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (0usize..4).prop_map(Event::Join),
        1 => (0usize..9).prop_map(Event::Leave),
        2 => (0usize..9).prop_map(Event::Down),
        2 => (0usize..9).prop_map(Event::Up),
        2 => (0usize..9).prop_map(Event::CatchUp),
        2 => (0u64..12).prop_map(Event::Wait),
        8 => any::<u64>().prop_map(Event::Steps),
    ]
}

fn any_rules() -> impl Strategy<Value = Rules> {
    (1usize..=5, 1usize..=3, 1usize..=5).prop_map(|(replicas, copies_max, transfers_max)| Rules {
        replicas,
        copies_max,
        transfers_max,
        ..Rules::default()
    })
}

fn happen(cluster: &mut Cluster, event: Event, zones: usize) {
    let pick = |cluster: &Cluster, n: usize| -> NodeId {
        *cluster.nodes.keys().nth(n % cluster.nodes.len()).unwrap()
    };
    match event {
        Event::Join(zone) if cluster.nodes.len() < 9 => {
            cluster.join(ZONES[zone % zones]);
        }
        Event::Join(_) => {}
        Event::Leave(n) => cluster.leave(pick(cluster, n)),
        Event::Down(n) => cluster.down(pick(cluster, n)),
        Event::Up(n) => cluster.up(pick(cluster, n)),
        Event::CatchUp(n) => cluster.catch_up(pick(cluster, n)),
        Event::Wait(minutes) => cluster.wait_ms(minutes * MINUTE_MS),
        Event::Steps(bits) => {
            let steps = cluster.plan();
            cluster.check(&steps);
            for (at, step) in steps.into_iter().enumerate() {
                if bits >> (at % 64) & 1 == 1 {
                    cluster.take(step);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, ..ProptestConfig::default() })]

    #[test]
    fn r116_r123_following_the_plan_ends_with_all_rules_kept(
        any in any_rules(),
        shards in 0u16..9,
        zones in 1usize..=4,
        events in proptest::collection::vec(event(), 0..60),
    ) {
        let mut cluster = Cluster::new(shards, ZONES[0], any);
        for event in events {
            happen(&mut cluster, event, zones);
        }
        // Whoever is down now stays so, and is given up; whoever is up catches up.
        let nodes: Vec<NodeId> = cluster.nodes.keys().copied().collect();
        nodes.into_iter().for_each(|node| cluster.catch_up(node));
        cluster.wait_ms(cluster.rules.patience_ms);
        cluster.follow();
        rules::check(&cluster);
        prop_assert_eq!(cluster.plan(), vec![], "and nothing begins again");
    }

    #[test]
    fn the_order_of_what_is_told_does_not_matter(
        shards in 0u16..9,
        events in proptest::collection::vec(event(), 0..40),
    ) {
        let mut cluster = Cluster::new(shards, ZONES[0], Rules::default());
        for event in events {
            happen(&mut cluster, event, 3);
        }
        let steps = cluster.plan();
        let mut nodes: Vec<_> = cluster.nodes.values().cloned().collect();
        nodes.reverse();
        cluster.shards.reverse();
        let again = bellwether_core::placement::plan(
            &nodes, &cluster.shards, &cluster.rules, cluster.now,
        );
        prop_assert_eq!(steps, again);
    }
}
