//! The names that an `include` means: `*`, `?` and `[a-z]` within each segment of a path, as `glob(3)` has it.

use std::path::{Path, PathBuf};

use regex::Regex;

/// Whether the text is more than one name.
#[must_use]
pub fn has_wildcards(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// The paths that are there for `pattern`, sorted; `list` names what a folder holds.
pub fn matches(pattern: &Path, list: &dyn Fn(&Path) -> Vec<String>) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    for segment in pattern {
        let text = segment.to_string_lossy();
        let expression = has_wildcards(&text).then(|| expression(&text));
        found = match expression {
            None => found.into_iter().map(|path| path.join(segment)).collect(),
            Some(None) => Vec::new(),
            Some(Some(expression)) => {
                let within = |folder: PathBuf| {
                    let mut names = list(&folder);
                    names.retain(|name| expression.is_match(name) && is_shown(name, &text));
                    names.sort();
                    names.into_iter().map(move |name| folder.join(name))
                };
                found.into_iter().flat_map(within).take(MAX_FOUND).collect()
            }
        };
    }
    found
}

/// A leading dot is only met by a dot.
fn is_shown(name: &str, pattern: &str) -> bool {
    !name.starts_with('.') || pattern.starts_with('.')
}

fn expression(pattern: &str) -> Option<Regex> {
    let mut text = String::from("^");
    let mut rest = pattern.chars();
    while let Some(character) = rest.next() {
        match character {
            '*' => text.push_str(".*"),
            '?' => text.push('.'),
            '[' => {
                let set: String = rest.by_ref().take_while(|c| *c != ']').collect();
                let (not, set) = match set.strip_prefix('!') {
                    Some(set) => ("^", set.to_owned()),
                    None => ("", set),
                };
                text.push_str(&format!("[{not}{}]", set.replace(['\\', '[', '^'], "")));
            }
            other => text.push_str(&regex::escape(other.encode_utf8(&mut [0; 4]))),
        }
    }
    text.push('$');
    Regex::new(&text).ok()
}

const MAX_FOUND: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_are_within_a_segment() {
        let list = |folder: &Path| -> Vec<String> {
            let names: &[&str] = match folder.to_str() {
                Some("/n") => &["b", "a", ".hidden"],
                Some("/n/a") => &["2.conf", "1.conf", "x.bak"],
                Some("/n/b") => &["3.conf"],
                _ => &[],
            };
            names.iter().map(|name| (*name).to_owned()).collect()
        };
        let found = |pattern: &str| -> Vec<String> {
            let paths = matches(Path::new(pattern), &list);
            paths
                .iter()
                .map(|path| path.display().to_string())
                .collect()
        };
        assert_eq!(
            found("/n/*/*.conf"),
            ["/n/a/1.conf", "/n/a/2.conf", "/n/b/3.conf"]
        );
        assert_eq!(found("/n/[a]/[!1].conf"), ["/n/a/2.conf"]);
        assert_eq!(found("/m/*"), [""; 0]);
        assert_eq!(found("/n/a/1.conf"), ["/n/a/1.conf"]);
    }
}
