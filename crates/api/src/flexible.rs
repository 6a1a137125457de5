//! Fields that may be written short, as a text, or long, as an object or list.
//!
//! `serde`'s untagged enums would do, at the price of answers like "data did not match any
//! variant". These say what was expected and what is wrong with what came.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use utoipa::ToSchema;

use crate::{Misfire, MisfirePolicy, Overlap, OverlapPolicy, Schedule, ScheduleRule};

/// A text, or an object of type `T`.
#[derive(Clone, PartialEq, Debug)]
pub enum TextOr<T> {
    /// Written short.
    Text(String),
    /// Written long.
    Object(T),
}

/// A text, or a list of texts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TextOrList {
    /// One text.
    Text(String),
    /// Several.
    List(Vec<String>),
}

impl<T: Serialize> Serialize for TextOr<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            TextOr::Text(text) => serializer.serialize_str(text),
            TextOr::Object(object) => object.serialize(serializer),
        }
    }
}

struct TextOrVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> de::Visitor<'de> for TextOrVisitor<T> {
    type Value = TextOr<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or an object")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<TextOr<T>, E> {
        Ok(TextOr::Text(text.to_owned()))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<TextOr<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(TextOr::Object)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for TextOr<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TextOr<T>, D::Error> {
        deserializer.deserialize_any(TextOrVisitor(PhantomData))
    }
}

impl Serialize for TextOrList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            TextOrList::Text(text) => serializer.serialize_str(text),
            TextOrList::List(list) => list.serialize(serializer),
        }
    }
}

struct TextOrListVisitor;

impl<'de> de::Visitor<'de> for TextOrListVisitor {
    type Value = TextOrList;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a list of texts")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<TextOrList, E> {
        Ok(TextOrList::Text(text.to_owned()))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, list: A) -> Result<TextOrList, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(TextOrList::List)
    }
}

impl<'de> Deserialize<'de> for TextOrList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TextOrList, D::Error> {
        deserializer.deserialize_any(TextOrListVisitor)
    }
}

/// A schedule in one line, or as an object.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes `TextOr<Schedule>` in the OpenAPI document")]
pub(crate) enum ScheduleShape {
    /// In one line, as people type it.
    #[schema(example = "5 2 * * 6")]
    Text(String),
    /// In full.
    Object(Box<Schedule>),
}

/// A rule in one line, or as an object.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes `TextOr<ScheduleRule>` in the OpenAPI document")]
pub(crate) enum ScheduleRuleShape {
    /// In one line, as people type it.
    Text(String),
    /// In full.
    Object(ScheduleRule),
}

/// A policy for missed ticks by name, or in full.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes `TextOr<Misfire>` in the OpenAPI document")]
pub(crate) enum MisfireShape {
    /// By name.
    Text(MisfirePolicy),
    /// In full.
    Object(Misfire),
}

/// A policy for overlapping runs by name, or in full.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes `TextOr<Overlap>` in the OpenAPI document")]
pub(crate) enum OverlapShape {
    /// By name.
    Text(OverlapPolicy),
    /// In full.
    Object(Overlap),
}

/// A command: one line for the shell, or program and arguments.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes `TextOrList` in the OpenAPI document")]
pub(crate) enum CommandShape {
    /// One line for the shell.
    Text(String),
    /// Program and arguments.
    List(Vec<String>),
}
