//! From the bytes of a settings file to text that a YAML reader may see.
//!
//! A byte order mark and CRLF line ends are accepted, for editors write them. What YAML readers treat
//! differently from each other (invisible characters, tabs that indent) is refused here, with its place.

use super::mistake::{Mistake, Place};

/// The text of a file, without its byte order mark; or every place that keeps it from being text.
pub fn read<'b>(name: &str, bytes: &'b [u8]) -> Result<&'b str, Vec<Mistake>> {
    let mistake = |place: Place, message: &str, expected: &str| Mistake {
        file: name.to_owned(),
        path: String::new(),
        line: place.line,
        column: place.column,
        message: message.to_owned(),
        expected: expected.to_owned(),
    };
    if bytes.len() > MAX_BYTES {
        let message = format!("the file is larger than {MAX_BYTES} bytes");
        return Err(vec![mistake(
            Place::default(),
            &message,
            "expected a settings file",
        )]);
    }
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let valid = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let place = end_of(&String::from_utf8_lossy(valid));
        vec![mistake(
            place,
            "not UTF-8",
            "expected the file to be saved as UTF-8",
        )]
    })?;
    if let Some((at, character)) = text.char_indices().find(|(_, c)| is_no_text(*c)) {
        let message = match character {
            '\0' => "a NUL character".to_owned(),
            other => format!("the invisible character U+{:04X}", u32::from(other)),
        };
        let place = end_of(text.get(..at).unwrap_or_default());
        return Err(vec![mistake(place, &message, "expected text")]);
    }
    let tabs: Vec<_> = text
        .lines()
        .enumerate()
        .filter_map(|(index, line)| {
            let column = indenting_tab(line)?;
            let line = index + 1;
            Some(mistake(
                Place { line, column },
                "a tab in the indentation",
                "expected spaces",
            ))
        })
        .collect();
    if tabs.is_empty() { Ok(text) } else { Err(tabs) }
}

/// Control characters, marks of byte order, and what is a line break in YAML 1.1 and none in 1.2.
fn is_no_text(character: char) -> bool {
    match character {
        '\n' | '\r' | '\t' => false,
        '\u{2028}' | '\u{2029}' | '\u{FEFF}' | '\u{FFFE}' | '\u{FFFF}' => true,
        other => other.is_control(),
    }
}

/// The column of a tab that stands before the first visible character of a line.
fn indenting_tab(line: &str) -> Option<usize> {
    let content = line.trim_start_matches([' ', '\t']);
    if content.trim().is_empty() || content.starts_with('#') {
        return None;
    }
    let indentation = line.len() - content.len();
    line.bytes()
        .take(indentation)
        .position(|byte| byte == b'\t')
        .map(|index| index + 1)
}

/// The place right after `before`, the text from the start of the file.
fn end_of(before: &str) -> Place {
    let last = before.rsplit('\n').next().unwrap_or_default();
    Place {
        line: before.matches('\n').count() + 1,
        column: last.chars().count() + 1,
    }
}

/// Largest file that is read: a settings file is a thousand times smaller.
pub const MAX_BYTES: usize = 1 << 20;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
