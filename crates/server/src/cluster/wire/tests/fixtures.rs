//! What nodes say to one another, as bytes that every version has to understand.
//!
//! Numbers and types of fields are held fast for all messages in `crates/protocol/tests/schema.rs`. That something is in the
//! field where other versions look for it is seen only here: two fields that are mixed up in the same way
//! when a message is made and when it is read arrive as they were, but not at a node of another version. So everything that is made a message of
//! has a line in `tests/fixtures/node-v1.txt`; [`samples`](super::samples) has what the lines stand for.

use std::fmt::Debug;

use bellwether_core::bounds;
use bellwether_protocol::node::v1;
use prost::Message;

use super::super::rows::{self, Question, State, Told};
use super::super::{WireError, ask, attend, claims, input, live, notice, report, work};
use super::samples;

#[path = "../../../../../protocol/tests/kept/mod.rs"]
mod kept;
use kept::Kept;

fn kept() -> Kept {
    Kept::open(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/node-v1.txt"))
}

/// Checks a message that stands for a value.
fn check<M, T>(name: &str, value: &T, message: &M, read: impl Fn(M) -> Result<T, WireError>)
where
    M: Message + Default,
    T: PartialEq + Debug,
{
    let read = |bytes: &[u8]| read(M::decode(bytes).unwrap());
    kept().check(name, value, message.encode_to_vec(), read);
}

/// The same for a value that cannot be compared but shown.
fn check_shown<M, T>(name: &str, value: &T, message: &M, read: impl Fn(M) -> Result<T, WireError>)
where
    M: Message + Default,
    T: Debug,
{
    let shown = format!("{value:?}");
    check(name, &shown, message, |message| read(message).map(|read| format!("{read:?}")));
}

#[test]
fn r117_what_nodes_of_other_versions_ask_and_answer_is_understood() {
    for (name, asked) in samples::inputs() {
        check(&format!("input-{name}"), &asked, &input::encode(&asked).unwrap(), input::decode);
    }
    for (name, said) in samples::reports() {
        check(&format!("report-{name}"), &said, &report::encode(&said), report::decode);
    }
    for (name, answer) in samples::answers() {
        let message = ask::encode_answer(&answer);
        check(&format!("answer-{name}"), &answer, &message, ask::decode_answer);
    }
}

#[test]
fn r117_what_nodes_of_other_versions_say_of_work_is_understood() {
    for (name, lane) in samples::lanes() {
        check(&format!("lane-{name}"), &lane, &work::encode_lane(&lane), work::decode_lane);
    }
    let hints = vec![samples::hint()];
    check("hints", &hints, &claims::encode_hints(&hints), claims::decode_hints);
    let claim = (3, vec![samples::grant()]);
    check("claim", &claim, &claims::encode_claim(claim.0, &claim.1), claims::decode_claim);
    let claimed = samples::claimed();
    check("claimed", &claimed, &claims::encode_claimed(&claimed), claims::decode_claimed);
    let held = (7, vec![samples::still_held()]);
    check_shown("held", &held, &claims::encode_held(held.0, &held.1), claims::decode_held);
    let stops = vec![("w1".to_owned(), samples::run(), 77)];
    check("stops", &stops, &claims::encode_stops(&stops), claims::decode_stops);
    let given = samples::give_up();
    check("give-up", &given, &live::encode_give_up(&given), live::decode_give_up);
}

#[test]
fn r117_what_nodes_of_other_versions_say_of_themselves_is_understood() {
    let said = samples::said();
    check("attendance-clock", &said, &attend::encode(&said), attend::decode);
    let said = attend::Said { clock: None, ..said };
    check("attendance", &said, &attend::encode(&said), attend::decode);
    for (name, news) in samples::news() {
        let name = format!("news-{name}");
        check_shown(&name, &news, &live::encode_news(&news), live::decode_news);
    }
    let notice = samples::notice();
    check("notice", &notice, &notice::encode(&notice), notice::decode);
}

/// What earlier versions did not say yet, and what that means.
#[test]
fn r117_a_node_that_says_less_of_itself_is_understood() {
    let said = samples::said();
    let whole = attend::encode(&said);
    let older = v1::Attendance {
        log_bytes: None,
        removed: None,
        leaving: None,
        clock_ms: None,
        ..whole.clone()
    };
    let read = attend::decode(older).unwrap();
    assert_eq!((read.log_bytes, read.removed, read.leaving), (0, false, false));
    assert_eq!(read.clock, None);
    let mut older = whole;
    let replica = &mut older.replicas[0];
    (replica.agreed, replica.behind, replica.membership) = (None, None, None);
    let read = attend::decode(older).unwrap().replicas.remove(0);
    assert_eq!((read.behind, read.membership), (0, 0));
    assert_eq!(read.agreed, Some(said.replicas[0].applied), "it acts, so it knows");
}

#[test]
fn r117_what_nodes_of_other_versions_read_elsewhere_is_understood() {
    let (shard, newest, kept) = (3, State::AtLeast(300), State::Held(9));
    let keys = samples::keys();
    let get = (shard, newest, Question::Get(keys.clone()));
    check("rows-get", &get, &rows::encode_get(shard, newest, &keys), rows::decode_get);
    let scan = (shard, kept, Question::Scan(samples::scan()));
    let message = rows::encode_scan(shard, kept, &samples::scan());
    check("rows-scan", &scan, &message, rows::decode_scan);
    let values = samples::values();
    let message = rows::encode_values(values.clone(), Some(7)).unwrap();
    check("rows-values", &values, &message, rows::decode_values);
    let page = samples::page();
    let message = rows::encode_page(page.clone(), Some(7)).unwrap();
    check("rows-page", &page, &message, rows::decode_page);
    let elsewhere = Told::NotHere("behind".to_owned());
    let message = rows::encode_page(elsewhere.clone(), None).unwrap();
    check("rows-not-here", &elsewhere, &message, rows::decode_page);
    let held = Told::Held(9);
    let message = rows::encode_held(held.clone(), None).unwrap();
    check("rows-held", &held, &message, rows::decode_held);
}

#[test]
fn r117_what_nodes_of_other_versions_say_of_bounds_is_understood() {
    use super::super::bounds::{decode_answers, decode_asks, encode_answers, encode_asks};
    let asks: (u64, Vec<bounds::Ask>) = (11, vec![samples::bound_ask()]);
    check("bound-asks", &asks, &encode_asks(asks.0, &asks.1), decode_asks);
    let answers = samples::bound_answers();
    let message = v1::LeftRequest { answers: encode_answers(&answers) };
    check("bound-left", &answers, &message, |left| decode_answers(left.answers));
}
