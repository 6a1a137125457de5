//! Becoming a node of a cluster.
//!
//! The nodes that are named are asked one after the other, again and again: they may be starting as well.
//! Who is not let in hears why from every one of them. A node that is itself among those that are named
//! may be told that the cluster begins with it (`founding`).

use std::error::Error;
use std::io;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bellwether_core::record::{self, NodeRow};
use bellwether_protocol::node::v1;
use bellwether_protocol::node::v1::join_answer::Answer;
use bellwether_protocol::node::v1::nodes_client::NodesClient;
use bellwether_raft::net::Dialing;
use tonic::{Code, Status};

use super::NodeIdentity;
use super::founding::{Waiting, listed};
use crate::config::InvalidConfig;
use crate::peering::PeerAddress;

/// How long to go on asking, unless this node is named itself: then it is for the others to come.
const WITHIN: Duration = Duration::from_secs(60);
/// How long one node may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// How long to wait before they are asked again.
const AGAIN: Duration = Duration::from_millis(500);

/// What a node without data becomes.
pub enum Joined {
    /// The first of a new cluster.
    First,
    /// One of a cluster that is there, together with these.
    Member(NodeIdentity, Vec<NodeRow>),
}

/// What the library says when the other end has ended a connection because of what it was shown.
const ALERT: &str = "received fatal alert";

/// Asks the nodes of a list, one after the other, to let this process become a node, or for their word
/// that it may be the first. Those who have not as many shards as it is to have refuse it.
///
/// # Errors
/// When nobody can be reached, or they do not want it.
pub async fn join(
    own: &Waiting,
    dialing: &Dialing,
    row: &NodeRow,
    shards: Option<u16>,
) -> anyhow::Result<Joined> {
    let request = v1::JoinRequest {
        node: Some(record::encode(row)),
        version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        shards: shards.map(u32::from),
    };
    let others = own.others();
    if others.is_empty() {
        bail!(InvalidConfig(format!(
            "--join {} names this node alone: name the others as well, or leave it out to begin a \
             cluster with this one",
            listed(&own.nodes)
        )));
    }
    let begun = Instant::now();
    let mut told = String::new();
    loop {
        let mut answers = Vec::new();
        for address in &others {
            match ask(address, dialing, request.clone()).await? {
                Heard::Welcome(welcome) => return understand(welcome, row),
                heard => answers.push((*address, heard)),
            }
        }
        if own.begins(&waiting(&answers)) {
            return Ok(Joined::First);
        }
        let why = reasons(own, &answers);
        if answers.iter().all(|(_, heard)| matches!(heard, Heard::Refusal(_))) {
            bail!("this node is not let in: {why}");
        }
        if begun.elapsed() >= WITHIN && !own.is_listed() {
            bail!(
                "no node of a cluster has let this one in for {} s; --join takes the address on \
                 which a node listens for its peers (--peer-listen): {why}",
                begun.elapsed().as_secs()
            );
        }
        if why != told {
            tracing::info!("waiting to be let in: {why}");
            told = why;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

fn waiting<'a>(answers: &'a [(&'a PeerAddress, Heard)]) -> Vec<(&'a PeerAddress, &'a Waiting)> {
    let waits = |(address, heard): &'a (&'a PeerAddress, Heard)| match heard {
        Heard::Waiting(waiting) => Some((*address, waiting)),
        _ => None,
    };
    answers.iter().filter_map(waits).collect()
}

/// What one node said.
enum Heard {
    Welcome(v1::Welcome),
    /// It belongs to no cluster either.
    Waiting(Waiting),
    /// It does not know who could let this node in.
    NoLeader,
    /// It does not even listen, and will not as things are set up.
    Refusal(String),
    /// It did not answer, and may.
    Silence(String),
}

fn reasons(own: &Waiting, answers: &[(&PeerAddress, Heard)]) -> String {
    let reasons = answers.iter().map(|(address, heard)| match heard {
        Heard::Welcome(_) => format!("{address} lets it in"),
        Heard::Waiting(said) => match own.objection(address, said) {
            Some(why) if own.is_listed() => format!("{address} waits as well: {why}"),
            _ => format!("{address} waits as well"),
        },
        Heard::NoLeader => format!("{address} knows no leader"),
        Heard::Refusal(why) => format!("{address} refuses: {why}"),
        Heard::Silence(why) => format!("{address} does not answer: {why}"),
    });
    reasons.collect::<Vec<_>>().join("; ")
}

async fn ask(
    address: &PeerAddress,
    dialing: &Dialing,
    request: v1::JoinRequest,
) -> anyhow::Result<Heard> {
    let way = dialing.way(&address.to_string()).with_context(|| format!("--join {address}"))?;
    let mut way = NodesClient::new(way);
    let answer = match tokio::time::timeout(ANSWER_WITHIN, way.join(request)).await {
        Ok(Ok(answer)) => answer.into_inner().answer,
        Ok(Err(status)) => return Ok(not_heard(&status)),
        Err(_) => return Ok(Heard::Silence("nothing in time".to_owned())),
    };
    match answer {
        Some(Answer::Welcome(welcome)) => Ok(Heard::Welcome(welcome)),
        Some(Answer::Rejection(rejection)) => {
            let why = rejection.message.unwrap_or_default();
            bail!(InvalidConfig(format!("the cluster does not let this node in: {why}")))
        }
        Some(Answer::Waiting(said)) => Ok(match Waiting::decode(said) {
            Some(waiting) => Heard::Waiting(waiting),
            None => Heard::Silence("it says what is not understood".to_owned()),
        }),
        Some(Answer::NotLeader(_)) | None => Ok(Heard::NoLeader),
    }
}

/// Tells a node that does not know this one from one that is not there.
fn not_heard(status: &Status) -> Heard {
    if status.code() == Code::Unauthenticated {
        return Heard::Refusal(status.message().to_owned());
    }
    let mut why = status.message().to_owned();
    let mut next = status.source();
    while let Some(error) = next {
        if let Some(refused) = certificate_of(error) {
            return Heard::Refusal(format!(
                "its certificate is not one that --peer-ca vouches for ({refused})"
            ));
        }
        let text = error.to_string();
        // It comes after the handshake, as this end sees it, and is passed on as a text.
        if text.contains(ALERT) {
            return Heard::Refusal(format!(
                "it does not accept the certificate of this node ({text}); is --peer-cert from the \
                 cluster's own authority, and still good?"
            ));
        }
        if !why.contains(&text) {
            why = format!("{why}: {text}");
        }
        next = error.source();
    }
    Heard::Silence(why)
}

/// What is wrong with the other's certificate, if an error is about that.
fn certificate_of<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let inner = error.downcast_ref::<io::Error>()?.get_ref()?;
    let error = inner.downcast_ref::<rustls::Error>()?;
    matches!(error, rustls::Error::InvalidCertificate(_)).then_some(error)
}

fn understand(welcome: v1::Welcome, own: &NodeRow) -> anyhow::Result<Joined> {
    let identity = NodeIdentity {
        cluster: welcome.cluster.context("a cluster without an id")?,
        node: welcome.node.context("a node without a number")?,
        shards: welcome
            .shards
            .and_then(|n| n.try_into().ok())
            .context("a cluster without shards")?,
        founded: true,
        removed: false,
    };
    let nodes = welcome.nodes.into_iter().map(|bytes| record::decode("node", bytes));
    let nodes: Vec<NodeRow> = nodes.collect::<Result<_, _>>()?;
    let is_other = |row: &&NodeRow| row.peer_address != own.peer_address;
    if let Some(other) = nodes.iter().filter(is_other).find(|row| row.node == identity.node) {
        bail!(
            "the cluster gives this node the number {}, which '{}' at {} has, and that is a bug; \
             start it again with an empty data directory",
            identity.node,
            other.name,
            other.peer_address
        );
    }
    Ok(Joined::Member(identity, nodes))
}
