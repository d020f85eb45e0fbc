//! What the admin endpoints say in JSON, as tables for a terminal.

use serde_json::Value;

/// The files and pages of `GET /cache`.
#[must_use]
pub fn listing(said: &Value) -> String {
    let mut text = String::new();
    let files = rows(said, "files", |file| {
        vec![
            word(file, "path"),
            word(file, "kind"),
            size(file),
            word(file, "tier"),
            word(file, "vouched_by"),
            word(file, "uses"),
            seconds(file, "age"),
            seconds(file, "idle"),
            seconds(file, "next_look"),
        ]
    });
    let pages = rows(said, "pages", |page| {
        let host_and_path = word(page, "host") + &word(page, "path");
        let fresh = match page.get("fresh_for").and_then(Value::as_f64) {
            Some(left) => format!("fresh for {left:.0}s"),
            None => format!("stale for {}", seconds(page, "stale_for")),
        };
        let coded = if page.get("coded") == Some(&Value::Bool(true)) {
            "gzip, br"
        } else {
            "-"
        };
        vec![
            host_and_path,
            word(page, "status"),
            size(page),
            coded.to_owned(),
            seconds(page, "age"),
            fresh,
            list(page, "tags"),
        ]
    });
    if !files.is_empty() {
        let head = [
            "FILE",
            "KIND",
            "SIZE",
            "TIER",
            "VOUCHED BY",
            "USES",
            "AGE",
            "IDLE",
            "NEXT LOOK",
        ];
        text.push_str(&aligned(&head, &files));
    }
    if !pages.is_empty() {
        if !files.is_empty() {
            text.push('\n');
        }
        let head = ["PAGE", "STATUS", "SIZE", "CODED", "AGE", "STATE", "TAGS"];
        text.push_str(&aligned(&head, &pages));
    }
    if files.is_empty() && pages.is_empty() {
        text.push_str("nothing is held there\n");
    }
    if said.get("cut") == Some(&Value::Bool(true)) {
        text.push_str("… and more: give a longer prefix, or --limit\n");
    }
    text
}

/// The explanation of `GET /cache/entry`.
#[must_use]
pub fn explanation(said: &Value) -> String {
    let mut text = String::new();
    for site in said
        .get("sites")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let mut line = |name: &str, value: String| {
            text.push_str(&format!("{name:<12} {value}\n"));
        };
        line(
            "site",
            format!("{}, root {}", word(site, "site"), word(site, "root")),
        );
        line(
            "what",
            format!("{}: {}", word(site, "kind"), word(site, "why")),
        );
        if site.get("file").is_some_and(|file| !file.is_null()) {
            line("file", word(site, "file"));
        }
        match site.get("status").and_then(Value::as_u64) {
            Some(status) => line("answer", format!("{status}, made here")),
            None => line("answer", "by the application".to_owned()),
        }
        for head in site
            .get("head")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            line("", head.as_str().unwrap_or_default().to_owned());
        }
        text.push('\n');
        let held = serde_json::json!({ "files": site.get("entries"), "pages": site.get("pages") });
        text.push_str(&listing(&held));
        text.push('\n');
    }
    text
}

/// The numbers of a purge or a warming, in words.
#[must_use]
pub fn numbers(said: &Value, done: &str) -> String {
    let numbers = ["files", "pages"].iter().filter_map(|name| {
        let number = said.get(name)?.as_u64()?;
        Some(format!("{number} {name}"))
    });
    let cut = if said.get("cut") == Some(&Value::Bool(true)) {
        ", there are more"
    } else {
        ""
    };
    format!("{done}: {}{cut}\n", numbers.collect::<Vec<_>>().join(", "))
}

fn rows(said: &Value, name: &str, row: impl Fn(&Value) -> Vec<String>) -> Vec<Vec<String>> {
    let items = said.get(name).and_then(Value::as_array);
    items.into_iter().flatten().map(row).collect()
}

fn word(of: &Value, name: &str) -> String {
    match of.get(name) {
        // Names of files may hold anything; a terminal obeys some of it.
        Some(Value::String(text)) => text.chars().map(plain).collect(),
        Some(Value::Null) | None => "-".to_owned(),
        Some(other) => other.to_string(),
    }
}

/// Also without what turns the direction of writing.
fn plain(character: char) -> char {
    let turns = matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    match character.is_control() || turns {
        true => '?',
        false => character,
    }
}

fn seconds(of: &Value, name: &str) -> String {
    let number = of.get(name).and_then(Value::as_f64);
    number.map_or("-".to_owned(), |number| format!("{number:.0}s"))
}

fn size(of: &Value) -> String {
    of.get("size")
        .and_then(Value::as_u64)
        .map_or("-".to_owned(), |bytes| match bytes {
            0..10_240 => format!("{bytes}"),
            10_240..10_485_760 => format!("{} KiB", bytes >> 10),
            _ => format!("{} MiB", bytes >> 20),
        })
}

fn list(of: &Value, name: &str) -> String {
    let items = of.get(name).and_then(Value::as_array).into_iter().flatten();
    let words: Vec<&str> = items.filter_map(Value::as_str).collect();
    match words.is_empty() {
        true => "-".to_owned(),
        false => words.join(" "),
    }
}

fn aligned(head: &[&str], rows: &[Vec<String>]) -> String {
    let head: Vec<String> = head.iter().map(|&name| name.to_owned()).collect();
    let mut widths: Vec<usize> = head.iter().map(|name| name.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in std::iter::once(&head).chain(rows) {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(&format!("{cell:<width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_stand_below_each_other_and_names_cannot_speak_to_the_terminal() {
        let said = json!({
            "files": [
                {"path": "/a.css", "kind": "file", "size": 12, "tier": "memory", "vouched_by": "watch", "uses": 2, "age": 1.2, "idle": 0.0, "next_look": 299.0},
                {"path": "/\u{1b}[2Jlong-name.css", "kind": "missing", "tier": "none", "vouched_by": "valid", "uses": 0, "age": 0.1, "idle": 0.0, "next_look": 2.0},
            ],
            "pages": [{"host": "example.com", "path": "/", "status": 200, "size": 20480, "coded": true, "age": 3.0, "fresh_for": 57.0, "tags": ["a", "b"]}],
            "cut": true,
        });
        let text = listing(&said);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines.first().and_then(|line| line.find("KIND")),
            lines.get(1).and_then(|line| line.find("file "))
        );
        assert!(!text.contains('\u{1b}'), "{text:?}");
        assert!(
            text.contains("example.com/  200     20 KiB  gzip, br  3s   fresh for 57s  a b"),
            "{text}"
        );
        assert!(text.ends_with("--limit\n"));
        assert_eq!(listing(&json!({})), "nothing is held there\n");
    }

    #[test]
    fn numbers_in_words() {
        assert_eq!(
            numbers(&json!({"files": 3, "pages": 0}), "forgotten"),
            "forgotten: 3 files, 0 pages\n"
        );
        assert_eq!(
            numbers(&json!({"files": 3, "cut": true}), "taken in"),
            "taken in: 3 files, there are more\n"
        );
    }
}
