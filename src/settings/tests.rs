#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a failed unwrap or index fails the test, and tests look at their own files"
)]

mod acme;
mod conf;
mod structure;
mod values;

use super::*;

/// The settings that a text on any machine gives.
fn read(text: &str) -> Settings {
    parse("nostat.yaml", text.as_bytes(), Checks::TextOnly).unwrap_or_else(|mistakes| {
        let mistakes: Vec<_> = mistakes.iter().map(ToString::to_string).collect();
        panic!("{}\n{text}", mistakes.join("\n"))
    })
}

/// The mistakes of a text, as the user sees them.
fn mistakes(text: impl AsRef<[u8]>) -> Vec<String> {
    let mistakes = parse("nostat.yaml", text.as_ref(), Checks::TextOnly).unwrap_err();
    mistakes.iter().map(ToString::to_string).collect()
}

/// The mistakes of a text that has nothing wrong but `extra`, which comes after a site in three lines.
fn mistakes_of(extra: &str) -> Vec<String> {
    mistakes(format!("{SITE}{extra}"))
}

/// The mistakes of a site's `key: value`, which stands in line 3, column 5.
fn mistakes_of_site(line: &str) -> Vec<String> {
    mistakes(format!(
        "sites:\n  - root: /srv\n    {line}\n    preset: static\n"
    ))
}

const SITE: &str = "sites:\n  - root: /srv/wordpress\n    php: \"127.0.0.1:9000\"\n";
