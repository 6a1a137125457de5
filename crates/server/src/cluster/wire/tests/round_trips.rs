//! What is sent arrives as it was.

use bellwether_core::turn::Rejection;
use bellwether_core::waist::StoreError;
use proptest::prelude::*;

use super::super::ask::{self, Answer};
use super::super::{input, notice, report, work};
use super::{sent, strategies as any_};
use crate::shard::Failure;

proptest! {
    #[test]
    fn questions_arrive_as_they_were(input in any_::input()) {
        let message = input::encode(&input).unwrap();
        prop_assert_eq!(input::decode(sent(&message)), Ok(input));
    }

    #[test]
    fn answers_arrive_as_they_were(answer in any_::answer()) {
        let message = ask::encode_answer(&answer);
        prop_assert_eq!(ask::decode_answer(sent(&message)), Ok(answer));
    }

    #[test]
    fn reports_arrive_as_they_were(said in any_::report()) {
        prop_assert_eq!(report::decode(sent(&report::encode(&said))), Ok(said));
    }

    #[test]
    fn work_arrives_as_it_was(
        lane in any_::lane(),
        place in any_::turnstile(),
        (offer, most, name) in (any_::offer(), any_::demand(), ".{0,8}"),
        assignment in any_::assignment(),
    ) {
        prop_assert_eq!(work::decode_demand(sent(&work::encode_demand(most))), Ok(most));
        prop_assert_eq!(work::decode_lane(sent(&work::encode_lane(&lane))), Ok(lane));
        prop_assert_eq!(work::decode_turnstile(sent(&work::encode_turnstile(place))), Ok(place));
        prop_assert_eq!(work::decode_offer(sent(&work::encode_offer(&offer))), Ok(offer.clone()));
        let entry = sent(&work::encode_roster_entry(&name, &offer, most));
        prop_assert_eq!(work::decode_roster_entry(entry), Ok((name.into(), offer, most)));
        let message = sent(&work::encode_assignment(&assignment));
        prop_assert_eq!(work::decode_assignment(message), Ok(assignment));
    }

    #[test]
    fn news_arrives_as_it_was(news in any_::notice(), held in any_::held()) {
        prop_assert_eq!(notice::decode(sent(&notice::encode(&news))), Ok(news));
        prop_assert_eq!(notice::decode_held(sent(&notice::encode_held(&held))), Ok(held));
    }

    #[test]
    fn the_same_is_always_the_same_bytes(input in any_::input(), lane in any_::lane()) {
        use prost::Message;
        let bytes = |input| input::encode(input).unwrap().encode_to_vec();
        prop_assert_eq!(bytes(&input), bytes(&input.clone()));
        let again = work::encode_lane(&lane.clone()).encode_to_vec();
        prop_assert_eq!(work::encode_lane(&lane).encode_to_vec(), again);
    }
}

#[test]
fn a_shard_that_was_taken_over_is_told_apart_from_a_store_that_failed() {
    let of = |failure| Answer::from(Err(failure));
    assert_eq!(of(Failure::NoLeader(3)), Answer::NotLeader { leader: None });
    assert_eq!(of(Failure::Unknown(3)), Answer::Stopped);
    assert_eq!(of(Failure::Store(StoreError::Closed)), Answer::Stopped);
    assert_eq!(of(Failure::Stopped), Answer::Stopped);
    assert_eq!(of(Failure::Overloaded), Answer::Overloaded);
    assert_eq!(of(Failure::Rejected(Rejection::no_job())), Answer::Rejected(Rejection::no_job()));
    let failed = of(Failure::Store(StoreError::Failed("the disk is full".to_owned())));
    assert!(matches!(failed, Answer::StoreFailed(said) if said.ends_with("the disk is full")));
}
