//! Questions to the leader of a shard, and what became of them.

use bellwether_core::id::SHARDS_MAX;
use bellwether_core::turn::{Rejection, Reply};
use bellwether_core::waist::{Shard, StoreError};
use bellwether_protocol::node::v1::{self, ask_answer};

use super::{WireError, reply, required};
use crate::shard::Failure;

/// What became of a question.
#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    /// It was decided, and the decision is durable.
    Reply(Reply),
    /// It was refused, and changed nothing.
    Rejected(Rejection),
    /// The shard has more to do than it can; it was not decided.
    Overloaded,
    /// The shard is not running; it is unknown whether it was decided.
    Stopped,
    /// The node does not lead the shard; it was not decided.
    NotLeader {
        /// Who does, as far as that node knows.
        leader: Option<u64>,
    },
    /// The store has failed; it is unknown whether it was decided.
    StoreFailed(String),
}

/// What a shard of this node says. One that has been taken over is told apart from one whose store
/// has failed; that its leader is another one now is all it knows.
impl From<Result<Reply, Failure>> for Answer {
    fn from(result: Result<Reply, Failure>) -> Answer {
        match result {
            Ok(reply) => Answer::Reply(reply),
            Err(Failure::Rejected(rejection)) => Answer::Rejected(rejection),
            Err(Failure::Overloaded) => Answer::Overloaded,
            Err(Failure::NoLeader(_)) => Answer::NotLeader { leader: None },
            Err(Failure::Unknown(_) | Failure::Stopped | Failure::Store(StoreError::Closed)) => {
                Answer::Stopped
            }
            Err(Failure::Store(error)) => Answer::StoreFailed(error.to_string()),
        }
    }
}

/// A shard that a message names.
///
/// # Errors
/// When there is none of that number.
pub fn decode_shard(field: &'static str, number: Option<u32>) -> Result<Shard, WireError> {
    let number = required(field, number)?;
    let known = Shard::try_from(number).ok().filter(|shard| *shard < SHARDS_MAX);
    known.ok_or(WireError::UnknownValue { field, value: i64::from(number) })
}

/// An answer as a message.
#[must_use]
pub fn encode_answer(answer: &Answer) -> v1::AskAnswer {
    use ask_answer::Answer as Message;
    let answer = match answer {
        Answer::Reply(reply) => Message::Reply(reply::encode(reply)),
        Answer::Rejected(rejection) => Message::Rejection(reply::encode_rejection(rejection)),
        Answer::Overloaded => Message::Overloaded(v1::Nothing {}),
        Answer::Stopped => Message::Stopped(v1::Nothing {}),
        Answer::NotLeader { leader } => Message::NotLeader(v1::NotLeader { leader: *leader }),
        Answer::StoreFailed(message) => {
            Message::StoreFailed(v1::StoreFailed { message: Some(message.clone()) })
        }
    };
    v1::AskAnswer { answer: Some(answer) }
}

/// What became of a question.
///
/// # Errors
/// When it is not understood.
pub fn decode_answer(answer: v1::AskAnswer) -> Result<Answer, WireError> {
    use ask_answer::Answer as Message;
    match answer.answer.ok_or(WireError::UnknownKind("AskAnswer.answer"))? {
        Message::Reply(reply) => reply::decode(reply).map(Answer::Reply),
        Message::Rejection(rejection) => reply::decode_rejection(rejection).map(Answer::Rejected),
        Message::Overloaded(_) => Ok(Answer::Overloaded),
        Message::Stopped(_) => Ok(Answer::Stopped),
        Message::NotLeader(not) => Ok(Answer::NotLeader { leader: not.leader }),
        Message::StoreFailed(failed) => {
            required("StoreFailed.message", failed.message).map(Answer::StoreFailed)
        }
    }
}
