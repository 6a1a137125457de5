//! A server as one node of a cluster: who it is, and what nodes say to one another.
//!
//! Each shard has its leader on one node; any node takes requests and workers, and passes what it
//! gets on to the node that leads the shard. The language of that is in [`wire`]. Not here: how
//! shards are replicated, which is for `bellwether-raft`, and what a shard decides, which is for
//! `bellwether_core::turn`.

mod identity;
pub mod wire;

use bellwether_core::waist::Shard;
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::shard::{Afar, Item};

pub use identity::NodeIdentity;

/// There are no other nodes.
pub struct Alone;

impl Afar for Alone {
    fn bring(&self, _: Shard, items: Vec<Item>) -> BoxFuture<'_, Vec<Item>> {
        futures::future::ready(items).boxed()
    }
}
