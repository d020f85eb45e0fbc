//! A mapping of the file while a part reads its keys from it.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde_yaml::{Mapping, Value};

use super::mistake::{Wrong, quoted};
use super::nearest::nearest;
use super::positions::child;
use super::report::Report;
use super::scalar;

/// The keys of a mapping.
#[derive(Debug)]
pub struct Keys {
    /// Keys that are read.
    pub known: &'static [&'static str],
    /// Keys of the contract whose feature this version lacks: only `off` and an empty list, which
    /// ask for what happens anyway, are accepted.
    pub later: &'static [&'static str],
}

/// A value and its path.
#[derive(Clone, Debug)]
pub struct Node<'t> {
    /// The value.
    pub value: &'t Value,
    /// Its path, e.g. `sites[1].php`.
    pub path: String,
}

/// A mapping whose keys have been checked for being known.
#[derive(Debug)]
pub struct Section<'t, 'r> {
    mapping: &'t Mapping,
    path: String,
    report: &'r Report,
}

impl<'t, 'r> Section<'t, 'r> {
    /// Takes a node for a mapping with these keys; reports anything else, and every unknown key.
    pub fn open(node: &Node<'t>, keys: &Keys, report: &'r Report) -> Option<Self> {
        let Value::Mapping(mapping) = node.value else {
            let names = keys.known.join(", ");
            let message = format!("{} is not a mapping", scalar::shown(node.value));
            report.value(
                &node.path,
                Wrong::new(message, format!("expected keys of {names}")),
            );
            return None;
        };
        let section = Self {
            mapping,
            path: node.path.clone(),
            report,
        };
        for (key, value) in mapping {
            section.check_key(key, value, keys);
        }
        Some(section)
    }

    /// The path of a key in this section.
    pub fn path(&self, key: &str) -> String {
        child(&self.path, key)
    }

    /// The node of a key, when the key is there.
    pub fn node(&self, key: &str) -> Option<Node<'t>> {
        self.mapping.get(key).map(|value| Node {
            value,
            path: self.path(key),
        })
    }

    /// The node of a key that must be there.
    pub fn required(&self, key: &str, expected: &str) -> Option<Node<'t>> {
        let node = self.node(key);
        if node.is_none() {
            let message = format!("the key {key} is missing");
            self.report.value(&self.path, Wrong::new(message, expected));
        }
        node
    }

    /// What `parse` makes of a key's value; nothing when the key is absent or its value wrong.
    pub fn read<T>(
        &self,
        key: &str,
        parse: impl FnOnce(&'t Value) -> Result<T, Wrong>,
    ) -> Option<T> {
        let node = self.node(key)?;
        self.report.accept(&node.path, parse(node.value))
    }

    /// A duration.
    pub fn duration(
        &self,
        key: &str,
        default: Duration,
        range: RangeInclusive<Duration>,
    ) -> Duration {
        self.read(key, |value| scalar::duration(value, range))
            .unwrap_or(default)
    }

    /// A size in bytes.
    pub fn size(&self, key: &str, default: u64, range: RangeInclusive<u64>) -> u64 {
        self.read(key, |value| scalar::size(value, range))
            .unwrap_or(default)
    }

    /// A whole number.
    pub fn count<T>(&self, key: &str, default: T, range: RangeInclusive<T>) -> T
    where
        T: TryFrom<u64> + PartialOrd + ToString,
    {
        self.read(key, |value| scalar::count(value, range))
            .unwrap_or(default)
    }

    /// A whole number, or `auto` for none.
    pub fn auto_or_count(&self, key: &str, range: RangeInclusive<usize>) -> Option<usize> {
        self.word_or_count(key, "auto", range)
    }

    /// A whole number, or this word for none.
    pub fn word_or_count(
        &self,
        key: &str,
        none: &str,
        range: RangeInclusive<usize>,
    ) -> Option<usize> {
        self.read(key, |value| match scalar::word(value) {
            Some(word) if word == none => Ok(None),
            _ => scalar::count(value, range)
                .map(Some)
                .map_err(|wrong| Wrong {
                    expected: format!("{}, or {none}", wrong.expected),
                    ..wrong
                }),
        })
        .flatten()
    }

    /// One of a few words.
    pub fn choice<T: Copy>(&self, key: &str, default: T, choices: &[(&str, T)]) -> T {
        self.read(key, |value| scalar::choice(value, choices))
            .unwrap_or(default)
    }

    /// The items of a list, checked one by one; nothing when the key is absent. A single text is a
    /// list of one.
    pub fn texts<T>(
        &self,
        key: &str,
        parse: impl Fn(&'t str) -> Result<T, Wrong>,
    ) -> Option<Vec<T>> {
        let items = self.items(key)?;
        let parse = |node: &Node<'t>| {
            let result = scalar::text(node.value).and_then(&parse);
            self.report.accept(&node.path, result)
        };
        Some(items.iter().filter_map(parse).collect())
    }

    /// The items of a list; nothing when the key is absent. A single text is a list of one.
    pub fn items(&self, key: &str) -> Option<Vec<Node<'t>>> {
        let node = self.node(key)?;
        match node.value {
            Value::Sequence(items) => Some(list_items(items, &node.path)),
            Value::String(_) => Some(vec![node]),
            other => {
                let message = format!("{} is not a list", scalar::shown(other));
                self.report
                    .value(&node.path, Wrong::new(message, "expected a list in [ ]"));
                None
            }
        }
    }

    fn check_key(&self, key: &Value, value: &Value, keys: &Keys) {
        let name = match key {
            Value::String(name) => name.clone(),
            other => scalar::shown(other),
        };
        let path = self.path(&name);
        if keys.known.contains(&name.as_str()) {
            return;
        }
        if keys.later.contains(&name.as_str()) {
            if !is_off(value) {
                let message = "is not supported by this version";
                self.report.key(&path, Wrong::new(message, "leave it out"));
            }
            return;
        }
        let all = || keys.known.iter().chain(keys.later).copied();
        let expected = match nearest(&name, all()) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("expected one of {}", keys.known.join(", ")),
        };
        let message = format!("the key {} is not known here", quoted(&name));
        self.report.key(&path, Wrong::new(message, expected));
    }
}

/// The items of a sequence at `path` as nodes.
pub fn list_items<'t>(items: &'t [Value], path: &str) -> Vec<Node<'t>> {
    let node = |(index, value)| Node {
        value,
        path: format!("{path}[{index}]"),
    };
    items.iter().enumerate().map(node).collect()
}

fn is_off(value: &Value) -> bool {
    scalar::word(value) == Some("off") || value.as_sequence().is_some_and(Vec::is_empty)
}
