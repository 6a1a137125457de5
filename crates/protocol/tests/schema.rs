//! What has been given a number keeps it: every field, value of an enumeration and call of the protocols
//! is held against a list of all that there ever were, `fixtures/schema-v1.txt`.
//!
//! While a cluster is upgraded, nodes of two versions read each other's messages, and workers are
//! older or newer than servers for longer than that. A field that is removed, renumbered, or of
//! another type is caught here, for all messages alike. What fields *mean* is not: the messages that matter most are kept
//! as bytes besides, together with the values that they stand for, in `bytes.rs` (workers), in
//! `crates/raft/src/net/fixtures.rs` (groups of Raft) and in `crates/server/src/cluster/wire/tests/fixtures.rs` (nodes).
//!
//! What is new is added to the list with `UPDATE_FIXTURES=1 cargo test -p bellwether-protocol`, which
//! removes and changes nothing.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use protox::prost_reflect::{
    Cardinality, DescriptorPool, FieldDescriptor, Kind, MessageDescriptor,
};

const GUIDE: &str = "see docs/changing-a-stored-format.md";

/// A place that can be given only once, such as a field's number in its message, and what has it.
type Line = (String, String);

fn type_of(kind: &Kind) -> String {
    match kind {
        Kind::Message(message) => message.full_name().to_owned(),
        Kind::Enum(values) => values.full_name().to_owned(),
        plain => format!("{plain:?}").to_lowercase(),
    }
}

fn field(field: &FieldDescriptor) -> Line {
    let place = format!("{} {}", field.parent_message().full_name(), field.number());
    let kind = field.kind();
    let kind = match (field.is_map(), kind.as_message(), field.cardinality()) {
        (true, Some(entry), _) => {
            let [key, value] = [entry.map_entry_key_field(), entry.map_entry_value_field()]
                .map(|of| type_of(&of.kind()));
            format!("map<{key}, {value}>")
        }
        (_, _, Cardinality::Repeated) => format!("repeated {}", type_of(&kind)),
        // That it can be told from one that is not there matters, but not for messages, of which it is always so.
        (_, None, _)
            if field.supports_presence()
                && field.containing_oneof().is_none_or(|of| of.is_synthetic()) =>
        {
            format!("optional {}", type_of(&kind))
        }
        _ => type_of(&kind),
    };
    let oneof = field.containing_oneof().filter(|of| !of.is_synthetic());
    let oneof = oneof.map_or(String::new(), |of| format!(" in {}", of.name()));
    (place, format!("{}: {kind}{oneof}", field.name()))
}

fn fields(message: &MessageDescriptor, lines: &mut Vec<Line>) {
    lines.extend(message.fields().map(|of| field(&of)));
    let inner = message.child_messages().filter(|inner| !inner.is_map_entry());
    inner.for_each(|inner| fields(&inner, lines));
}

/// All that the protocols have now.
fn current() -> BTreeMap<String, String> {
    let files: Vec<PathBuf> = ["worker/v1", "peer/v1", "node/v1"]
        .into_iter()
        .flat_map(|dir| std::fs::read_dir(Path::new("proto/bellwether").join(dir)).unwrap())
        .map(|file| file.unwrap().path())
        .collect();
    let files = protox::compile(files, ["proto"]).unwrap();
    let pool = DescriptorPool::from_file_descriptor_set(files).unwrap();
    let mut lines = Vec::new();
    for message in pool.files().flat_map(|file| file.messages().collect::<Vec<_>>()) {
        fields(&message, &mut lines);
    }
    for values in pool.all_enums() {
        let line =
            |number, name: &str| (format!("{} {number}", values.full_name()), name.to_owned());
        lines.extend(values.values().map(|value| line(value.number(), value.name())));
    }
    for call in pool.services().flat_map(|service| service.methods().collect::<Vec<_>>()) {
        let side = |streams, message: MessageDescriptor| {
            format!("{}{}", if streams { "stream " } else { "" }, message.full_name())
        };
        let asks = side(call.is_client_streaming(), call.input());
        let answers = side(call.is_server_streaming(), call.output());
        lines.push((format!("{} call", call.full_name()), format!("{asks} -> {answers}")));
    }
    lines.into_iter().collect()
}

#[test]
fn r117_what_has_a_number_in_the_protocols_keeps_it() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/schema-v1.txt");
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let mut kept: BTreeMap<String, String> = BTreeMap::new();
    for line in text.lines() {
        let (place, what) = line.split_once(" = ").unwrap();
        let before = kept.insert(place.to_owned(), what.to_owned());
        assert_eq!(before, None, "{place} is in the list twice");
    }
    let current = current();
    for (place, what) in &kept {
        assert_eq!(
            current.get(place),
            Some(what),
            "{place} was {what}, and nodes or workers of other versions take it for that: {GUIDE}"
        );
    }
    let new: BTreeSet<&String> =
        current.keys().filter(|place| !kept.contains_key(*place)).collect();
    if std::env::var_os("UPDATE_FIXTURES").is_some() {
        let lines = current.iter().map(|(place, what)| format!("{place} = {what}\n"));
        std::fs::write(&path, lines.collect::<String>()).unwrap();
    } else {
        assert!(
            new.is_empty(),
            "not in the list yet: {new:?}; {GUIDE}, and add them with UPDATE_FIXTURES=1"
        );
    }
}
