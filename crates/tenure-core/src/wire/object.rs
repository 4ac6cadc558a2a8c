//! JSON objects of requests, with stricter checks than those of serde.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A value that must be a JSON object. Serde alone also accepts an array with the fields of a
/// struct in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<Self::Value, M::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

/// Deserializes an array of objects.
pub(super) fn objects<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let objects = Vec::<Object<T>>::deserialize(deserializer)?;
    Ok(objects.into_iter().map(|Object(value)| value).collect())
}

/// Deserializes an object; null gives `None`.
pub(super) fn object_or_null<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let object = Option::<Object<T>>::deserialize(deserializer)?;
    Ok(object.map(|Object(value)| value))
}

/// Deserializes a map from keys to texts. A duplicate key is refused, as a duplicate field is.
pub(super) fn texts<'de, D>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error>
where
    D: Deserializer<'de>,
{
    deserializer.deserialize_map(TextsVisitor)
}

/// Deserializes a map from keys to texts; null gives an empty map.
pub(super) fn texts_or_null<'de, D>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error>
where
    D: Deserializer<'de>,
{
    let texts = Option::<Texts>::deserialize(deserializer)?;
    Ok(texts.map_or_else(BTreeMap::new, |Texts(texts)| texts))
}

#[derive(Deserialize)]
struct Texts(#[serde(deserialize_with = "texts")] BTreeMap<String, String>);

struct TextsVisitor;

impl<'de> Visitor<'de> for TextsVisitor {
    type Value = BTreeMap<String, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of texts")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
        let mut texts = BTreeMap::new();
        while let Some((key, text)) = map.next_entry::<String, String>()? {
            if texts.contains_key(&key) {
                return Err(M::Error::custom(format_args!("duplicate key `{key}`")));
            }
            texts.insert(key, text);
        }
        Ok(texts)
    }
}
