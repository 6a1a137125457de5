//! Who leads and who takes part in a shard, and changing that: what the management of a cluster
//! does, one step at a time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bellwether_core::waist::Shard;
use bellwether_raft::types::StoredMembership;
use openraft::async_runtime::WatchReceiver;
use openraft::{ChangeMembers, ReadPolicy};

use crate::chance::Chance;
use crate::links::Place;
use crate::node::{Node, metrics, peer};
use crate::wire::Group;
use crate::world::World;

/// How long a change of members may take before it is left to itself.
pub const MEMBERS_WITHIN: Duration = Duration::from_secs(10);
/// How long to wait before a change is tried again.
const AGAIN: Duration = Duration::from_millis(500);

/// The node that leads a shard: of those that think so, the one that was elected last.
#[must_use]
pub fn leader(world: &World, shard: Shard) -> Option<Arc<Node>> {
    let nodes = world.nodes().into_iter();
    let leaders = nodes.filter(|node| node.leader(shard) == Some(node.id));
    let term = |node: &Arc<Node>| Some(node.group(shard)?.metrics().borrow_watched().current_term);
    leaders.max_by_key(term)
}

/// The voters of a shard, as its leader says.
#[must_use]
pub fn voters(world: &World, shard: Shard) -> BTreeSet<Place> {
    let group = leader(world, shard).and_then(|leader| leader.group(shard));
    group.map(|group| group.voter_ids().collect()).unwrap_or_default()
}

/// Who takes part in a shard, as its leader says.
#[must_use]
pub fn replicas(world: &World, shard: Shard) -> Option<(Arc<Node>, BTreeSet<Place>)> {
    let leader = leader(world, shard)?;
    let group = leader.group(shard)?;
    let metrics = metrics(&group);
    let members = metrics.membership_config.membership().nodes().map(|node| *node.0).collect();
    Some((leader, members))
}

/// Somebody else is to lead a shard: this one, or any.
pub fn transfer(world: &World, shard: Shard, to: Option<Place>, chance: &mut Chance) {
    let Some(leader) = leader(world, shard) else { return };
    let Some(group) = leader.group(shard) else { return };
    let others: Vec<u64> = group.voter_ids().filter(|id| *id != leader.id).collect();
    // One that has left must not be asked: it would be elected all the same.
    let to = to.or(chance.of(&others).copied()).filter(|to| others.contains(to));
    let Some(to) = to else { return };
    world.trace.tell(format_args!("-- node {} is to pass shard {shard} on to {to}", leader.id));
    world.saw("leadership was passed on");
    leader.scope.spawn(async move {
        let _ = group.trigger().transfer_leader(to).await;
    });
}

/// The leader, if it may change who votes: it does itself, and no change is under way.
fn settled_leader(world: &World, shard: Shard) -> Option<(Arc<Node>, Group)> {
    let leader = leader(world, shard)?;
    let group = leader.group(shard)?;
    is_settled(&group, leader.id).then_some((leader, group))
}

fn is_settled(group: &Group, leader: Place) -> bool {
    let metrics = metrics(group);
    let votes = metrics.membership_config.membership().voter_ids().any(|id| id == leader);
    votes && metrics.membership_config == metrics.committed_membership_config
}

/// A node joins the voters of a shard.
pub fn join(world: &World, shard: Shard, id: Place) {
    let Some((leader, group)) = settled_leader(world, shard) else { return };
    world.trace.tell(format_args!("-- node {id} joins shard {shard}"));
    world.saw("a node joined a shard");
    leader.scope.spawn(tokio::time::timeout(MEMBERS_WITHIN, async move {
        if group.add_learner(id, peer(), true).await.is_ok() {
            let one = BTreeSet::from([id]);
            let _ = group.change_membership(ChangeMembers::AddVoterIds(one), false).await;
        }
    }));
}

/// A node leaves a shard that has just these voters: two that leave at once could be one too many.
/// The one that leads passes that on first, and stays.
pub fn leave(world: &World, shard: Shard, id: Place, voters: BTreeSet<Place>, chance: &mut Chance) {
    let Some((leader, group)) = settled_leader(world, shard) else { return };
    if leader.id == id {
        return transfer(world, shard, None, chance);
    }
    world.trace.tell(format_args!("-- node {id} leaves shard {shard}"));
    world.saw("a node left a shard");
    leader.scope.spawn(tokio::time::timeout(MEMBERS_WITHIN, async move {
        if group.voter_ids().collect::<BTreeSet<Place>>() == voters {
            let others = voters.into_iter().filter(|voter| *voter != id).collect();
            let change = ChangeMembers::ReplaceAllVoters(others);
            let _ = group.change_membership(change, false).await;
        }
    }));
}

/// Puts a new node in the place of one that will not come back, as often as it takes.
pub async fn replace(world: &World, shard: Shard, old: Place, new: Place) {
    world.trace.tell(format_args!("-- node {new} takes the place of {old} in shard {shard}"));
    loop {
        if let Some(leader) = leader(world, shard)
            && let Some(group) = leader.group(shard)
        {
            let changing = leader.scope.spawn(replace_once(group, leader.id, old, new));
            let changing = tokio::time::timeout(MEMBERS_WITHIN, changing).await;
            if let Ok(Ok(Some(()))) = changing {
                return;
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// The same, where the shard is led. `None` if it is not, or it could not be done.
async fn replace_once(group: Group, leader: Place, old: Place, new: Place) -> Option<()> {
    // One that was replaced without knowing does not know either who takes part.
    group.ensure_linearizable(ReadPolicy::ReadIndex).await.ok()?;
    let metrics = metrics(&group);
    let has = |config: &StoredMembership| config.membership().nodes().any(|node| *node.0 == old);
    if !has(&metrics.membership_config) && !has(&metrics.committed_membership_config) {
        return Some(());
    }
    if !is_settled(&group, leader) {
        return None;
    }
    let votes = group.voter_ids().any(|id| id == old);
    let (old, only_new) = (BTreeSet::from([old]), BTreeSet::from([new]));
    group.add_learner(new, peer(), true).await.ok()?;
    group.change_membership(ChangeMembers::AddVoterIds(only_new), true).await.ok()?;
    let change = match votes {
        true => ChangeMembers::RemoveVoters(old),
        false => ChangeMembers::RemoveNodes(old),
    };
    group.change_membership(change, false).await.ok().map(drop)
}
