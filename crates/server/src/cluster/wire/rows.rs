//! Questions about stored rows, and the answers.

use bellwether_core::waist::{Family, Row, Shard};
use bellwether_protocol::node::v1;
use bytes::Bytes;

use super::ask::decode_shard;
use super::{WireError, required};

/// In which state a shard is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// The newest that there is, with all that was in the log up to an entry.
    AtLeast(u64),
    /// As it was kept under a number.
    Held(u64),
}

/// What is asked of a shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Question {
    /// The values of keys.
    Get(Vec<(Family, Bytes)>),
    /// Rows of a range.
    Scan(Scan),
    /// That it be kept as it is.
    Hold,
}

/// A range of rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scan {
    /// Where.
    pub family: Family,
    /// First key of the range.
    pub from: Bytes,
    /// First key after it.
    pub to: Bytes,
    /// Whether to begin at its end.
    pub back: bool,
    /// How many rows at most.
    pub rows_max: u32,
}

/// Some rows of a range.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    /// In the order in which they were asked for.
    pub rows: Vec<Row>,
    /// Whether there are no more.
    pub complete: bool,
}

/// The answer to a question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Told {
    /// Values, for the first keys at least.
    Values(Vec<Option<Bytes>>),
    /// Rows.
    Page(Page),
    /// Under which number it is kept.
    Held(u64),
    /// Another node has to be asked, and why.
    NotHere(String),
}

fn decode_family(field: &'static str, number: Option<u32>) -> Result<Family, WireError> {
    let number = required(field, number)?;
    let known = usize::try_from(number).ok().and_then(|number| Family::ALL.get(number));
    known.copied().ok_or(WireError::UnknownValue { field, value: i64::from(number) })
}

fn encode_family(family: Family) -> Option<u32> {
    Some(family as u32)
}

fn encode_source(shard: Shard, state: State) -> Option<v1::RowSource> {
    use v1::row_source::State as Message;
    let state = match state {
        State::AtLeast(index) => Message::AtLeast(index),
        State::Held(number) => Message::Held(number),
    };
    Some(v1::RowSource { shard: Some(u32::from(shard)), state: Some(state) })
}

fn decode_source(source: Option<v1::RowSource>) -> Result<(Shard, State), WireError> {
    use v1::row_source::State as Message;
    let source = required("RowSource", source)?;
    let state = match source.state.ok_or(WireError::UnknownKind("RowSource.state"))? {
        Message::AtLeast(index) => State::AtLeast(index),
        Message::Held(number) => State::Held(number),
    };
    Ok((decode_shard("RowSource.shard", source.shard)?, state))
}

/// A question for values as a message.
#[must_use]
pub fn encode_get(shard: Shard, state: State, keys: &[(Family, Bytes)]) -> v1::GetRequest {
    let key = |(family, key): &(Family, Bytes)| v1::RowKey {
        family: encode_family(*family),
        key: Some(key.clone()),
    };
    v1::GetRequest { source: encode_source(shard, state), keys: keys.iter().map(key).collect() }
}

/// What a message asks.
///
/// # Errors
/// When it is not understood.
pub fn decode_get(request: v1::GetRequest) -> Result<(Shard, State, Question), WireError> {
    let (shard, state) = decode_source(request.source)?;
    let keys = request.keys.into_iter().map(|key| {
        let family = decode_family("RowKey.family", key.family)?;
        Ok((family, required("RowKey.key", key.key)?))
    });
    Ok((shard, state, Question::Get(keys.collect::<Result<_, WireError>>()?)))
}

/// A question for rows as a message.
#[must_use]
pub fn encode_scan(shard: Shard, state: State, scan: &Scan) -> v1::ScanRequest {
    v1::ScanRequest {
        source: encode_source(shard, state),
        family: encode_family(scan.family),
        from: Some(scan.from.clone()),
        to: Some(scan.to.clone()),
        back: Some(scan.back),
        rows_max: Some(scan.rows_max),
    }
}

/// What a message asks.
///
/// # Errors
/// When it is not understood.
pub fn decode_scan(request: v1::ScanRequest) -> Result<(Shard, State, Question), WireError> {
    let (shard, state) = decode_source(request.source)?;
    let scan = Scan {
        family: decode_family("ScanRequest.family", request.family)?,
        from: required("ScanRequest.from", request.from)?,
        to: required("ScanRequest.to", request.to)?,
        back: required("ScanRequest.back", request.back)?,
        rows_max: required("ScanRequest.rows_max", request.rows_max)?,
    };
    Ok((shard, state, Question::Scan(scan)))
}

fn not_here(why: String) -> v1::NotHere {
    v1::NotHere { why: Some(why) }
}

fn decode_not_here(not_here: v1::NotHere) -> Told {
    Told::NotHere(not_here.why.unwrap_or_default())
}

/// Values as a message, with how many milliseconds ago the replica was level. `None` if it is another
/// answer.
#[must_use]
pub fn encode_values(told: Told, level_ms: Option<u64>) -> Option<v1::GetAnswer> {
    use v1::get_answer::Answer;
    let answer = match told {
        Told::Values(values) => {
            let values = values.into_iter().map(|value| v1::RowValue { value });
            Answer::Values(v1::RowValues { values: values.collect() })
        }
        Told::NotHere(why) => Answer::NotHere(not_here(why)),
        Told::Page(_) | Told::Held(_) => return None,
    };
    Some(v1::GetAnswer { answer: Some(answer), level_ms })
}

/// What a message says.
///
/// # Errors
/// When it is not understood.
pub fn decode_values(answer: v1::GetAnswer) -> Result<Told, WireError> {
    use v1::get_answer::Answer;
    match answer.answer.ok_or(WireError::UnknownKind("GetAnswer.answer"))? {
        Answer::Values(values) => {
            Ok(Told::Values(values.values.into_iter().map(|value| value.value).collect()))
        }
        Answer::NotHere(not_here) => Ok(decode_not_here(not_here)),
    }
}

/// Rows as a message, with how many milliseconds ago the replica was level. `None` if it is another
/// answer.
#[must_use]
pub fn encode_page(told: Told, level_ms: Option<u64>) -> Option<v1::ScanAnswer> {
    use v1::scan_answer::Answer;
    let answer = match told {
        Told::Page(page) => {
            let row = |(key, value)| v1::StoredRow { key: Some(key), value: Some(value) };
            let rows = page.rows.into_iter().map(row).collect();
            Answer::Page(v1::RowPage { rows, complete: Some(page.complete) })
        }
        Told::NotHere(why) => Answer::NotHere(not_here(why)),
        Told::Values(_) | Told::Held(_) => return None,
    };
    Some(v1::ScanAnswer { answer: Some(answer), level_ms })
}

/// What a message says.
///
/// # Errors
/// When it is not understood.
pub fn decode_page(answer: v1::ScanAnswer) -> Result<Told, WireError> {
    use v1::scan_answer::Answer;
    match answer.answer.ok_or(WireError::UnknownKind("ScanAnswer.answer"))? {
        Answer::Page(page) => {
            let rows = page.rows.into_iter().map(|row| {
                Ok((required("StoredRow.key", row.key)?, required("StoredRow.value", row.value)?))
            });
            let rows = rows.collect::<Result<_, WireError>>()?;
            let complete = required("RowPage.complete", page.complete)?;
            Ok(Told::Page(Page { rows, complete }))
        }
        Answer::NotHere(not_here) => Ok(decode_not_here(not_here)),
    }
}

/// The number of what is kept as a message. `None` if it is another answer.
#[must_use]
pub fn encode_held(told: Told, _: Option<u64>) -> Option<v1::HoldAnswer> {
    use v1::hold_answer::Answer;
    let answer = match told {
        Told::Held(number) => Answer::Held(number),
        Told::NotHere(why) => Answer::NotHere(not_here(why)),
        Told::Values(_) | Told::Page(_) => return None,
    };
    Some(v1::HoldAnswer { answer: Some(answer) })
}

/// What a message says.
///
/// # Errors
/// When it is not understood.
pub fn decode_held(answer: v1::HoldAnswer) -> Result<Told, WireError> {
    use v1::hold_answer::Answer;
    match answer.answer.ok_or(WireError::UnknownKind("HoldAnswer.answer"))? {
        Answer::Held(number) => Ok(Told::Held(number)),
        Answer::NotHere(not_here) => Ok(decode_not_here(not_here)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn bytes(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    #[test]
    fn questions_arrive_as_they_were_asked() {
        let keys = vec![(Family::Batch, bytes("a")), (Family::Meta, bytes(""))];
        let sent = encode_get(7, State::AtLeast(0), &keys);
        assert_eq!(decode_get(sent), Ok((7, State::AtLeast(0), Question::Get(keys))));
        let scan = Scan {
            family: Family::Tick,
            from: bytes("a"),
            to: bytes("b"),
            back: true,
            rows_max: 3,
        };
        let sent = encode_scan(0, State::Held(9), &scan);
        assert_eq!(decode_scan(sent), Ok((0, State::Held(9), Question::Scan(scan))));
    }

    #[test]
    fn answers_arrive_as_they_were_given() {
        let values = Told::Values(vec![Some(bytes("")), None, Some(bytes("x"))]);
        let sent = encode_values(values.clone(), Some(7)).unwrap();
        assert_eq!((sent.level_ms, decode_values(sent)), (Some(7), Ok(values)));
        let rows = vec![(bytes("k"), bytes("v"))];
        let page = Told::Page(Page { rows, complete: false });
        let sent = encode_page(page.clone(), None).unwrap();
        assert_eq!((sent.level_ms, decode_page(sent)), (None, Ok(page)));
        assert_eq!(decode_held(encode_held(Told::Held(3), None).unwrap()), Ok(Told::Held(3)));
        let elsewhere = Told::NotHere("behind".to_owned());
        assert_eq!(decode_page(encode_page(elsewhere.clone(), None).unwrap()), Ok(elsewhere));
    }

    #[test]
    fn nothing_is_taken_for_a_default() {
        assert!(decode_get(v1::GetRequest::default()).is_err());
        assert!(decode_page(v1::ScanAnswer::default()).is_err());
        let key = v1::RowKey { family: Some(200), key: Some(bytes("a")) };
        let request = encode_get(1, State::AtLeast(1), &[]);
        let unknown = decode_get(v1::GetRequest { keys: vec![key], ..request }).unwrap_err();
        assert_eq!(unknown, WireError::UnknownValue { field: "RowKey.family", value: 200 });
    }
}
