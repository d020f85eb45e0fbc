//! What a `location` matches, as patterns of the settings.
//!
//! A regular expression is one as far as it says what globs can say: literal text, `.*`, `[^/]+`, alternatives,
//! `?`, small sets of characters, `^` and `$`. Anything else has no pattern, and the caller says so.

use crate::settings::rules;

/// What stands between `location` and its block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Matcher {
    /// `= /path`
    Exact(String),
    /// `/path` or `^~ /path`
    Prefix(String),
    /// `~ expression` or `~* expression`
    Regex(String),
    /// `@name`
    Named(String),
}

impl Matcher {
    /// Reads the words of a location.
    #[must_use]
    pub fn parse(words: &[String]) -> Matcher {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["=", path] => Matcher::Exact((*path).to_owned()),
            ["^~", path] => Matcher::Prefix((*path).to_owned()),
            ["~" | "~*", expression] => Matcher::Regex((*expression).to_owned()),
            [word] if word.starts_with('@') => Matcher::Named((*word).to_owned()),
            // nginx takes the sign and the path as one word too.
            [word] => match word.strip_prefix("~*").or_else(|| word.strip_prefix('~')) {
                Some(expression) => Matcher::Regex(expression.to_owned()),
                None => match (word.strip_prefix('='), word.strip_prefix("^~")) {
                    (Some(path), _) => Matcher::Exact(path.to_owned()),
                    (_, Some(path)) => Matcher::Prefix(path.to_owned()),
                    (None, None) => Matcher::Prefix((*word).to_owned()),
                },
            },
            _ => Matcher::Regex(words.join(" ")),
        }
    }

    /// The text of it.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Exact(text) | Self::Prefix(text) | Self::Regex(text) | Self::Named(text) => text,
        }
    }

    /// Whether this is all of the site.
    #[must_use]
    pub fn is_all(&self) -> bool {
        matches!(self, Self::Prefix(path) if path == "/")
    }

    /// Whether scripts of PHP are meant: the suffix stands at the end of an expression.
    #[must_use]
    pub fn is_php(&self) -> bool {
        matches!(self, Self::Regex(text) if text.contains("php") && !text.contains("(?!") && !text.contains("uploads"))
    }

    /// The patterns that match the same paths; none: there are no such.
    #[must_use]
    pub fn patterns(&self) -> Option<Vec<String>> {
        let patterns = match self {
            Self::Exact(path) => vec![path.clone()],
            // A name at the end may go on: `/private` is also `/private-2`.
            Self::Prefix(path) if path.ends_with('/') => vec![path.clone()],
            Self::Prefix(path) => vec![format!("{path}**")],
            Self::Regex(text) => return of_expression(text),
            Self::Named(_) => return None,
        };
        let usable = |text: &String| rules::pattern(text).is_ok();
        patterns.iter().all(usable).then_some(patterns)
    }
}

/// Patterns for a regular expression that is searched for in paths.
#[must_use]
pub fn of_expression(text: &str) -> Option<Vec<String>> {
    let visible = without_well_known(text);
    let mut reader = Reader {
        rest: visible.chars().peekable(),
    };
    let found = reader.alternatives(0)?;
    if reader.rest.peek().is_some() {
        return None;
    }
    let mut patterns: Vec<String> = Vec::new();
    for text in found {
        let pattern = anchored(&text).filter(|text| rules::pattern(text).is_ok())?;
        if !patterns.contains(&pattern) {
            patterns.push(pattern);
        }
    }
    Some(patterns)
}

#[must_use]
/// A look-ahead that leaves out `.well-known`, which dotfile rules have: Nostat leaves it out of its own.
pub fn without_well_known(text: &str) -> String {
    let Some((before, after)) = text.split_once("(?!") else {
        return text.to_owned();
    };
    let mut depth = 1_usize;
    let end = after.find(|character| {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    match end.and_then(|end| after.split_at_checked(end)) {
        Some((inside, after)) if inside.contains("well-known") => {
            let after = after.strip_prefix(')').unwrap_or(after);
            format!("{before}{}", after.strip_prefix('*').unwrap_or(after))
        }
        _ => text.to_owned(),
    }
}

/// One alternative with its anchors as a pattern: what has no anchor goes on at that side.
fn anchored(text: &str) -> Option<String> {
    let (begin, text) = match text.strip_prefix(BEGIN) {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (end, text) = match text.strip_suffix(END) {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    if text.contains([BEGIN, END]) {
        return None;
    }
    let pattern = match (begin, end) {
        (true, _) if !text.starts_with(['/', '*']) => return None,
        // `^.+\.css$` is no more than `\.css$`.
        (true, true) if text.starts_with("**.") && !text.contains('/') => {
            text.replacen("**", "*", 1)
        }
        (true, true) => text.to_owned(),
        (true, false) => format!("{text}**"),
        // `\.css$` is about the last segment: `*.css`.
        (false, true) if !text.contains('/') && text.starts_with('.') => format!("*{text}"),
        (false, true) => format!("/**{text}"),
        (false, false) => format!("/**{text}**"),
    };
    let mut pattern = pattern;
    while pattern.contains("***") {
        pattern = pattern.replace("***", "**");
    }
    let pattern = pattern.replace("/**/**", "/**");
    // A folder and all below it has a shorter name.
    let short = pattern
        .strip_suffix("/**")
        .filter(|_| pattern.starts_with('/'));
    Some(match short {
        Some(folder) if !folder.contains('*') => format!("{folder}/"),
        _ => pattern,
    })
}

struct Reader<'t> {
    rest: std::iter::Peekable<std::str::Chars<'t>>,
}

impl Reader<'_> {
    /// `a|b|c` up to a closing bracket or the end.
    fn alternatives(&mut self, depth: usize) -> Option<Vec<String>> {
        if depth > MAX_DEPTH {
            return None;
        }
        let mut all = self.sequence(depth)?;
        while self.rest.next_if_eq(&'|').is_some() {
            all.extend(self.sequence(depth)?);
        }
        (all.len() <= MAX_PATTERNS).then_some(all)
    }

    fn sequence(&mut self, depth: usize) -> Option<Vec<String>> {
        let mut found = vec![String::new()];
        while let Some(&next) = self.rest.peek() {
            if matches!(next, '|' | ')') {
                break;
            }
            let atom = self.atom(depth)?;
            let atom = self.repeated(atom)?;
            let joined = found
                .iter()
                .flat_map(|head| atom.iter().map(move |tail| format!("{head}{tail}")));
            found = joined.collect();
            if found.len() > MAX_PATTERNS {
                return None;
            }
        }
        Some(found)
    }

    fn atom(&mut self, depth: usize) -> Option<Vec<String>> {
        let one = |text: &str| Some(vec![text.to_owned()]);
        match self.rest.next()? {
            '^' => Some(vec![BEGIN.to_string()]),
            '$' => Some(vec![END.to_string()]),
            '.' => Some(vec![ANY.to_string()]),
            '(' => {
                if self.rest.next_if_eq(&'?').is_some() {
                    // Named groups and look-around have no pattern, `(?:` is a bracket.
                    self.rest.next_if_eq(&':')?;
                }
                let inner = self.alternatives(depth + 1)?;
                self.rest.next_if_eq(&')')?;
                Some(inner)
            }
            '[' => self.set(),
            '\\' => match self.rest.next()? {
                'z' | 'Z' => Some(vec![END.to_string()]),
                // Classes, assertions, and what a group has found.
                special if special.is_ascii_alphanumeric() => None,
                other => one(other.encode_utf8(&mut [0; 4])),
            },
            '*' | '+' | '?' | '{' | '}' => None,
            other => one(other.encode_utf8(&mut [0; 4])),
        }
    }

    /// `[abc]` as its characters, `[^/]` as what a star stands for.
    fn set(&mut self) -> Option<Vec<String>> {
        let mut text = String::new();
        loop {
            match self.rest.next()? {
                ']' if !text.is_empty() => break,
                '\\' => text.push(self.rest.next()?),
                other => text.push(other),
            }
        }
        if text == "^/" {
            return Some(vec![SEGMENT.to_string()]);
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/');
        (text.chars().all(plain) && text.len() <= MAX_SET)
            .then(|| text.chars().map(String::from).collect())
    }

    /// What a `?`, `*` or `+` behind an atom makes of it.
    fn repeated(&mut self, atom: Vec<String>) -> Option<Vec<String>> {
        let single = |text: &str, mark: char| {
            let mut characters = text.chars();
            characters.next() == Some(mark) && characters.next().is_none()
        };
        let first = atom.first()?.clone();
        let star = match () {
            () if single(&first, ANY) => Some("**"),
            () if single(&first, SEGMENT) => Some("*"),
            () => None,
        };
        match (self.rest.peek(), star) {
            (Some('*' | '+'), Some(star)) => {
                self.rest.next();
                // `.*?` is as wide as `.*`.
                self.rest.next_if_eq(&'?');
                Some(vec![star.to_owned()])
            }
            (Some('?'), None) => {
                self.rest.next();
                let mut either = atom;
                either.push(String::new());
                Some(either)
            }
            (Some('*' | '+' | '?' | '{'), _) => None,
            // Many write `.` and mean the dot of a suffix.
            (_, Some("**")) => Some(vec![".".to_owned()]),
            (_, Some(_)) => None,
            (_, None) => Some(atom),
        }
    }
}

// Marks that stand in no path.
const BEGIN: char = '\u{1}';
const END: char = '\u{2}';
const ANY: char = '\u{3}';
const SEGMENT: char = '\u{4}';
const MAX_DEPTH: usize = 16;
const MAX_PATTERNS: usize = 128;
const MAX_SET: usize = 10;

#[cfg(test)]
mod tests;
