//! Seeing to it that replicas and leaders are where they should be.
//!
//! Where that is, is decided in [`bellwether_core::placement`]; here it is done, a step at a time, by
//! the node on which shard 0 acts. Nothing is remembered: the next plan is made from how things stand
//! then, so whoever leads shard 0 next goes on where this one was.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bellwether_core::placement::{self, Replicas, Role, Rules, Step};
use bellwether_core::record::NodeState;
use bellwether_core::time::Time;
use bellwether_core::turn::{Input, NodeChange};
use bellwether_core::waist::Shard;
use bellwether_protocol::node::v1;
use bellwether_protocol::node::v1::change_request::What;
use bellwether_raft::Standing;
use bellwether_raft::types::Peer;
use futures::future::join_all;
use tokio_util::sync::CancellationToken;

use super::steps::{shard_of, told};
use super::strays::{Stray, strays};
use super::wire::attend::{Said, SaidOfReplica};
use super::{Cluster, Known};
use crate::clock;
use crate::work::is_built_in;

/// How often it is looked at.
const EVERY: Duration = Duration::from_secs(1);
/// How long a step may take that copies nothing.
const STEP_WITHIN: Duration = Duration::from_secs(10);
/// How long a step may take that copies a shard. If it takes longer, it is taken up again.
const COPY_WITHIN: Duration = Duration::from_secs(600);
/// How long a node that has nearly all of a shard may take to get what is missing until it may vote.
const ARRIVE_WITHIN: Duration = Duration::from_secs(60);
/// How often it is looked at whether a node is still up for which a step waits.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long a shard may take to be led by another when this node stops.
const GIVE_AWAY_WITHIN: Duration = Duration::from_secs(3);
/// How long a shard may stand still for the node that is to lead it to have the last of it.
const LEVEL_WITHIN: Duration = Duration::from_millis(100);
/// A node that was not heard for longer than this is not asked to lead.
const HEARD_WITHIN: Duration = Duration::from_secs(1);
/// Nor is one that has more entries than this to catch up with before it can. Under load a few are
/// always on their way, and each may have thousands of writes.
const BEHIND_MAX: u64 = 8;
/// How long a node may take to start or stop a replica.
const REPLICA_WITHIN: Duration = Duration::from_secs(10);

impl Cluster {
    /// Manages the cluster whenever shard 0 acts here, until told to stop.
    pub async fn keep_managing(self: Arc<Self>, stop: CancellationToken) {
        let mut interval = tokio::time::interval(EVERY);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let under_way = tokio_util::task::TaskTracker::new();
        let busy: Arc<parking_lot::Mutex<BTreeSet<Shard>>> = Arc::default();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = interval.tick() => {}
            }
            if self.book.is_empty() {
                continue;
            }
            self.say_who_moved().await;
            self.finish_changes().await;
            if !self.shards[0].acts_here() {
                continue;
            }
            self.complete_replicas().await;
            let said = self.all_say();
            let being_changed = busy.lock().clone();
            self.drop_strays(&said, &being_changed).await;
            let standing = standing(&said);
            for (step, voters) in self.plan(&said, &standing) {
                let shard = shard_of(step);
                if !busy.lock().insert(shard) {
                    continue;
                }
                let (cluster, busy) = (self.clone(), busy.clone());
                under_way.spawn(async move {
                    match cluster.take_step(step, voters).await {
                        Ok(()) => tracing::info!("{}", told(step)),
                        Err(error) => tracing::info!("not done: {}: {error:#}", told(step)),
                    }
                    busy.lock().remove(&shard);
                });
            }
            self.let_go(&standing).await;
        }
    }

    /// What the nodes that are up said last, this one among them, and when.
    fn all_say(&self) -> Vec<(Instant, Said)> {
        let others = self.book.all().into_iter().filter(|known| known.is_up());
        others.filter_map(|known| known.heard).chain([(Instant::now(), self.says())]).collect()
    }

    /// What is wanted of replicas.
    pub fn rules(&self) -> Rules {
        let others = self.book.all().into_iter().map(|known| known.row.replicas);
        let patience_ms = u64::try_from(self.replace_after.as_millis()).unwrap_or(u64::MAX);
        Rules { patience_ms, ..Rules::wanted_by(others.chain([self.row().replicas])) }
    }

    /// How many voters shards are to have, as nodes are now: the first one, and any other.
    pub fn voters_wanted(&self) -> (usize, usize) {
        placement::voters_wanted(&self.nodes(), &self.rules(), clock::now())
    }

    fn nodes(&self) -> Vec<placement::Node> {
        let now = clock::now();
        let others = self.book.all().into_iter().map(|known| {
            let silent_ms = i64::try_from(known.silent().as_millis()).unwrap_or(i64::MAX);
            let stopping = known.heard.as_ref().is_some_and(|(_, said)| said.stopping);
            let down = !known.is_up() || stopping;
            placement::Node {
                id: known.row.node,
                zone: known.row.zone.clone(),
                down_since: down.then_some(Time(now.0.saturating_sub(silent_ms))),
                leaving: known.row.state() == NodeState::Leaving,
            }
        });
        let row = self.row();
        let stopping = self.stopping.load(Ordering::Relaxed);
        let own = placement::Node {
            id: row.node,
            zone: row.zone.clone(),
            down_since: stopping.then_some(now),
            leaving: row.state() == NodeState::Leaving,
        };
        let mut nodes: Vec<placement::Node> = others.chain([own]).collect();
        nodes.sort_by_key(|node| node.id);
        nodes
    }

    /// The steps to take, each with those who vote as it is planned.
    fn plan(
        &self,
        said: &[(Instant, Said)],
        standing: &[SaidOfReplica],
    ) -> Vec<(Step, BTreeSet<u64>)> {
        // Of one whose replicas are all down nobody says how it stands. What others lack is mended.
        let rules = Rules { even_out: standing.len() == self.shards.len(), ..self.rules() };
        let changing = |replica: &&SaidOfReplica| replica.changing || replica.leader.is_none();
        let unsettled: BTreeSet<Shard> =
            standing.iter().filter(changing).map(|replica| replica.shard).collect();
        let level = level(said, standing);
        let shards: Vec<Replicas> = standing
            .iter()
            .map(|replica| Replicas {
                shard: replica.shard,
                behind: replica
                    .voters
                    .iter()
                    .copied()
                    .filter(|voter| !level.contains(&(*voter, replica.shard)))
                    .collect(),
                voters: replica.voters.clone(),
                learners: replica.learners.clone(),
                leader: replica.leader,
            })
            .collect();
        let steps = placement::plan(&self.nodes(), &shards, &rules, clock::now());
        let settled = steps.into_iter().filter(|step| !unsettled.contains(&shard_of(*step)));
        let voters = |step: Step| {
            let replica = standing.iter().find(|replica| replica.shard == shard_of(step));
            replica.map(|replica| (step, replica.voters.clone()))
        };
        settled.filter_map(voters).collect()
    }

    /// Sees to it that every node has the replicas that it is said to have: one that was started
    /// anew before it had anything of a shard does not know of it.
    async fn complete_replicas(&self) {
        let said = self.all_say();
        let standing = standing(&said);
        let has: BTreeSet<(u64, Shard)> = said
            .iter()
            .flat_map(|(_, said)| {
                said.replicas.iter().map(move |replica| (said.row.node, replica.shard))
            })
            .collect();
        let asking = standing.iter().flat_map(|replica| {
            let members = replica.voters.iter().chain(&replica.learners);
            let missing = members.filter(|node| {
                self.book.get(**node).is_some_and(|known| known.is_up())
                    && !has.contains(&(**node, replica.shard))
            });
            missing.map(|node| self.ask_replica(*node, replica.shard, Wanted::Yes))
        });
        for asked in join_all(asking).await {
            if let Err(error) = asked {
                tracing::debug!("a replica could not be completed: {error:#}");
            }
        }
    }

    /// Sees to it that no node has replicas that nobody counts on any more: of one that takes part no
    /// more, whether it was up at the time or not. What they have of the log would never be
    /// committed, and would be kept for ever.
    async fn drop_strays(&self, said: &[(Instant, Said)], being_changed: &BTreeSet<Shard>) {
        let strays = strays(said).into_iter().filter(|stray| !being_changed.contains(&stray.shard));
        let asking = strays.map(async |Stray { node, shard, without }| {
            match self.ask_replica(node, shard, Wanted::No { without }).await {
                Ok(()) => tracing::info!(node, shard, "a replica was removed"),
                Err(error) => tracing::debug!(node, shard, "a replica is not removed: {error:#}"),
            }
        });
        join_all(asking).await;
    }

    /// Tells the groups that this node leads where their members are reached now.
    async fn say_who_moved(&self) {
        let moved = self.engine.replicas().into_iter().filter_map(|shard| {
            let standing = self.engine.standing(shard)?;
            if standing.leader != Some(self.identity.node) || standing.changing {
                return None;
            }
            let now = standing.peers.into_iter().filter_map(|(node, known)| {
                let now = self.peer(node).filter(|now| !now.address.is_empty())?;
                (now != known).then_some((node, now))
            });
            let now: BTreeMap<u64, Peer> = now.collect();
            (!now.is_empty()).then_some((shard, now))
        });
        let telling = moved.collect::<Vec<_>>().into_iter().map(async |(shard, now)| {
            let told = self.engine.set_peers(shard, now);
            match tokio::time::timeout(STEP_WITHIN, told).await {
                Ok(Ok(())) => tracing::info!(shard, "a member of the shard has moved"),
                Ok(Err(error)) => tracing::debug!(shard, %error, "not said who has moved"),
                Err(_) => tracing::debug!(shard, "not said in time who has moved"),
            }
        });
        join_all(telling).await;
    }

    /// Finishes changes of who votes, in the groups that this node leads, which were left half-way:
    /// whoever led was lost in between, or nobody waited for it any more. Those vote that should by
    /// then, so no plan would ever come back to it; but a majority of those before is needed as well.
    async fn finish_changes(&self) {
        let is_half_way = |shard: &Shard| {
            self.engine.standing(*shard).is_some_and(|standing| {
                standing.leader == Some(self.identity.node)
                    && standing.halfway
                    && !standing.changing
            })
        };
        let half_way = self.engine.replicas().into_iter().filter(is_half_way);
        let finishing = half_way.map(async |shard| {
            let changes = self.changes.get(usize::from(shard))?;
            let _changing = changes.try_lock().ok()?;
            let finished = self.engine.finish_voters(shard);
            match tokio::time::timeout(STEP_WITHIN, finished).await {
                Ok(Ok(())) => tracing::info!(shard, "a change of who votes was finished"),
                Ok(Err(error)) => tracing::debug!(shard, %error, "a change is not finished"),
                Err(_) => tracing::debug!(shard, "a change is not finished in time"),
            }
            Some(())
        });
        join_all(finishing.collect::<Vec<_>>()).await;
    }

    /// Whether the worker of a node has finished what it was given, as far as anybody knows: one that
    /// is down has.
    async fn is_idle(&self, known: &Known) -> bool {
        let said = known.heard.as_ref().filter(|_| known.is_up()).map(|(_, said)| said);
        let workers = said.into_iter().flat_map(|said| &said.workers);
        let own = workers.filter(|(name, _, _)| is_built_in(name));
        let own: Vec<String> = own.map(|(name, _, _)| name.to_string()).collect();
        if own.is_empty() {
            return true;
        }
        let asking = self.shards.iter().map(|handle| self.ask_held(handle.shard, &own));
        let idle = |held: Option<(u64, Vec<_>)>| held.is_some_and(|(_, held)| held.is_empty());
        join_all(asking).await.into_iter().all(idle)
    }

    /// Forgets nodes that leave, have nothing any more and do nothing any more.
    async fn let_go(&self, standing: &[SaidOfReplica]) {
        let has = |node: u64| {
            standing.iter().any(|r| r.voters.contains(&node) || r.learners.contains(&node))
        };
        if standing.len() < self.shards.len() {
            return;
        }
        for known in self.book.all() {
            let node = known.row.node;
            let leaves = known.row.state() == NodeState::Leaving && !has(node);
            if leaves && self.is_idle(&known).await {
                let change = NodeChange::Forget(node);
                let asked = Input::Node { actor: "cluster".to_owned(), change };
                match self.shards[0].ask(asked).await {
                    Ok(_) => tracing::info!(node, "a node has left the cluster"),
                    Err(error) => tracing::debug!(node, %error, "a node could not be let go"),
                }
            }
        }
    }

    async fn take_step(&self, step: Step, voters: BTreeSet<u64>) -> anyhow::Result<()> {
        match step {
            Step::Place { shard, node, role } => {
                // Who votes has one, and may be down: it is to follow so that nobody counts on it.
                if !voters.contains(&node) {
                    self.ask_replica(node, shard, Wanted::Yes).await?;
                }
                let what = match role {
                    Role::Voter => What::Vote(node),
                    Role::Learner => What::Learn(node),
                };
                self.ask_change(shard, what, voters, COPY_WITHIN).await
            }
            Step::Remove { shard, node } => {
                // What it has is removed once the leader says that it takes part no more.
                self.ask_change(shard, What::Leave(node), voters, STEP_WITHIN).await
            }
            Step::Lead { shard, node } => {
                self.ask_change(shard, What::Lead(node), voters, STEP_WITHIN).await
            }
        }
    }

    async fn ask_replica(&self, node: u64, shard: Shard, wanted: Wanted) -> anyhow::Result<()> {
        if node == self.identity.node {
            return match wanted {
                Wanted::Yes => self.have_replica(shard).await,
                Wanted::No { without } => self.drop_replica(shard, without).await,
            };
        }
        let (wanted, without) = match wanted {
            Wanted::Yes => (true, None),
            Wanted::No { without } => (false, Some(without)),
        };
        let shard = Some(u32::from(shard));
        let request = v1::ReplicaRequest { shard, wanted: Some(wanted), without };
        let mut way = self.to(node)?;
        tokio::time::timeout(REPLICA_WITHIN, way.replica(request))
            .await
            .context("the node does not answer")??;
        Ok(())
    }

    async fn ask_change(
        &self,
        shard: Shard,
        what: What,
        voters: BTreeSet<u64>,
        within: Duration,
    ) -> anyhow::Result<()> {
        let leader = self.leader(shard).context("nobody leads the shard")?;
        if leader == self.identity.node {
            return tokio::time::timeout(within, self.change(shard, what, voters)).await?;
        }
        let voters = voters.into_iter().collect();
        let shard = Some(u32::from(shard));
        let request = v1::ChangeRequest { shard, what: Some(what), voters };
        let mut way = self.to(leader)?;
        let answer = tokio::time::timeout(within, way.change(request)).await??.into_inner();
        match answer.refused.unwrap_or_default().as_str() {
            "" => Ok(()),
            why => bail!("{why}"),
        }
    }

    /// Has a replica of a shard from now on, which its leader will fill.
    pub(super) async fn have_replica(&self, shard: Shard) -> anyhow::Result<()> {
        if usize::from(shard) >= self.shards.len() {
            bail!("there is no shard {shard}");
        }
        if self.engine.start_if_absent(shard).await? {
            self.levels.forget(shard);
        }
        self.hold(shard);
        Ok(())
    }

    /// Has no replica of a shard any more, unless it knows of a later entry than `without` that says
    /// who takes part: what is asked for may have been long on its way, and the node be one that
    /// counts again by now.
    pub(super) async fn drop_replica(&self, shard: Shard, without: u64) -> anyhow::Result<()> {
        let member = self.engine.standing(shard).is_some_and(|standing| {
            standing.voters.contains(&self.identity.node)
                && standing.leader == Some(self.identity.node)
        });
        if member {
            bail!("this node leads shard {shard}");
        }
        self.read_elsewhere(shard);
        let erased = self.engine.erase(shard, without).await;
        if self.engine.has(shard) {
            // It was begun anew, since it counts on this node again.
            self.hold(shard);
        }
        Ok(erased?)
    }

    /// How a shard stands that is to be changed: this node must lead it, and those must vote that the
    /// change was planned for. Two plans at once, or one that was long on its way, could leave fewer.
    fn to_change(&self, shard: Shard, planned: &BTreeSet<u64>) -> anyhow::Result<Standing> {
        let standing = self.engine.standing(shard).context("this node has no replica of it")?;
        if standing.leader != Some(self.identity.node) {
            bail!("this node does not lead shard {shard}");
        }
        if standing.voters != *planned {
            let now = &standing.voters;
            bail!("planned for {planned:?} to vote in shard {shard}, but by now {now:?} do");
        }
        Ok(standing)
    }

    /// Changes who takes part in a shard, or who leads it, if this node does.
    pub(super) async fn change(
        &self,
        shard: Shard,
        what: What,
        planned: BTreeSet<u64>,
    ) -> anyhow::Result<()> {
        let changes = self.changes.get(usize::from(shard)).context("there is no such shard")?;
        let Ok(_changing) = changes.try_lock() else {
            bail!("shard {shard} is being changed");
        };
        let standing = self.to_change(shard, &planned)?;
        let peer = |node| self.peer(node).with_context(|| format!("node {node} is not known"));
        match what {
            What::Learn(node) => {
                if standing.voters.contains(&node) {
                    let voters = standing.voters.into_iter().filter(|voter| *voter != node);
                    self.engine.set_voters(shard, voters.collect()).await?;
                } else {
                    let adding = self.engine.add_learner(shard, node, peer(node)?);
                    self.while_up(node, adding).await??;
                }
            }
            What::Vote(node) => {
                let adding = self.engine.add_learner(shard, node, peer(node)?);
                self.while_up(node, adding).await??;
                let arriving = self.engine.wait_until_arrived(shard, node, ARRIVE_WITHIN);
                let arrived = self.while_up(node, arriving).await?;
                arrived.with_context(|| format!("node {node} lacks too much of shard {shard}"))?;
                // It may have taken long.
                let voters = self.to_change(shard, &planned)?.voters.into_iter().chain([node]);
                self.engine.set_voters(shard, voters.collect()).await?;
            }
            What::Leave(node) => {
                if standing.voters.contains(&node) {
                    let voters = standing.voters.into_iter().filter(|voter| *voter != node);
                    self.engine.set_voters(shard, voters.collect()).await?;
                }
                self.engine.remove_learners(shard, BTreeSet::from([node])).await?;
            }
            What::Lead(node) => self.hand_over(shard, node).await?,
        }
        Ok(())
    }

    /// Does something for which another node is needed, as long as that is up.
    async fn while_up<T>(&self, node: u64, work: impl Future<Output = T>) -> anyhow::Result<T> {
        let gone = async {
            let mut look = tokio::time::interval(LOOK_EVERY);
            while self.book.get(node).is_some_and(|known| known.is_up()) {
                look.tick().await;
            }
        };
        tokio::select! {
            done = work => Ok(done),
            () = gone => bail!("node {node} is not heard any more"),
        }
    }

    /// Hands a shard over to another node, which must have all of it: one that is asked too early
    /// does not lead, and as this one would not either, nobody did until an election. If the other
    /// does not get there soon, this node goes on.
    async fn hand_over(&self, shard: Shard, to: u64) -> anyhow::Result<()> {
        let standing = self.engine.standing(shard).context("this node has no replica of it")?;
        let progress = standing.replicas.get(&to).cloned().unwrap_or_default();
        if progress.silent.is_none_or(|silent| silent > HEARD_WITHIN) {
            bail!("node {to} is not heard");
        }
        let missing = standing.last.saturating_sub(progress.matched);
        if missing > BEHIND_MAX {
            bail!("node {to} has yet to get {missing} entries of shard {shard}");
        }
        let handle = self.shards.get(usize::from(shard)).context("there is no such shard")?;
        let begun = Instant::now();
        let giving = tokio::time::timeout(GIVE_AWAY_WITHIN, handle.give()).await;
        let _giving = giving.with_context(|| format!("shard {shard} is busy"))?;
        let stopped = begun.elapsed();
        let level = self.engine.wait_until_level(shard, to, LEVEL_WITHIN).await;
        level.with_context(|| format!("node {to} does not get the last of shard {shard}"))?;
        let level = begun.elapsed();
        self.engine.hand_over(shard, to).await?;
        let led = self.engine.wait_for_leader(shard, to, GIVE_AWAY_WITHIN).await;
        led.with_context(|| format!("node {to} did not take shard {shard} over"))?;
        tracing::debug!(shard, to, ?stopped, ?level, led = ?begun.elapsed(), "handed over");
        Ok(())
    }

    /// Gives away everything that this node leads, to voters that are up.
    pub(super) async fn give_away(&self) {
        let giving = self.engine.replicas().into_iter().filter_map(|shard| {
            let standing = self.engine.standing(shard)?;
            if standing.leader != Some(self.identity.node) {
                return None;
            }
            let up = |node: &&u64| {
                let known = self.book.get(**node);
                known.is_some_and(|known| {
                    known.is_up() && !known.heard.is_some_and(|(_, said)| said.stopping)
                })
            };
            let mut voters: Vec<u64> = standing.voters.iter().filter(up).copied().collect();
            // The one that has most of it, and not the same one for all shards.
            voters.sort_by_key(|node| {
                let matched = standing.replicas.get(node).map_or(0, |progress| progress.matched);
                (std::cmp::Reverse(matched), node.wrapping_add(u64::from(shard)) % 7)
            });
            Some(async move {
                for to in voters {
                    match self.hand_over(shard, to).await {
                        Ok(()) => return,
                        Err(error) => tracing::warn!(shard, "not handed over: {error:#}"),
                    }
                }
            })
        });
        join_all(giving.collect::<Vec<_>>()).await;
    }
}

/// Whether a node is to have a replica.
#[derive(Clone, Copy, Debug)]
enum Wanted {
    Yes,
    /// Not since this entry of the shard's log, which says who takes part.
    No {
        without: u64,
    },
}

/// How the replicas of all shards stand, as whoever leads each of them says.
fn standing(said: &[(Instant, Said)]) -> Vec<SaidOfReplica> {
    let mut newest: BTreeMap<Shard, (bool, &SaidOfReplica)> = BTreeMap::new();
    for (_, said) in said {
        for replica in &said.replicas {
            let leads = replica.leader == Some(said.row.node);
            let place = newest.get(&replica.shard);
            let better = place.is_none_or(|(led, other)| {
                (replica.term, leads, replica.last) > (other.term, *led, other.last)
            });
            if better {
                newest.insert(replica.shard, (leads, replica));
            }
        }
    }
    newest.into_values().map(|(_, replica)| replica.clone()).collect()
}

/// The replicas of nodes that were heard just now which follow whoever leads and have applied nearly
/// all that there is.
fn level(said: &[(Instant, Said)], standing: &[SaidOfReplica]) -> BTreeSet<(u64, Shard)> {
    let newest: BTreeMap<Shard, &SaidOfReplica> =
        standing.iter().map(|replica| (replica.shard, replica)).collect();
    let near = |replica: &&SaidOfReplica| {
        newest.get(&replica.shard).is_some_and(|newest| {
            (replica.term, replica.leader) == (newest.term, newest.leader)
                && replica.behind <= BEHIND_MAX
        })
    };
    let lately = said.iter().filter(|(at, _)| at.elapsed() <= HEARD_WITHIN).map(|(_, said)| said);
    // One that catches up with other shards has its hands full.
    let free = lately.filter(|said| said.replicas.iter().all(|replica| !replica.is_far_behind()));
    let near = free.flat_map(|said| {
        said.replicas.iter().filter(near).map(|replica| (said.row.node, replica.shard))
    });
    near.collect()
}
