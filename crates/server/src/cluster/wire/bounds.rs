//! What shards and whoever keeps the bounds of queues say to one another.

use bellwether_core::bounds::{Answer, Ask, Left, Want};
use bellwether_core::time::Time;
use bellwether_core::waist::Term;
use bellwether_protocol::node::v1;

use super::ask::decode_shard;
use super::{WireError, required};

/// Asks as a message to the keeper of a term.
#[must_use]
pub fn encode_asks(keeper: Term, asks: &[Ask]) -> v1::BoundRequest {
    let want = |want: &Want| v1::BoundWant {
        under_way: Some(want.under_way),
        ceiling: Some(want.ceiling),
        launched: Some(want.launched),
        launches: Some(want.launches),
        waiting: Some(want.waiting),
        rank: Some(want.first.0),
        scheduled_ms: Some(want.first.1.0),
        stuck: Some(want.stuck),
    };
    let ask = |ask: &Ask| v1::BoundAsk {
        shard: Some(u32::from(ask.shard)),
        term: Some(ask.term),
        queue: Some(ask.queue.clone()),
        seq: Some(ask.seq),
        wants: ask.wants.iter().map(|(name, of)| (name.clone(), want(of))).collect(),
    };
    v1::BoundRequest { keeper: Some(keeper), asks: asks.iter().map(ask).collect() }
}

/// Asks that a message stands for, and the term of the keeper that they are for.
///
/// # Errors
/// When it is not understood.
pub fn decode_asks(request: v1::BoundRequest) -> Result<(Term, Vec<Ask>), WireError> {
    let asks = request.asks.into_iter().map(decode_ask).collect::<Result<_, _>>()?;
    Ok((required("BoundRequest.keeper", request.keeper)?, asks))
}

fn decode_ask(ask: v1::BoundAsk) -> Result<Ask, WireError> {
    let want = |(name, want): (String, v1::BoundWant)| {
        let rank = required("BoundWant.rank", want.rank)?;
        let scheduled = Time(required("BoundWant.scheduled_ms", want.scheduled_ms)?);
        let want = Want {
            under_way: required("BoundWant.under_way", want.under_way)?,
            ceiling: required("BoundWant.ceiling", want.ceiling)?,
            launched: required("BoundWant.launched", want.launched)?,
            launches: required("BoundWant.launches", want.launches)?,
            waiting: required("BoundWant.waiting", want.waiting)?,
            first: (rank, scheduled),
            stuck: required("BoundWant.stuck", want.stuck)?,
        };
        Ok((name, want))
    };
    Ok(Ask {
        shard: decode_shard("BoundAsk.shard", ask.shard)?,
        term: required("BoundAsk.term", ask.term)?,
        queue: required("BoundAsk.queue", ask.queue)?,
        seq: required("BoundAsk.seq", ask.seq)?,
        wants: ask.wants.into_iter().map(want).collect::<Result<_, _>>()?,
    })
}

/// Answers as messages.
#[must_use]
pub fn encode_answers(answers: &[Answer]) -> Vec<v1::BoundLeft> {
    let part =
        |left: &Left| v1::BoundPart { ceiling: Some(left.ceiling), launches: Some(left.launches) };
    let answer = |answer: &Answer| v1::BoundLeft {
        shard: Some(u32::from(answer.shard)),
        term: Some(answer.term),
        queue: Some(answer.queue.clone()),
        seq: answer.seq,
        parts: answer.left.iter().map(|(name, left)| (name.clone(), part(left))).collect(),
    };
    answers.iter().map(answer).collect()
}

/// Answers that messages stand for.
///
/// # Errors
/// When they are not understood.
pub fn decode_answers(answers: Vec<v1::BoundLeft>) -> Result<Vec<Answer>, WireError> {
    let part = |(name, part): (String, v1::BoundPart)| {
        let left = Left {
            ceiling: required("BoundPart.ceiling", part.ceiling)?,
            launches: required("BoundPart.launches", part.launches)?,
        };
        Ok((name, left))
    };
    let answer = |answer: v1::BoundLeft| {
        Ok(Answer {
            shard: decode_shard("BoundLeft.shard", answer.shard)?,
            term: required("BoundLeft.term", answer.term)?,
            queue: required("BoundLeft.queue", answer.queue)?,
            seq: answer.seq,
            left: answer.parts.into_iter().map(part).collect::<Result<_, _>>()?,
        })
    };
    answers.into_iter().map(answer).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn what_is_asked_and_answered_arrives_as_it_was() {
        let want = Want {
            under_way: 1,
            ceiling: 2,
            launched: 3,
            launches: 4,
            waiting: 5,
            first: (-6, Time(7)),
            stuck: true,
        };
        let wants = BTreeMap::from([("a".to_owned(), want), (String::new(), Want::default())]);
        let asks = vec![Ask { shard: 8, term: 9, queue: "q".to_owned(), seq: 10, wants }];
        assert_eq!(decode_asks(encode_asks(11, &asks)).unwrap(), (11, asks));
        let left = BTreeMap::from([("a".to_owned(), Left { ceiling: 1, launches: 2 })]);
        let queue = "q".to_owned();
        let answer = Answer { shard: 3, term: 4, queue, seq: Some(5), left };
        let answers = vec![answer.clone(), Answer { seq: None, ..answer }];
        assert_eq!(decode_answers(encode_answers(&answers)).unwrap(), answers);
        assert!(decode_asks(v1::BoundRequest::default()).is_err());
        assert!(decode_answers(vec![v1::BoundLeft::default()]).is_err());
    }
}
