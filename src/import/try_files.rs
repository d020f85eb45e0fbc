//! `try_files`: what is asked when no file is there.

use super::nginx::directives::Directive;
use super::note::Notes;

/// What a `try_files` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// What comes last.
    pub last: Last,
    /// Whether pages that a cache plugin wrote are tried first.
    pub plugin_pages: bool,
}

/// What comes last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Last {
    /// `/index.php` of the root.
    FrontController,
    /// A named location.
    Named(String),
    /// An error, or nothing that Nostat has to be told.
    Nothing,
}

/// Whether it ends with more than a file or an error.
#[must_use]
pub fn reaches_further(tries: &Directive) -> bool {
    tries
        .args
        .last()
        .is_some_and(|last| !is_of_files(last) && !last.starts_with('='))
}

/// Reads a `try_files`.
pub fn read(tries: &Directive, notes: &mut Notes) -> Read {
    let mut read = Read {
        last: Last::Nothing,
        plugin_pages: false,
    };
    let Some((last, firsts)) = tries.args.split_last() else {
        return read;
    };
    for first in firsts {
        let is_page = first.contains("/cache/") && first.contains('$');
        if is_page && !read.plugin_pages {
            notes.note(
                tries,
                "page_cache",
                "pages of cache plugins are found by their own settings: page_cache: auto",
            );
        }
        read.plugin_pages |= is_page;
        if !is_page && !is_of_files(first) && !is_front_controller(first) {
            notes.left_out(tries, "", format!("{first} is not tried: a path is a file, a folder with its index, or the application's"));
        }
    }
    read.last = if is_front_controller(last) {
        Last::FrontController
    } else if last.starts_with('@') {
        Last::Named(last.clone())
    } else if last.starts_with('=') || is_of_files(last) {
        Last::Nothing
    } else if path(last).ends_with("/index.php") {
        notes.left_out(tries, "", "an application in a subfolder: give it a site of its own with its folder as root, or keep it in the server in front");
        Last::Nothing
    } else {
        notes.left_out(
            tries,
            "",
            format!("{last} is not sent for what is missing: only /index.php is"),
        );
        Last::Nothing
    };
    read
}

fn is_of_files(text: &str) -> bool {
    matches!(
        text,
        "$uri"
            | "$uri/"
            | "$request_uri"
            | "$request_filename"
            | "$fastcgi_script_name"
            | "$document_root$uri"
            | "$document_root$fastcgi_script_name"
    ) || text.trim_end_matches('/').ends_with("$uri") && text.starts_with('$')
}

fn is_front_controller(text: &str) -> bool {
    // The query follows `?`, or `$is_args` in its place.
    path(text) == "/index.php"
}

fn path(text: &str) -> &str {
    let text = text.split('?').next().unwrap_or_default();
    text.strip_suffix("$is_args$args")
        .or_else(|| text.strip_suffix("$is_args$query_string"))
        .unwrap_or(text)
}
