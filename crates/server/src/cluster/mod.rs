//! This node's part in a cluster.

mod identity;

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
