//! Creating a batch: its items are received, checked and stored chunk by chunk, and nothing is done
//! about any of them before all are there. So a batch is accepted as a whole or not at all, and a
//! million items need no more memory than a few thousand.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::{Body, BodyDataStream};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use bellwether_api::{Batch, NewBatch, Problem, Role};
use bellwether_core::batch::{CHUNK_BYTES, CHUNK_ITEMS, ITEMS_MAX};
use bellwether_core::id::BatchId;
use bellwether_core::read;
use bellwether_core::record::{self, BatchRow, Item};
use bellwether_core::turn::{BatchInput, Input, Reply};
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use xxhash_rust::xxh3::Xxh3;

use super::answer::{Answer, Refusal, blocking};
use super::extract::parse;
use super::{BATCH_BODY_MAX, jobs, present_batch};
use crate::access::Caller;
use crate::clock;
use crate::convert::{self, BatchHead};
use crate::node::Node;
use crate::shard::{Asked, ShardHandle};

/// Largest line.
const LINE_MAX: usize = 1024 * 1024;
/// Largest batch, all lines together.
const BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Whoever sends so slowly that nothing comes for so long has what there is stored, and is waited for.
const SLOW: Duration = Duration::from_secs(5);
/// Chunks that may be on their way to the disk while the next is read.
const ON_THE_WAY_MAX: usize = 4;

/// Creates a batch: as JSON, or as NDJSON whose first line is the batch without its items and each
/// further line an item. All of it is accepted, or nothing.
#[utoipa::path(post, path = "/v1/batches", tag = "batches", operation_id = "createBatch",
    request_body(
        content(
            (NewBatch = "application/json"),
            (String = "application/x-ndjson"),
        ),
        description = "Up to 1,000,000 items; as JSON up to 64 MiB",
    ),
    responses(
        (status = 201, description = "The new batch", body = Batch),
        (status = 200, description = "The batch, which was there already with the same key and content", body = Batch),
        (status = "default", description = "What is wrong", body = Problem, content_type = "application/problem+json"),
    ))]
pub async fn create(
    State(node): State<Arc<Node>>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Answer<(StatusCode, Json<Batch>)> {
    caller.need(Role::Editor)?;
    let kind = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("");
    let mut lines =
        Lines { body: body.into_data_stream(), rest: BytesMut::new(), number: 0, bytes: 0 };
    let ndjson = kind.contains("ndjson") || kind.contains("jsonl");
    let (request, items) = if ndjson {
        let Some((_, line)) = lines.next().await? else {
            let detail = "the body is empty; its first line is the batch without its items";
            return Err(Problem::new(400, "invalid_json", detail).into());
        };
        let request: NewBatch = parse(&line)?;
        if request.items.is_some() || request.jobs.is_some() {
            let detail = "with NDJSON, items are lines of their own after the first";
            return Err(Problem::new(422, "conflicting_fields", detail).at("items").into());
        }
        (request, Items::Lines(lines))
    } else {
        let body = lines.all().await?;
        let mut request: NewBatch = blocking(move || parse(&body)).await?;
        let name = if request.template.is_some() { "items" } else { "jobs" };
        let items = given_items(&mut request)?;
        (request, Items::Given(name, items.into_iter().enumerate()))
    };
    let head = head(&node, &caller, request)?;
    let (id, new) = receive(&node, &caller, head, items).await?;
    let batch = read::batch(&*node.view(), &node.shard_numbers(), id)?
        .ok_or_else(|| Problem::new(500, "bug", "the batch is gone"))?;
    let status = if new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(present_batch::batch(&batch)?)))
}

type Raw = Box<serde_json::value::RawValue>;

/// The items of a batch that came as one JSON document.
fn given_items(request: &mut NewBatch) -> Answer<Vec<Raw>> {
    let has_template = request.template.is_some();
    match (request.items.take(), request.jobs.take()) {
        (Some(items), None) if has_template => Ok(items),
        (None, Some(jobs)) if !has_template => Ok(jobs),
        (Some(_), None) => {
            let detail = "items need a `template`; or give whole `jobs`";
            Err(Problem::new(422, "missing_field", detail).at("template").into())
        }
        (None, Some(_)) => {
            let detail = "a `template` goes with `items`, not with whole `jobs`";
            Err(Problem::new(422, "conflicting_fields", detail).at("jobs").into())
        }
        (Some(_), Some(_)) => {
            let detail = "give `template` and `items`, or `jobs`, not both";
            Err(Problem::new(422, "conflicting_fields", detail).at("jobs").into())
        }
        (None, None) => Ok(Vec::new()),
    }
}

fn head(node: &Node, caller: &Caller, mut request: NewBatch) -> Answer<BatchHead> {
    if request.namespace.is_none() {
        request.namespace.clone_from(&caller.namespace);
    }
    let mut head = convert::batch_head(request, clock::now())?;
    let namespace = head.row.namespace_name().to_owned();
    caller.need_namespace(&namespace)?;
    head.row.created_by.clone_from(&caller.name);
    if let Some(name) = &head.on_complete {
        let job = jobs::find(node, caller, name, Some(&namespace)).map_err(|refusal| {
            let problem = *refusal.0;
            let status = if problem.status == 404 { 422 } else { problem.status };
            Problem { status, ..problem }.at("on_complete")
        })?;
        head.row.on_complete = job.id.0;
    }
    Ok(head)
}

/// Receives all items. When it returns, the batch is durable and will be carried out.
async fn receive(
    node: &Arc<Node>,
    caller: &Caller,
    head: BatchHead,
    mut items: Items,
) -> Answer<(BatchId, bool)> {
    let namespace = head.row.namespace_name();
    let home = match head.row.key.as_str() {
        "" => node.any_shard(),
        key => node.shard_of_name(namespace, key),
    };
    let begin = BatchInput::Begin { row: Box::new(head.row.clone()) };
    let begin = Input::Batch { batch: BatchId(0), input: Box::new(begin) };
    let Reply::Batch { batch: id, new } = home.ask(begin).await? else {
        return Err(Problem::new(500, "bug", "a shard gave an answer that does not fit").into());
    };
    let head = Arc::new(head);
    let mut intake = Intake { home, id, new, chunks: 0, on_the_way: VecDeque::new() };
    if new {
        node.batches.see_to(node, id); // Should the rest never come, it is thrown away.
    }
    let mut hash = Xxh3::new();
    // Who sends it does not matter.
    let anonymous = BatchRow { created_by: String::new(), ..head.row.clone() };
    hash.update(&record::encode(&anonymous));
    let taken = take_all(&mut intake, &head, &mut items, &mut hash).await;
    let taken = match taken {
        Ok(0) => Err(no_items()),
        other => other,
    };
    if let Err(refusal) = taken {
        intake.discard().await;
        return Err(refusal);
    }
    let hash = Bytes::copy_from_slice(&hash.digest128().to_be_bytes());
    if new {
        intake.accept(&caller.name, hash).await?;
    } else {
        same_or_conflict(node, id, &head, &hash)?;
    }
    Ok((id, new))
}

fn no_items() -> Refusal {
    Problem::new(422, "missing_field", "the batch has no items").at("items").into()
}

fn same_or_conflict(node: &Node, id: BatchId, head: &BatchHead, hash: &Bytes) -> Answer<()> {
    let stored = read::batch(&*node.view(), &node.shard_numbers(), id)?;
    if stored.is_some_and(|stored| stored.row.hash == *hash) {
        return Ok(());
    }
    let detail = format!(
        "the key '{}' belongs to {id}, which was created with other content; choose another key",
        head.row.key
    );
    Err(Problem::new(409, "key_exists", detail).at("key").into())
}

/// Takes all items, checks them, and passes them on. How many there were.
async fn take_all(
    intake: &mut Intake<'_>,
    head: &Arc<BatchHead>,
    items: &mut Items,
    hash: &mut Xxh3,
) -> Answer<u64> {
    let mut count = 0;
    loop {
        // A member holds the template as well as its item.
        let Some(chunk) = items.chunk(head.row.template.len()).await? else {
            return Ok(count);
        };
        count += chunk.len() as u64;
        if count > ITEMS_MAX {
            let detail = format!("a batch has at most {ITEMS_MAX} items; send several batches");
            return Err(Problem::new(413, "batch_too_large", detail).at("items").into());
        }
        let (head, name) = (head.clone(), items.name());
        let checked = blocking(move || check(&head, chunk, name)).await?;
        for item in &checked {
            hash.update(&(item.data.len() as u64).to_be_bytes());
            hash.update(&[u8::from(item.is_text)]);
            hash.update(&item.data);
        }
        intake.pass_on(checked).await?;
    }
}

fn check(head: &BatchHead, chunk: Vec<(usize, Bytes)>, name: Name) -> Answer<Vec<Item>> {
    let now = clock::now();
    let checked = chunk.into_iter().map(|(number, json)| {
        convert::batch_item(head, &json, now).map_err(|problem| {
            let place = name.of(number);
            let detail = format!("{place}: {}", problem.detail);
            Refusal::from(Problem { detail, ..problem }.at(place))
        })
    });
    checked.collect()
}

/// A batch that is being stored.
struct Intake<'a> {
    home: &'a ShardHandle,
    id: BatchId,
    /// Whether it is new: otherwise items are only compared with what is there.
    new: bool,
    chunks: u32,
    on_the_way: VecDeque<Asked>,
}

impl Intake<'_> {
    fn input(&self, input: BatchInput) -> Input {
        Input::Batch { batch: self.id, input: Box::new(input) }
    }

    async fn pass_on(&mut self, items: Vec<Item>) -> Answer<()> {
        if !self.new {
            return Ok(());
        }
        let more = u32::from(!items.is_empty());
        let input = self.input(BatchInput::Receive { chunk: self.chunks, items });
        self.chunks += more;
        self.on_the_way.push_back(self.home.ask_later(input)?);
        while self.on_the_way.len() > ON_THE_WAY_MAX {
            self.arrived().await?;
        }
        Ok(())
    }

    async fn arrived(&mut self) -> Answer<()> {
        if let Some(asked) = self.on_the_way.pop_front() {
            asked.answer().await?;
        }
        Ok(())
    }

    async fn accept(&mut self, actor: &str, hash: Bytes) -> Answer<()> {
        while !self.on_the_way.is_empty() {
            self.arrived().await?;
        }
        self.home.ask(self.input(BatchInput::Accept { actor: actor.to_owned(), hash })).await?;
        Ok(())
    }

    /// Throws away what has been stored. If this fails, it is done a minute later.
    async fn discard(&mut self) {
        if !self.new {
            return;
        }
        while let Ok(Reply::More(true)) =
            self.home.ask(self.input(BatchInput::Discard { only_if_stale: false })).await
        {}
    }
}

/// How items are called in messages.
#[derive(Clone, Copy)]
enum Name {
    Line,
    In(&'static str),
}

impl Name {
    fn of(self, number: usize) -> String {
        match self {
            Name::Line => format!("line {number}"),
            Name::In(list) => format!("{list}[{number}]"),
        }
    }
}

/// Where items come from.
enum Items {
    Lines(Lines),
    /// And what the list is called.
    Given(&'static str, std::iter::Enumerate<std::vec::IntoIter<Raw>>),
}

impl Items {
    fn name(&self) -> Name {
        match self {
            Items::Lines(_) => Name::Line,
            Items::Given(list, _) => Name::In(list),
        }
    }

    /// The next items with their numbers, as many as make a chunk if each comes with so many bytes
    /// more; fewer, or none, if they come slowly. `None` if there are no more.
    async fn chunk(&mut self, more: usize) -> Answer<Option<Vec<(usize, Bytes)>>> {
        let mut chunk = Vec::new();
        let mut bytes = 0;
        while chunk.len() < CHUNK_ITEMS && bytes < CHUNK_BYTES {
            let next = match self {
                Items::Lines(lines) => match tokio::time::timeout(SLOW, lines.next()).await {
                    Ok(next) => next?,
                    Err(_) => return Ok(Some(chunk)),
                },
                Items::Given(_, items) => {
                    items.next().map(|(at, raw)| (at, Bytes::from(String::from(raw.get()))))
                }
            };
            let Some((number, item)) = next else {
                return Ok((!chunk.is_empty()).then_some(chunk));
            };
            bytes += item.len() + more;
            chunk.push((number, item));
        }
        Ok(Some(chunk))
    }
}

/// A body in lines, as they come.
struct Lines {
    body: BodyDataStream,
    rest: BytesMut,
    number: usize,
    bytes: u64,
}

impl Lines {
    /// The next line that is not empty, and its number from 1.
    async fn next(&mut self) -> Answer<Option<(usize, Bytes)>> {
        let mut looked = 0;
        loop {
            let end = self.rest[looked..].iter().position(|byte| *byte == b'\n');
            let line = match end {
                Some(at) => self.rest.split_to(looked + at + 1),
                None => {
                    looked = self.rest.len();
                    if looked > LINE_MAX {
                        let detail = format!("line {} is longer than 1 MiB", self.number + 1);
                        return Err(Problem::new(413, "body_too_large", detail).into());
                    }
                    match self.more().await? {
                        true => continue,
                        false if self.rest.is_empty() => return Ok(None),
                        false => self.rest.split(),
                    }
                }
            };
            self.number += 1;
            looked = 0;
            if !line.iter().all(u8::is_ascii_whitespace) {
                return Ok(Some((self.number, line.freeze())));
            }
        }
    }

    async fn more(&mut self) -> Answer<bool> {
        match self.body.next().await {
            Some(Ok(bytes)) => {
                self.bytes += bytes.len() as u64;
                if self.bytes > BYTES_MAX {
                    let detail = "a batch has at most 1 GiB; send several batches";
                    return Err(Problem::new(413, "body_too_large", detail).into());
                }
                self.rest.extend_from_slice(&bytes);
                Ok(true)
            }
            Some(Err(error)) => Err(Problem::new(400, "body_unreadable", error.to_string()).into()),
            None => Ok(false),
        }
    }

    /// Everything at once.
    async fn all(mut self) -> Answer<Bytes> {
        while self.more().await? {
            if self.rest.len() > BATCH_BODY_MAX {
                let detail = "the body is larger than 64 MiB; send the items as NDJSON lines";
                return Err(Problem::new(413, "body_too_large", detail).into());
            }
        }
        Ok(self.rest.freeze())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[tokio::test]
    async fn r58_a_chunk_is_bounded_by_what_its_members_will_take() {
        let items = |count| {
            let item = || serde_json::value::to_raw_value("x").unwrap();
            let items: Vec<Raw> = (0..count).map(|_| item()).collect();
            Items::Given("items", items.into_iter().enumerate())
        };
        let mut small = items(CHUNK_ITEMS + 1);
        assert_eq!(small.chunk(0).await.unwrap().unwrap().len(), CHUNK_ITEMS);
        assert_eq!(small.chunk(0).await.unwrap().unwrap().len(), 1);
        assert!(small.chunk(0).await.unwrap().is_none());
        let mut large = items(10);
        assert_eq!(large.chunk(CHUNK_BYTES / 3).await.unwrap().unwrap().len(), 3);
        assert_eq!(large.chunk(CHUNK_BYTES * 2).await.unwrap().unwrap().len(), 1);
    }
}
