//! What is missing, damaged or unknown is refused by name, and never taken for something else.

use bellwether_core::id::JobId;
use bellwether_core::key::{DueKey, DueKind};
use bellwether_core::time::Time;
use bellwether_core::turn::{Input, Rejection};
use bellwether_protocol::node::v1;
use bytes::Bytes;
use proptest::prelude::*;
use prost::Message;
use prost::encoding::{DecodeContext, decode_key, encode_key, encode_varint, skip_field};

use super::super::{WireError, ask, input, notice, reply, report, work};
use super::strategies as any_;

/// A message with a field of a number that no version has, but some will.
fn from_the_future<M: Message + Default>() -> M {
    let mut bytes = Vec::new();
    encode_key(999, prost::encoding::WireType::LengthDelimited, &mut bytes);
    encode_varint(0, &mut bytes);
    M::decode(bytes.as_slice()).unwrap()
}

#[test]
fn a_message_of_an_unknown_kind_is_refused() {
    let unknown = |field| WireError::UnknownKind(field);
    assert_eq!(input::decode(from_the_future()), Err(unknown("Input.what")));
    assert_eq!(reply::decode(from_the_future()), Err(unknown("Reply.what")));
    assert_eq!(ask::decode_answer(from_the_future()), Err(unknown("AskAnswer.answer")));
    assert_eq!(report::decode(from_the_future()), Err(unknown("Report.what")));
    assert_eq!(work::decode_lane(from_the_future()), Err(unknown("Lane.work")));
    let end = v1::Batch { batch: Some(1), what: Some(v1::batch::What::End(from_the_future())) };
    let end = v1::Input { what: Some(v1::input::What::Batch(end)) };
    let refused = input::decode(end).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "BatchEnd.completion is missing or of a kind that this version does not know"
    );
}

#[test]
fn a_number_that_is_not_known_is_refused() {
    let mut rejection = reply::encode_rejection(&Rejection::no_job());
    rejection.kind = 77;
    let refused = reply::decode_rejection(rejection.clone()).unwrap_err();
    assert_eq!(refused.to_string(), "Rejection.kind is 77, which this version does not know");
    rejection.kind = 0;
    assert_eq!(reply::decode_rejection(rejection), Err(WireError::Missing("Rejection.kind")));
    for (number, refused) in [
        (0, WireError::Missing("Finished.ending")),
        (9, WireError::UnknownValue { field: "Finished.ending", value: 9 }),
    ] {
        let finished = v1::Finished { finished_ms: Some(1), ending: number, ..Default::default() };
        let what = Some(v1::report::What::Finished(finished));
        let said = v1::Report { run: None, token: None, what };
        assert_eq!(report::decode(said), Err(refused));
    }
    let news = v1::Notice { kind: Some(1), status: Some(10), ..full_notice() };
    let refused = WireError::UnknownValue { field: "Notice.status", value: 10 };
    assert_eq!(notice::decode(news), Err(refused));
    let refused = WireError::UnknownValue { field: "shard", value: 1024 };
    assert_eq!(ask::decode_shard("shard", Some(1024)), Err(refused));
}

fn full_notice() -> v1::Notice {
    v1::Notice {
        at_ms: Some(1),
        run: Some(v1::RunId { job: Some(1), n: Some(1) }),
        ..v1::Notice::default()
    }
}

#[test]
fn a_damaged_record_is_refused_by_the_name_of_its_field() {
    let put =
        v1::PutToken { actor: Some(String::new()), token: Some(Bytes::from_static(&[0xff, 0xff])) };
    let asked = v1::Input { what: Some(v1::input::What::PutToken(put)) };
    let refused = input::decode(asked).unwrap_err();
    assert!(refused.to_string().starts_with("PutToken.token cannot be read: "), "{refused}");
}

#[test]
fn what_a_shard_makes_for_itself_is_not_sent() {
    let entry = DueKey { time: Time(1), kind: DueKind::Tick, job: JobId(7), n: 0 };
    let due = Input::Due { entry, value: Bytes::new() };
    let said = |input| input::encode(&input).unwrap_err().to_string();
    assert_eq!(said(due), "what has come due is a shard's own and is not sent to others");
    assert_eq!(said(Input::Prune), "pruning is a shard's own and is not sent to others");
}

/// A field of a message: its number, where it begins and ends with its key, and where its content
/// begins.
type Field = (u32, std::ops::Range<usize>, usize);

fn fields(bytes: &[u8]) -> Vec<Field> {
    let mut rest = bytes;
    let mut found = Vec::new();
    while !rest.is_empty() {
        let start = bytes.len() - rest.len();
        let (tag, kind) = decode_key(&mut rest).unwrap();
        let mut body = rest;
        if kind == prost::encoding::WireType::LengthDelimited {
            prost::encoding::decode_varint(&mut body).unwrap();
        }
        skip_field(kind, tag, &mut rest, DecodeContext::default()).unwrap();
        found.push((tag, start..bytes.len() - rest.len(), bytes.len() - body.len()));
    }
    found
}

/// The message without each of its fields in turn.
fn without_each(bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let without = |field: Field| {
        let mut left = bytes.to_vec();
        left.drain(field.1);
        (field.0, left)
    };
    fields(bytes).into_iter().map(without).collect()
}

/// Fields of the messages within `Input` whose absence has a meaning, or that are lists: the number
/// in `Input`, and that in the message.
const MAY_BE_ABSENT: [(u32, u32); 8] =
    [(1, 2), (3, 4), (5, 5), (5, 6), (9, 3), (18, 3), (18, 4), (18, 5)];

proptest! {
    #[test]
    fn an_input_without_one_of_its_fields_is_refused(asked in any_::input()) {
        let bytes = input::encode(&asked).unwrap().encode_to_vec();
        let (kind, whole, body) = fields(&bytes).remove(0);
        for (tag, left) in without_each(&bytes[body..whole.end]) {
            let mut message = Vec::new();
            encode_key(kind, prost::encoding::WireType::LengthDelimited, &mut message);
            encode_varint(left.len() as u64, &mut message);
            message.extend(left);
            let read = input::decode(v1::Input::decode(message.as_slice()).unwrap());
            let may = MAY_BE_ABSENT.contains(&(kind, tag));
            prop_assert_eq!(read.is_ok(), may, "field {} of {:?}: {:?}", tag, asked, read);
        }
    }

    #[test]
    fn work_without_one_of_its_fields_is_refused(
        assignment in any_::assignment(),
        lane in any_::lane(),
        place in any_::turnstile(),
        offer in any_::offer(),
        news in any_::notice(),
        held in any_::held(),
    ) {
        let check = |bytes: Vec<u8>, absent: &[u32], decodes: &dyn Fn(&[u8]) -> bool| {
            for (tag, left) in without_each(&bytes) {
                assert_eq!(decodes(&left), absent.contains(&tag), "field {tag}");
            }
        };
        check(work::encode_assignment(&assignment).encode_to_vec(), &[], &|bytes| {
            work::decode_assignment(v1::Assignment::decode(bytes).unwrap()).is_ok()
        });
        check(work::encode_lane(&lane).encode_to_vec(), &[6], &|bytes| {
            work::decode_lane(v1::Lane::decode(bytes).unwrap()).is_ok()
        });
        check(work::encode_turnstile(place).encode_to_vec(), &[], &|bytes| {
            work::decode_turnstile(v1::Turnstile::decode(bytes).unwrap()).is_ok()
        });
        check(work::encode_offer(&offer).encode_to_vec(), &[1, 2, 3, 6], &|bytes| {
            work::decode_offer(v1::Offer::decode(bytes).unwrap()).is_ok()
        });
        check(notice::encode(&news).encode_to_vec(), &[], &|bytes| {
            notice::decode(v1::Notice::decode(bytes).unwrap()).is_ok()
        });
        check(notice::encode_held(&held).encode_to_vec(), &[], &|bytes| {
            notice::decode_held(v1::HeldJob::decode(bytes).unwrap()).is_ok()
        });
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(message) = v1::Input::decode(bytes.as_slice()) {
            let _ = input::decode(message);
        }
        if let Ok(message) = v1::AskAnswer::decode(bytes.as_slice()) {
            let _ = ask::decode_answer(message);
        }
    }
}
