//! What is live on a node, as messages: news, and attempts that are given up.

use bellwether_core::id::RunId;
use bellwether_core::waist::Shard;
use bellwether_protocol::node::v1;

use super::ask::decode_shard;
use super::{WireError, decode_run, encode_run, notice, required};
use crate::node::News;

/// News as a message.
#[must_use]
pub fn encode_news(news: &News) -> v1::News {
    use v1::news::What;
    let what = match news {
        News::Run(run) => What::Run(notice::encode(run)),
        News::Held(held) => What::Held(notice::encode_held(held)),
        News::Missed(count) => What::Missed(*count),
    };
    v1::News { what: Some(what) }
}

/// The news that a message stands for.
///
/// # Errors
/// When it is not understood.
pub fn decode_news(news: v1::News) -> Result<News, WireError> {
    use v1::news::What;
    Ok(match news.what.ok_or(WireError::UnknownKind("News.what"))? {
        What::Run(run) => News::Run(Box::new(notice::decode(run)?)),
        What::Held(held) => News::Held(Box::new(notice::decode_held(held)?)),
        What::Missed(count) => News::Missed(count),
    })
}

/// A worker that a node has not heard for too long, and what it has of a shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GiveUp {
    /// The shard.
    pub shard: Shard,
    /// The worker.
    pub worker: String,
    /// The node that has not heard it.
    pub node: u64,
    /// How it is known, for people.
    pub detail: String,
    /// What it has.
    pub runs: Vec<(RunId, u64)>,
}

/// It as a message.
#[must_use]
pub fn encode_give_up(given: &GiveUp) -> v1::GiveUpRequest {
    let of = |(run, token): &(RunId, u64)| v1::GivenUp {
        run: Some(encode_run(*run)),
        token: Some(*token),
    };
    v1::GiveUpRequest {
        shard: Some(u32::from(given.shard)),
        worker: Some(given.worker.clone()),
        node: Some(given.node),
        detail: Some(given.detail.clone()),
        runs: given.runs.iter().map(of).collect(),
    }
}

/// What such a message stands for.
///
/// # Errors
/// When it is not understood.
pub fn decode_give_up(request: v1::GiveUpRequest) -> Result<GiveUp, WireError> {
    let run = |given: v1::GivenUp| {
        Ok((decode_run("GivenUp.run", given.run)?, required("GivenUp.token", given.token)?))
    };
    Ok(GiveUp {
        shard: decode_shard("GiveUpRequest.shard", request.shard)?,
        worker: required("GiveUpRequest.worker", request.worker)?,
        node: required("GiveUpRequest.node", request.node)?,
        detail: required("GiveUpRequest.detail", request.detail)?,
        runs: request.runs.into_iter().map(run).collect::<Result<_, WireError>>()?,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bellwether_core::id::JobId;

    use super::*;

    #[test]
    fn what_is_missing_or_not_known_is_refused() {
        let given = GiveUp {
            shard: 3,
            worker: "w".to_owned(),
            node: 2,
            detail: "silent".to_owned(),
            runs: vec![(RunId { job: JobId(7), n: 2 }, 9)],
        };
        let message = encode_give_up(&given);
        assert_eq!(decode_give_up(message.clone()).unwrap(), given);
        let nobody = v1::GiveUpRequest { worker: None, ..message };
        assert_eq!(decode_give_up(nobody), Err(WireError::Missing("GiveUpRequest.worker")));
        assert!(matches!(decode_news(encode_news(&News::Missed(4))), Ok(News::Missed(4))));
        assert!(decode_news(v1::News { what: None }).is_err());
    }
}
