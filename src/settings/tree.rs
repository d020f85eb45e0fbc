//! A settings file as a tree of values, each of which knows its place.
//!
//! `serde_yaml` reads the text into a [`Value`] once; the places come from a second pass
//! ([`positions`]), for `serde_yaml` alone stops at the first mistake. What each
//! value must be is for the parts to say.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_yaml::{Mapping, Sequence, Value};

use super::mistake::{Mistake, Place};
use super::positions::{self, Positions};

/// The values of a file and where they stand.
#[derive(Debug)]
pub struct Tree {
    /// The mapping that is the file.
    pub root: Value,
    /// Where each key and value stands.
    pub positions: Positions,
}

/// Reads `text`. The tree is there when every value can be told, whatever other mistakes there are.
pub fn read(name: &str, text: &str) -> (Option<Tree>, Vec<Mistake>) {
    let mut scan = positions::scan(name, text);
    if !scan.readable {
        return (None, scan.mistakes);
    }
    match serde_yaml::from_str::<FirstWins>(text) {
        Ok(FirstWins(root)) => {
            let positions = scan.positions;
            (Some(Tree { root, positions }), scan.mistakes)
        }
        Err(error) => {
            let place = error.location().map_or(Place::default(), |location| Place {
                line: location.line(),
                column: location.column(),
            });
            scan.mistakes.push(Mistake {
                file: name.to_owned(),
                path: String::new(),
                line: place.line,
                column: place.column,
                message: format!("not valid YAML: {error}"),
                expected: String::new(),
            });
            (None, scan.mistakes)
        }
    }
}

/// A value in whose mappings the first of two equal keys counts, where [`Value`] gives up: the second
/// pass has reported the other one, and the rest of the file is still worth checking.
struct FirstWins(Value);

impl<'de> Deserialize<'de> for FirstWins {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FirstWinsVisitor).map(Self)
    }
}

struct FirstWinsVisitor;

impl<'de> Visitor<'de> for FirstWinsVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value without tags")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut sequence = Sequence::new();
        while let Some(FirstWins(item)) = items.next_element()? {
            sequence.push(item);
        }
        Ok(Value::Sequence(sequence))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut mapping = Mapping::new();
        while let Some((FirstWins(key), FirstWins(value))) = entries.next_entry()? {
            if mapping.len() >= MAX_KEYS {
                return Err(A::Error::custom("too many keys in one mapping"));
            }
            mapping.entry(key).or_insert(value);
        }
        Ok(Value::Mapping(mapping))
    }
}

/// Keys of one mapping. The contract knows thirty; this only bounds what is kept of a wrong file.
const MAX_KEYS: usize = 10_000;
