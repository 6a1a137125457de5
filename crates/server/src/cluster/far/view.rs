//! A view of all shards: of those that this node has a replica of as the replica shows them, of
//! others as another node does.
//!
//! What is here is from one moment. What is elsewhere is not, unless it is [held](FarView::held), but
//! it never changes once it has been seen, and a scan goes on from the last key wherever that is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use bellwether_core::waist::{Family, Row, Rows, Shard, StoreError, View};
use bytes::Bytes;
use futures::future::try_join_all;
use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::known::{Known, Span};
use crate::cluster::Cluster;
use crate::cluster::wire::rows::{Page, Question, Scan, State, Told};

/// Rows that the first page of a scan has at most; every other one has more.
const ROWS_FIRST: u32 = 128;
/// Rows that a page has at most.
const ROWS_MAX: u32 = 2_048;
/// Keys that are asked for at once.
const KEYS_MAX: usize = 1_024;

/// A state of a shard that another node keeps.
#[derive(Clone, Copy, Debug)]
pub struct HeldAt {
    /// Which node.
    pub node: u64,
    /// Under which number.
    pub number: u64,
}

/// A view of all shards.
pub struct FarView {
    cluster: Arc<Cluster>,
    local: Arc<dyn View>,
    /// The shards that are read from the replicas of this node.
    here: Arc<BTreeSet<Shard>>,
    held: Option<HeldAt>,
    /// If it is for a list, as of when all that it was told by other nodes is true.
    level: Option<Mutex<Instant>>,
    known: Mutex<Known>,
    /// Shards that could not be reached: that is not waited for twice.
    failed: Mutex<BTreeSet<Shard>>,
    runtime: Handle,
}

impl FarView {
    /// The newest state of all shards. To be called within a runtime that has several threads.
    pub fn new(cluster: Arc<Cluster>, local: Arc<dyn View>, here: Arc<BTreeSet<Shard>>) -> FarView {
        FarView {
            cluster,
            local,
            here,
            held: None,
            level: None,
            known: Mutex::default(),
            failed: Mutex::default(),
            runtime: Handle::current(),
        }
    }

    /// The same for a list: nothing in it is further behind than lists may be.
    pub fn for_list(
        cluster: Arc<Cluster>,
        local: Arc<dyn View>,
        here: Arc<BTreeSet<Shard>>,
    ) -> FarView {
        let mut view = FarView::new(cluster, local, here);
        view.level = Some(Mutex::new(Instant::now()));
        view
    }

    /// As of when all that other nodes have told it is true, if it is for a list.
    pub fn level(&self) -> Option<Instant> {
        self.level.as_ref().map(|level| *level.lock())
    }

    /// A shard as another node keeps it, until this is dropped.
    pub fn held(cluster: Arc<Cluster>, local: Arc<dyn View>, held: HeldAt) -> FarView {
        let mut view = FarView::new(cluster, local, Arc::default());
        view.held = Some(held);
        view
    }

    /// The shard of a key, if it is elsewhere.
    fn far(&self, key: &[u8]) -> Option<Shard> {
        let shard = Shard::from_be_bytes(*key.first_chunk::<2>()?);
        (!self.here.contains(&shard)).then_some(shard)
    }

    /// Waits for another node. Whoever reads on a thread that serves requests makes it one that
    /// waits, and another takes over what else it had to do.
    fn wait<T>(&self, asking: impl Future<Output = T>) -> T {
        tokio::task::block_in_place(|| self.runtime.block_on(asking))
    }

    async fn ask(&self, shard: Shard, question: Question) -> Result<Told, StoreError> {
        if self.failed.lock().contains(&shard) {
            return Err(StoreError::Unreachable { shard });
        }
        let told = match self.held {
            None => {
                let asked = self.cluster.ask_any(shard, &question, self.level.is_some()).await;
                asked.map(|answered| {
                    if let (Some(level), Some(at)) = (&self.level, answered.level) {
                        let mut level = level.lock();
                        *level = at.min(*level);
                    }
                    answered.told
                })
            }
            Some(HeldAt { node, number }) => {
                self.cluster.ask_one(node, shard, State::Held(number), &question).await
            }
        };
        if told.is_err() {
            self.failed.lock().insert(shard);
        }
        told
    }

    /// Fetches the values of keys of one shard.
    async fn fetch(&self, shard: Shard, keys: Vec<(Family, Bytes)>) -> Result<(), StoreError> {
        let mut left = &keys[..];
        while !left.is_empty() {
            let asked = left[..left.len().min(KEYS_MAX)].to_vec();
            let values = match self.ask(shard, Question::Get(asked)).await? {
                Told::Values(values) if !values.is_empty() && values.len() <= left.len() => values,
                other => return Err(unfit(shard, &other)),
            };
            let mut known = self.known.lock();
            let (answered, rest) = left.split_at(values.len());
            for ((family, key), value) in answered.iter().zip(values) {
                known.put(*family, key.clone(), value);
            }
            left = rest;
        }
        Ok(())
    }

    /// Fetches rows of a range.
    fn page(&self, shard: Shard, scan: Scan) -> Result<Span, StoreError> {
        let (family, back) = (scan.family, scan.back);
        let (from, to) = (scan.from.clone(), scan.to.clone());
        let told = self.wait(self.ask(shard, Question::Scan(scan)))?;
        let Told::Page(Page { mut rows, complete }) = told else { return Err(unfit(shard, &told)) };
        if back {
            rows.reverse();
        }
        let within = |(key, _): &Row| from <= *key && *key < to;
        let ascends = rows.is_sorted_by(|(one, _), (next, _)| one < next);
        if !ascends || !rows.iter().all(within) || (rows.is_empty() && !complete) {
            return Err(StoreError::Failed(format!("rows of shard {shard} came in disorder")));
        }
        let (from, to) = match (complete, back) {
            (true, _) => (from, to),
            (false, true) => (rows.first().map_or(from, |(key, _)| key.clone()), to),
            (false, false) => (from, rows.last().map_or(to, |(key, _)| after(key))),
        };
        let span = Span { from, to, rows: Arc::new(rows) };
        self.known.lock().put_span(family, span.clone());
        Ok(span)
    }

    fn rows(&self, family: Family, from: &[u8], to: &[u8], back: bool) -> Option<FarRows<'_>> {
        let shard = self.far(from)?;
        Some(FarRows {
            view: self,
            shard,
            family,
            from: Bytes::copy_from_slice(from),
            to: Bytes::copy_from_slice(to),
            back,
            rows_max: ROWS_FIRST,
            rows: Arc::default(),
            ready: 0..0,
        })
    }
}

fn unfit(shard: Shard, told: &Told) -> StoreError {
    StoreError::Failed(format!("an answer about shard {shard} does not fit: {told:?}"))
}

/// The first key after one.
fn after(key: &Bytes) -> Bytes {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next.into()
}

impl Drop for FarView {
    fn drop(&mut self) {
        if let Some(HeldAt { node, number }) = self.held {
            let cluster = self.cluster.clone();
            self.runtime.spawn(async move { cluster.release(node, number).await });
        }
    }
}

impl View for FarView {
    fn get(&self, family: Family, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let Some(shard) = self.far(key) else { return self.local.get(family, key) };
        if let Some(value) = self.known.lock().get(family, key) {
            return Ok(value);
        }
        let wanted = (family, Bytes::copy_from_slice(key));
        let question = Question::Get(vec![wanted.clone()]);
        match self.wait(self.ask(shard, question))? {
            Told::Values(mut values) if values.len() == 1 => {
                let value = values.pop().flatten();
                self.known.lock().put(wanted.0, wanted.1, value.clone());
                Ok(value)
            }
            other => Err(unfit(shard, &other)),
        }
    }

    fn scan<'a>(&'a self, family: Family, from: &[u8], to: &[u8]) -> Rows<'a> {
        match self.rows(family, from, to, false) {
            Some(rows) => Box::new(rows),
            None => self.local.scan(family, from, to),
        }
    }

    fn scan_back<'a>(&'a self, family: Family, from: &[u8], to: &[u8]) -> Rows<'a> {
        match self.rows(family, from, to, true) {
            Some(rows) => Box::new(rows),
            None => self.local.scan_back(family, from, to),
        }
    }

    fn is_far(&self) -> bool {
        true
    }

    fn foresee(&self, keys: &[(Family, Bytes)]) -> Result<(), StoreError> {
        let mut wanted: BTreeMap<Shard, Vec<(Family, Bytes)>> = BTreeMap::new();
        {
            let known = self.known.lock();
            for (family, key) in keys {
                if let Some(shard) = self.far(key)
                    && known.get(*family, key).is_none()
                {
                    wanted.entry(shard).or_default().push((*family, key.clone()));
                }
            }
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let fetching = wanted.into_iter().map(|(shard, mut keys)| {
            keys.sort_unstable();
            keys.dedup();
            self.fetch(shard, keys)
        });
        self.wait(try_join_all(fetching)).map(drop)
    }
}

/// Rows of a range of a shard that is elsewhere.
struct FarRows<'a> {
    view: &'a FarView,
    shard: Shard,
    family: Family,
    /// What is left of the range, besides the rows that are ready.
    from: Bytes,
    to: Bytes,
    back: bool,
    /// How many rows the next page may have.
    rows_max: u32,
    rows: Arc<Vec<Row>>,
    /// Those of the rows that are yet to be given out.
    ready: std::ops::Range<usize>,
}

impl FarRows<'_> {
    fn fill(&mut self) -> Result<(), StoreError> {
        let known = {
            let known = self.view.known.lock();
            let span = match self.back {
                true => known.before(self.family, &self.to),
                false => known.from(self.family, &self.from),
            };
            span.cloned()
        };
        let span = match known {
            Some(span) => span,
            None => {
                let scan = Scan {
                    family: self.family,
                    from: self.from.clone(),
                    to: self.to.clone(),
                    back: self.back,
                    rows_max: self.rows_max,
                };
                self.rows_max = (self.rows_max * 4).min(ROWS_MAX);
                self.view.page(self.shard, scan)?
            }
        };
        let below = |limit: &Bytes| span.rows.partition_point(|(key, _)| key < limit);
        self.ready = below(&self.from)..below(&self.to);
        self.rows = span.rows;
        match self.back {
            true => self.to = span.from,
            false => self.from = span.to,
        }
        Ok(())
    }
}

impl Iterator for FarRows<'_> {
    type Item = Result<Row, StoreError>;

    fn next(&mut self) -> Option<Result<Row, StoreError>> {
        loop {
            let at = if self.back { self.ready.next_back() } else { self.ready.next() };
            if let Some(at) = at {
                return Some(Ok(self.rows[at].clone()));
            }
            if self.from >= self.to {
                return None;
            }
            if let Err(error) = self.fill() {
                self.to = self.from.clone();
                return Some(Err(error));
            }
        }
    }
}
