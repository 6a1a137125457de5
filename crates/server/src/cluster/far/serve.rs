//! Telling other nodes the rows that they ask for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bellwether_core::waist::{Shard, StoreError, View};
use bellwether_protocol::node::v1;
use bellwether_protocol::node::v1::rows_server::{Rows, RowsServer};
use bellwether_store::Engine;
use tonic::{Request, Response, Status};

use crate::cluster::wire::WireError;
use crate::cluster::wire::ask::decode_shard;
use crate::cluster::wire::rows::{
    Page, Question, Scan, State, Told, decode_get, decode_scan, encode_held, encode_page,
    encode_values,
};
use crate::cluster::{Cluster, MESSAGE_MAX};

/// Rows that are told at once.
const ROWS_MAX: usize = 2_048;
/// Bytes after which the rest has to be asked for.
const BYTES_MAX: usize = 1 << 20;
/// How long a replica that is behind is waited for.
const CATCH_UP_WITHIN: Duration = Duration::from_secs(1);

/// What other nodes may ask for.
#[must_use]
pub fn rows_service(cluster: Arc<Cluster>) -> RowsServer<Service> {
    RowsServer::new(Service(cluster))
        .max_decoding_message_size(MESSAGE_MAX)
        .max_encoding_message_size(MESSAGE_MAX)
}

/// Answers other nodes.
pub struct Service(Arc<Cluster>);

impl Cluster {
    /// Answers a question from the own replica.
    pub(super) async fn tell_rows(
        &self,
        shard: Shard,
        state: State,
        question: Question,
    ) -> Result<Told, StoreError> {
        let view = match state {
            State::Held(number) => self.far.held(number, shard).ok_or("it is kept no longer"),
            State::AtLeast(index) => self.show(shard, index).await,
        };
        let view = match view {
            Ok(view) => view,
            Err(why) => return Ok(Told::NotHere(why.to_owned())),
        };
        if matches!(question, Question::Hold) {
            let held = self.far.hold(shard, view);
            let full = || Told::NotHere("too much is kept already".to_owned());
            return Ok(held.map_or_else(full, Told::Held));
        }
        let reading = tokio::task::spawn_blocking(move || read(&*view, shard, question));
        reading.await.unwrap_or_else(|_| Err(StoreError::Failed("reading failed".to_owned())))
    }

    /// The newest state of a shard, if that is as far as an entry of its log, or could be: of one that
    /// a leader had not passed on when it was replaced nobody was told.
    async fn show(&self, shard: Shard, index: u64) -> Result<Arc<dyn View>, &'static str> {
        let here = self.far.is_here(shard) || self.is_readable(shard);
        let standing = self.engine.standing(shard).filter(|_| here);
        let standing = standing.ok_or("there is no replica here that can be read")?;
        if standing.applied < index {
            let index = match standing.leader == Some(self.identity.node) {
                true => {
                    let sure = self.engine.read_point(shard).await;
                    sure.map_err(|_| "nobody confirms that this node leads")?.min(index)
                }
                false => index,
            };
            let caught_up = self.engine.applied_to(shard, index, CATCH_UP_WITHIN).await;
            caught_up.map_err(|_| "the replica is behind")?;
        }
        let view = self.engine.view();
        self.engine.has(shard).then_some(view).ok_or("the replica is gone")
    }
}

fn read(view: &dyn View, shard: Shard, question: Question) -> Result<Told, StoreError> {
    let of_shard = |key: &[u8]| key.starts_with(&shard.to_be_bytes());
    match question {
        Question::Get(keys) => {
            let (mut values, mut bytes) = (Vec::with_capacity(keys.len()), 0);
            for (family, key) in keys {
                if bytes >= BYTES_MAX {
                    break;
                }
                let value = if of_shard(&key) { view.get(family, &key)? } else { None };
                bytes += value.as_ref().map_or(0, |value| value.len());
                values.push(value);
            }
            Ok(Told::Values(values))
        }
        Question::Scan(scan) if of_shard(&scan.from) => page(view, &scan).map(Told::Page),
        Question::Scan(_) => Ok(Told::Page(Page { rows: Vec::new(), complete: true })),
        Question::Hold => Ok(Told::NotHere("nothing to read".to_owned())),
    }
}

fn page(view: &dyn View, scan: &Scan) -> Result<Page, StoreError> {
    let rows_max = (scan.rows_max as usize).clamp(1, ROWS_MAX);
    let mut from = match scan.back {
        true => view.scan_back(scan.family, &scan.from, &scan.to),
        false => view.scan(scan.family, &scan.from, &scan.to),
    };
    let (mut rows, mut bytes) = (Vec::new(), 0);
    while rows.len() < rows_max && bytes < BYTES_MAX {
        let Some(row) = from.next() else { return Ok(Page { rows, complete: true }) };
        let (key, value) = row?;
        bytes += key.len() + value.len();
        rows.push((key, value));
    }
    Ok(Page { rows, complete: false })
}

/// Whole milliseconds, and what is left of one counts as one.
fn ms_between(from: Instant, to: Instant) -> u64 {
    let ms = to.saturating_duration_since(from).as_millis() + 1;
    u64::try_from(ms).unwrap_or(u64::MAX)
}

fn malformed(error: WireError) -> Status {
    Status::invalid_argument(error.to_string())
}

impl Service {
    async fn tell<T>(
        &self,
        asked: Result<(Shard, State, Question), WireError>,
        encode: impl FnOnce(Told, Option<u64>) -> Option<T>,
    ) -> Result<Response<T>, Status> {
        let (shard, state, question) = asked.map_err(malformed)?;
        // What is read afterwards is as new as that, or newer.
        let level = self.0.known_levels().at(shard);
        let told = self.0.tell_rows(shard, state, question).await;
        let told = told.map_err(|error| Status::internal(error.to_string()))?;
        let level_ms = match state {
            State::AtLeast(_) => Some(level.map_or(u64::MAX, |at| ms_between(at, Instant::now()))),
            State::Held(_) => None,
        };
        let answer = encode(told, level_ms).map(Response::new);
        answer.ok_or_else(|| Status::internal("the answer does not fit"))
    }
}

#[tonic::async_trait]
impl Rows for Service {
    async fn get(
        &self,
        request: Request<v1::GetRequest>,
    ) -> Result<Response<v1::GetAnswer>, Status> {
        self.tell(decode_get(request.into_inner()), encode_values).await
    }

    async fn scan(
        &self,
        request: Request<v1::ScanRequest>,
    ) -> Result<Response<v1::ScanAnswer>, Status> {
        self.tell(decode_scan(request.into_inner()), encode_page).await
    }

    async fn hold(
        &self,
        request: Request<v1::HoldRequest>,
    ) -> Result<Response<v1::HoldAnswer>, Status> {
        let request = request.into_inner();
        let index = request.at_least.ok_or_else(|| Status::invalid_argument("of when?"))?;
        let shard = decode_shard("HoldRequest.shard", request.shard);
        let asked = shard.map(|shard| (shard, State::AtLeast(index), Question::Hold));
        self.tell(asked, encode_held).await
    }

    async fn release(
        &self,
        request: Request<v1::ReleaseRequest>,
    ) -> Result<Response<v1::ReleaseAnswer>, Status> {
        let number = request.into_inner().held;
        self.0.far.release(number.ok_or_else(|| Status::invalid_argument("what?"))?);
        Ok(Response::new(v1::ReleaseAnswer {}))
    }
}
