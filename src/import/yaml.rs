//! The settings file: keys in the order of `conf/nostat.yaml`, each with the notes that belong to it as comments.

use super::note::{Note, Weight};

/// What stands behind a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number, a word, a duration: as it is.
    Word(String),
    /// Text, in quotes where YAML needs them.
    Text(String),
    /// Texts, on one line or one for each.
    Texts(Vec<String>),
    /// Keys and values on lines of their own.
    Section(Vec<Entry>),
    /// Keys and values in braces.
    Flow(Vec<(String, Value)>),
    /// A list of those.
    Flows(Vec<Vec<(String, Value)>>),
    /// A list of values on one line each, and of sections.
    List(Vec<Value>),
    /// A list of sections, such as the sites.
    Sections(Vec<Vec<Entry>>),
}

/// A key, its value, and what is said before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key; empty: only notes.
    pub key: &'static str,
    /// The value.
    pub value: Value,
    /// Comments before it.
    pub comments: Vec<String>,
}

impl Entry {
    /// A key without comments.
    #[must_use]
    pub fn new(key: &'static str, value: Value) -> Entry {
        Entry {
            key,
            value,
            comments: Vec::new(),
        }
    }
}

/// Puts each note before its key; those whose key is not there come first.
pub fn annotate(entries: &mut [Entry], notes: &[Note]) {
    let has = |entries: &[Entry], key: &str| entries.iter().any(|entry| entry.key == key);
    let ordered = [Weight::LeftOut, Weight::Note]
        .into_iter()
        .flat_map(|weight| notes.iter().filter(move |note| note.weight == weight));
    for note in ordered {
        let at = match has(entries, note.key) {
            true => entries.iter_mut().find(|entry| entry.key == note.key),
            false => entries.first_mut(),
        };
        if let Some(entry) = at {
            entry.comments.push(note.to_string());
        }
    }
}

/// The text of a file with these keys.
#[must_use]
pub fn write(entries: &[Entry]) -> String {
    let mut text = String::new();
    section(&mut text, entries, 0, "");
    text
}

/// Lines of comments, broken where they are long.
pub fn comment(text: &mut String, said: &str, indent: usize) {
    let said: String = said.chars().map(visible).collect();
    let mut line = format!("{:indent$}#", "");
    for word in said.split(' ') {
        if line.chars().count() + word.chars().count() > WIDTH && !line.trim_end().ends_with('#') {
            text.push_str(&line);
            text.push('\n');
            line = format!("{:indent$}#  ", "");
        }
        line.push(' ');
        line.push_str(word);
    }
    text.push_str(&line);
    text.push('\n');
}

/// The first entry's line begins with `bullet`, which takes the place of as much indentation.
fn section(text: &mut String, entries: &[Entry], indent: usize, bullet: &str) {
    let mut bullet = bullet;
    for entry in entries {
        // Comments of a list's first key stand before the item.
        let outer = indent - bullet.len();
        for said in &entry.comments {
            comment(text, said, outer);
        }
        if entry.key.is_empty() {
            continue;
        }
        text.push_str(&format!("{:outer$}{bullet}{}:", "", entry.key));
        bullet = "";
        value(text, &entry.value, indent);
    }
}

fn value(text: &mut String, shown: &Value, indent: usize) {
    match shown {
        Value::Word(_) | Value::Flow(_) => text.push_str(&format!(" {}\n", flow(shown))),
        Value::Text(plain) => text.push_str(&format!(" {}\n", scalar(plain))),
        Value::Texts(list) => {
            let line = flow(shown);
            if line.len() + indent < WIDTH {
                text.push_str(&format!(" {line}\n"));
                return;
            }
            text.push('\n');
            for item in list {
                text.push_str(&format!("{:indent$}  - {}\n", "", quoted(item)));
            }
        }
        Value::Section(entries) => {
            text.push('\n');
            section(text, entries, indent + 2, "");
        }
        Value::Flows(rows) => {
            text.push('\n');
            for row in rows {
                let row = flow(&Value::Flow(row.clone()));
                text.push_str(&format!("{:indent$}  - {row}\n", ""));
            }
        }
        Value::List(items) => {
            text.push('\n');
            for item in items {
                match item {
                    Value::Section(entries) => section(text, entries, indent + 4, "- "),
                    one => text.push_str(&format!("{:indent$}  - {}\n", "", flow(one))),
                }
            }
        }
        Value::Sections(items) => {
            text.push('\n');
            for item in items {
                section(text, item, indent + 4, "- ");
            }
        }
    }
}

/// A value on one line.
fn flow(value: &Value) -> String {
    match value {
        Value::Word(word) => word.clone(),
        Value::Text(text) => quoted(text),
        Value::Texts(list) => {
            let items: Vec<_> = list.iter().map(|item| quoted(item)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Flow(pairs) => {
            let pairs: Vec<_> = pairs
                .iter()
                .map(|(key, value)| format!("{}: {}", scalar(key), flow(value)))
                .collect();
            format!("{{{}}}", pairs.join(", "))
        }
        // None of these is ever within braces.
        Value::Section(_) | Value::Flows(_) | Value::List(_) | Value::Sections(_) => {
            String::from("{}")
        }
    }
}

/// A text alone on its line, with quotes where YAML needs them.
fn scalar(text: &str) -> String {
    let shown = serde_yaml::to_string(text).unwrap_or_default();
    let shown = shown.trim_end();
    // A break of the line would be one of the file.
    match shown.is_empty() || shown.contains('\n') {
        true => quoted(text),
        false => shown.to_owned(),
    }
}

/// JSON's strings are YAML's too, and safe between brackets.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

/// A settings file holds no invisible characters, in comments either.
fn visible(character: char) -> char {
    match is_text(character) {
        true => character,
        false => '?',
    }
}

/// Whether a settings file may hold it.
#[must_use]
pub fn is_text(character: char) -> bool {
    !character.is_control()
        && !matches!(
            character,
            '\u{2028}' | '\u{2029}' | '\u{FEFF}' | '\u{FFFE}' | '\u{FFFF}'
        )
}

const WIDTH: usize = 110;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_lists_and_comments() {
        let site = vec![
            Entry {
                comments: vec!["said of the site".into()],
                ..Entry::new(
                    "hosts",
                    Value::Texts(vec!["a.example".into(), "*.b".into()]),
                )
            },
            Entry::new("root", Value::Text("/srv/a b: c".into())),
            Entry::new(
                "headers",
                Value::Flows(vec![vec![
                    ("match".into(), Value::Text("/".into())),
                    (
                        "set".into(),
                        Value::Flow(vec![("X-A".into(), Value::Text("1".into()))]),
                    ),
                ]]),
            ),
        ];
        let text = write(&[
            Entry::new("workers", Value::Word("2".into())),
            Entry::new(
                "limits",
                Value::Section(vec![Entry::new("send", Value::Word("5s".into()))]),
            ),
            Entry::new("sites", Value::Sections(vec![site])),
        ]);
        let expected = "\
workers: 2
limits:
  send: 5s
sites:
  # said of the site
  - hosts: [\"a.example\", \"*.b\"]
    root: '/srv/a b: c'
    headers:
      - {match: \"/\", set: {X-A: \"1\"}}
";
        assert_eq!(text, expected);
    }

    #[test]
    fn comments_are_lines_of_text() {
        let mut text = String::new();
        comment(
            &mut text,
            &format!("a\nb\u{2028} {}", "word ".repeat(40)),
            2,
        );
        assert!(
            text.lines()
                .all(|line| line.starts_with("  # ") && line.len() <= WIDTH + 2),
            "{text}"
        );
        assert!(text.starts_with("  # a?b? word"));
    }
}
