//! A server as one node of a cluster: what nodes say to one another.
//!
//! Each shard has its leader on one node; any node takes requests and workers, and passes what it
//! gets on to the node that leads the shard. Here is the language of that, in [`wire`]. Not here: how
//! shards are replicated, which is for `bellwether-raft`, and what a shard decides, which is for
//! `bellwether_core::turn`.

pub mod wire;
