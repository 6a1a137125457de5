//! A reader that takes an object for an object only.
//!
//! The readers that `serde` derives also take a list for an object whose names were left out: the
//! values in the order in which the program declares its fields. In an API that is an accident
//! waiting for somebody to move a field. [`Objects`] is put around any other reader and refuses
//! lists where an object is wanted, at every depth, without reading anything twice: it hands every
//! call on, so it costs next to nothing.
//!
//! What it does not do: look into what the API's own types take as lists or as raw JSON.

use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, Unexpected, Visitor,
};

/// A reader around another.
pub(super) struct Objects<D>(pub D);

/// Methods of a reader that differ in nothing but their names.
macro_rules! hand_on {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method(Inside { visitor, object: false })
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Objects<D> {
    type Error = D::Error;

    hand_on! {
        deserialize_any deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32
        deserialize_i64 deserialize_i128 deserialize_u8 deserialize_u16 deserialize_u32
        deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64 deserialize_char
        deserialize_str deserialize_string deserialize_bytes deserialize_byte_buf
        deserialize_option deserialize_unit deserialize_seq deserialize_map
        deserialize_identifier deserialize_ignored_any
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_struct(name, fields, Inside { visitor, object: true })
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_unit_struct(name, Inside { visitor, object: false })
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_newtype_struct(name, Inside { visitor, object: false })
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_tuple(len, Inside { visitor, object: false })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_tuple_struct(name, len, Inside { visitor, object: false })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_enum(name, variants, Inside { visitor, object: false })
    }

    fn is_human_readable(&self) -> bool {
        self.0.is_human_readable()
    }
}

/// Whoever waits for a value, or for the parts of one, around another.
struct Inside<V> {
    visitor: V,
    /// Whether nothing but an object will do.
    object: bool,
}

/// Methods for plain values.
macro_rules! plain {
    ($($method:ident($value:ty))*) => {
        $(fn $method<E: Error>(self, value: $value) -> Result<V::Value, E> {
            self.visitor.$method(value)
        })*
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Inside<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    plain! {
        visit_bool(bool) visit_i8(i8) visit_i16(i16) visit_i32(i32) visit_i64(i64)
        visit_i128(i128) visit_u8(u8) visit_u16(u16) visit_u32(u32) visit_u64(u64)
        visit_u128(u128) visit_f32(f32) visit_f64(f64) visit_char(char) visit_str(&str)
        visit_borrowed_str(&'de str) visit_string(String) visit_bytes(&[u8])
        visit_borrowed_bytes(&'de [u8]) visit_byte_buf(Vec<u8>)
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.visitor.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_some(Objects(value))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        self.visitor.visit_newtype_struct(Objects(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<V::Value, A::Error> {
        if self.object {
            return Err(A::Error::invalid_type(Unexpected::Seq, &self.visitor));
        }
        self.visitor.visit_seq(Parts(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_map(Parts(map))
    }

    /// None of the API's enums holds an object.
    fn visit_enum<A: EnumAccess<'de>>(self, value: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_enum(value)
    }
}

/// The parts of a list, an object, or a place for one of them, around another.
struct Parts<T>(T);

impl<'de, T: DeserializeSeed<'de>> DeserializeSeed<'de> for Parts<T> {
    type Value = T::Value;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<T::Value, D::Error> {
        self.0.deserialize(Objects(value))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Parts<A> {
    type Error = A::Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, A::Error> {
        self.0.next_element_seed(Parts(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Parts<A> {
    type Error = A::Error;

    /// Names are never objects.
    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        self.0.next_key_seed(seed)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, A::Error> {
        self.0.next_value_seed(Parts(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}
