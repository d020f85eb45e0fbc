//! The second pass over the text: where each key and value stands, and what its structure forbids.
//!
//! It sees what a deserializer does not tell: every duplicate key with both its places, anchors,
//! aliases, tags, merge keys and further documents. All of them are refused: a settings file says
//! each thing once, at the place where it holds.

use std::collections::HashMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Span};

use super::mistake::{Mistake, Place, quoted};

/// Where keys and values stand, by path (`sites[1].php.wait`).
#[derive(Debug, Default)]
pub struct Positions {
    places: HashMap<String, Places>,
}

impl Positions {
    /// Where the key at `path` stands; a list item has the place of its value.
    pub fn key(&self, path: &str) -> Place {
        self.nearest(path)
            .map_or(Place::default(), |places| places.key)
    }

    /// Where the value at `path` stands.
    pub fn value(&self, path: &str) -> Place {
        self.nearest(path)
            .map_or(Place::default(), |places| places.value)
    }

    /// The places of `path`, or of what it stands in: a key such as `0x10` is known to the tree as 16.
    fn nearest(&self, path: &str) -> Option<&Places> {
        let mut path = path;
        loop {
            match self.places.get(path) {
                None if path.is_empty() => return None,
                None => {
                    let end = path.rfind(['.', '[']).unwrap_or_default();
                    path = path.get(..end).unwrap_or_default();
                }
                found => return found,
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Places {
    key: Place,
    value: Place,
}

/// What the second pass found.
pub struct Scan {
    /// The place of every key and value.
    pub positions: Positions,
    /// Forbidden structure, in the order of the text.
    pub mistakes: Vec<Mistake>,
    /// Whether every value can still be told: a duplicate key only says one thing too often, while
    /// an alias or a syntax error leaves values unknown.
    pub readable: bool,
}

/// Reads the text from start to end, or to its first syntax error.
pub fn scan(name: &str, text: &str) -> Scan {
    let mut walk = Walk {
        name,
        scan: Scan {
            positions: Positions::default(),
            mistakes: Vec::new(),
            readable: true,
        },
        stack: Vec::new(),
        documents: 0,
    };
    let mut parser = Parser::new_from_str(text);
    while let Some(next) = parser.next_event() {
        let proceed = match next {
            Ok((event, span)) => walk.event(&event, span),
            Err(error) => {
                let place = place(error.marker());
                let message = format!("not valid YAML: {}", error.info());
                walk.refuse(place, String::new(), message, "");
                false
            }
        };
        if !proceed {
            break;
        }
    }
    walk.scan
}

struct Walk<'n> {
    name: &'n str,
    scan: Scan,
    /// The mappings and sequences that are open, outermost first.
    stack: Vec<Open>,
    documents: usize,
}

/// A mapping or sequence whose end has not come.
enum Open {
    Mapping {
        path: String,
        /// The key whose value comes next.
        pending: Option<(String, Place)>,
    },
    Sequence {
        path: String,
        next: usize,
    },
    /// Anything within a key that is no scalar: it has been refused, and has no path.
    Ignored,
}

impl Walk<'_> {
    /// Takes one event; false ends the walk.
    fn event(&mut self, event: &Event<'_>, span: Span) -> bool {
        let start = place(&span.start);
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    let message = "a second document starts here";
                    self.refuse(
                        start,
                        String::new(),
                        message,
                        "expected one document in the file",
                    );
                    return false;
                }
            }
            Event::Alias(_) => {
                let path = self.enter(start, None).unwrap_or_default();
                self.refuse(start, path, "an alias", "write the value itself here");
            }
            Event::Scalar(text, style, anchor, tag) => {
                let key = (*style == ScalarStyle::Plain, text.as_ref());
                let path = self.enter(start, Some(key));
                self.refuse_decoration(start, path.as_deref(), *anchor, tag.is_some());
            }
            Event::SequenceStart(anchor, tag) => {
                let path = self.enter(start, None);
                self.refuse_decoration(start, path.as_deref(), *anchor, tag.is_some());
                return self.open(start, path, |path| Open::Sequence { path, next: 0 });
            }
            Event::MappingStart(anchor, tag) => {
                let path = self.enter(start, None);
                self.refuse_decoration(start, path.as_deref(), *anchor, tag.is_some());
                return self.open(start, path, |path| Open::Mapping {
                    path,
                    pending: None,
                });
            }
            Event::SequenceEnd | Event::MappingEnd => {
                self.stack.pop();
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
        }
        true
    }

    /// Opens a mapping or sequence; false when there are too many within each other.
    fn open(&mut self, start: Place, path: Option<String>, open: fn(String) -> Open) -> bool {
        if self.stack.len() >= MAX_DEPTH {
            let message = format!("more than {MAX_DEPTH} levels within each other");
            self.refuse(start, String::new(), message, "");
            return false;
        }
        self.stack.push(path.map_or(Open::Ignored, open));
        true
    }

    /// Notes the node that starts here in its parent, and gives its path; none for what stands in a
    /// key that is no scalar. `scalar` is whether the node is plain, and its text, when it is one.
    fn enter(&mut self, start: Place, scalar: Option<(bool, &str)>) -> Option<String> {
        let (path, key) = match self.stack.last_mut() {
            None => (String::new(), start),
            Some(Open::Ignored) => return None,
            Some(Open::Sequence { path, next }) => {
                let item = format!("{path}[{next}]");
                *next += 1;
                (item, start)
            }
            Some(Open::Mapping { path, pending }) => match pending.take() {
                Some((path, key)) => (path, key),
                None => {
                    let path = path.clone();
                    return self.enter_key(start, path, scalar);
                }
            },
        };
        self.scan
            .positions
            .places
            .insert(path.clone(), Places { key, value: start });
        Some(path)
    }

    /// Notes a key of the innermost mapping, which is at `parent`.
    fn enter_key(
        &mut self,
        start: Place,
        parent: String,
        scalar: Option<(bool, &str)>,
    ) -> Option<String> {
        let Some((plain, text)) = scalar else {
            let message = "a list or mapping as a key";
            self.expect_value(child(&parent, ""), start);
            self.refuse(start, parent, message, "expected a name and a colon");
            return None;
        };
        let path = child(&parent, text);
        if plain && text == "<<" {
            self.refuse(
                start,
                path.clone(),
                "a merge key",
                "write the keys themselves here",
            );
        } else if let Some(first) = self.scan.positions.places.get(&path) {
            let (line, column) = (first.key.line, first.key.column);
            let message = format!("the key {} stands here a second time", quoted(text));
            let expected = format!("it was given first at {line}:{column}; keep one of them");
            self.note(start, path.clone(), message, expected);
            // The duplicate's own value has no place: what is read is the first one.
            self.expect_value(format!("{path}#{}", start.line), start);
            return Some(path);
        }
        self.expect_value(path.clone(), start);
        // Noted at once, so that a key whose value never comes is still a key.
        self.scan.positions.places.insert(
            path.clone(),
            Places {
                key: start,
                value: start,
            },
        );
        Some(path)
    }

    fn expect_value(&mut self, value_path: String, key: Place) {
        if let Some(Open::Mapping { pending, .. }) = self.stack.last_mut() {
            *pending = Some((value_path, key));
        }
    }

    fn refuse_decoration(&mut self, start: Place, path: Option<&str>, anchor: usize, tagged: bool) {
        let path = path.unwrap_or_default();
        if anchor != 0 {
            self.refuse(
                start,
                path.to_owned(),
                "an anchor (&)",
                "write the value where it is used",
            );
        }
        if tagged {
            self.refuse(
                start,
                path.to_owned(),
                "a tag (!)",
                "expected the plain value",
            );
        }
    }

    /// A mistake that leaves values unknown.
    fn refuse(&mut self, place: Place, path: String, message: impl Into<String>, expected: &str) {
        self.scan.readable = false;
        self.note(place, path, message.into(), expected.to_owned());
    }

    fn note(&mut self, place: Place, path: String, message: String, expected: String) {
        self.scan.mistakes.push(Mistake {
            file: self.name.to_owned(),
            path,
            line: place.line,
            column: place.column,
            message,
            expected,
        });
    }
}

/// The path of the key `name` within the mapping at `parent`. A name that is no word is quoted, so that
/// a dot in it is not taken for a step.
pub fn child(parent: &str, name: &str) -> String {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let name = if !name.is_empty() && name.bytes().all(word) {
        name.to_owned()
    } else {
        format!("{name:?}")
    };
    if parent.is_empty() {
        name
    } else {
        format!("{parent}.{name}")
    }
}

fn place(marker: &Marker) -> Place {
    Place {
        line: marker.line(),
        column: marker.col() + 1,
    }
}

/// Mappings and lists within each other; the contract needs six.
const MAX_DEPTH: usize = 32;
