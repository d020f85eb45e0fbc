//! Which file names a Files or FilesMatch section is about.

use regex::bytes::{Regex, RegexBuilder};

use crate::site::htaccess::Verdict;

/// Which file names a section is about.
#[derive(Debug, Clone)]
pub enum Matcher {
    /// Those that the expression matches and that begin as all of `ahead` say.
    Expression {
        /// What is left of the expression.
        expression: Regex,
        /// `(?=…)` (true) and `(?!…)` (false) at its beginning.
        ahead: Vec<(bool, Regex)>,
    },
    /// An expression that cannot be compiled here: whom it would deny is denied, whom it would grant is not.
    Unreadable,
}

impl Matcher {
    /// Whether a section with this verdict counts for a file of this name.
    #[must_use]
    pub fn applies(&self, file_name: &[u8], verdict: Verdict) -> bool {
        match self {
            Matcher::Expression { expression, ahead } => {
                ahead
                    .iter()
                    .all(|(wanted, ahead)| ahead.is_match(file_name) == *wanted)
                    && expression.is_match(file_name)
            }
            Matcher::Unreadable => verdict == Verdict::Denied,
        }
    }

    /// A regular expression of PCRE's language. Of what looks around, only `^(?!…)` and `^(?=…)` are understood.
    #[must_use]
    pub fn expression(text: &str) -> Matcher {
        Matcher::compiled(text).unwrap_or(Matcher::Unreadable)
    }

    fn compiled(text: &str) -> Option<Matcher> {
        let (flags, body) = match text.strip_prefix("(?i)") {
            Some(body) => ("(?i)", body),
            None => ("", text),
        };
        let mut ahead = Vec::new();
        let mut rest = body.strip_prefix('^').unwrap_or_default();
        while let Some((wanted, group)) = [(false, "(?!"), (true, "(?=")]
            .into_iter()
            .find_map(|(wanted, start)| Some((wanted, rest.strip_prefix(start)?)))
        {
            let (inner, after) = group.split_at_checked(outermost(group, b')')?)?;
            ahead.push((wanted, compile(&format!("{flags}^(?:{inner})"))?));
            rest = after.strip_prefix(')')?;
        }
        let expression = if ahead.is_empty() {
            compile(text)?
        } else if outermost(rest, b'|').is_some() || rest.starts_with(['?', '*', '+', '{']) {
            // What was taken off belongs to a part only.
            return None;
        } else {
            compile(&format!("{flags}^{rest}"))?
        };
        Some(Matcher::Expression { expression, ahead })
    }

    /// As `fnmatch` has it: `*`, `?`, `[abc]`, `[!abc]`, and `\\` before what stands for itself.
    #[must_use]
    pub fn wildcard(text: &str) -> Matcher {
        let mut expression = String::from("(?s)^");
        let mut characters = text.chars();
        let mut set = false;
        while let Some(character) = characters.next() {
            match character {
                '*' if !set => expression.push_str(".*"),
                '?' if !set => expression.push('.'),
                '[' if !set => {
                    set = true;
                    expression.push('[');
                    if let Some(rest) = characters.as_str().strip_prefix(['!', '^']) {
                        characters = rest.chars();
                        expression.push('^');
                    }
                }
                ']' if set => {
                    set = false;
                    expression.push(']');
                }
                '-' if set => expression.push('-'),
                other => {
                    let literal = match other {
                        '\\' => characters.next().unwrap_or(other),
                        other => other,
                    };
                    expression.push_str(&regex::escape(literal.encode_utf8(&mut [0; 4])));
                }
            }
        }
        expression.push('$');
        Matcher::expression(&expression)
    }
}

fn compile(text: &str) -> Option<Regex> {
    RegexBuilder::new(text)
        .unicode(false)
        .size_limit(EXPRESSION_LIMIT)
        .build()
        .ok()
}

/// Where this byte first stands outside of groups, sets and escapes.
fn outermost(text: &str, wanted: u8) -> Option<usize> {
    let mut depth = 0_usize;
    let mut set_began = None;
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match (byte, set_began) {
            (b'\\', _) => {
                bytes.next();
            }
            // The first member of a set may be its end's sign.
            (b']', Some(began)) if at > began + 1 => set_began = None,
            (b'^', Some(began)) if at == began + 1 => set_began = Some(at),
            (_, Some(_)) => {}
            (b'[', None) => set_began = Some(at),
            (byte, None) if byte == wanted && depth == 0 => return Some(at),
            (b'(', None) => depth += 1,
            (b')', None) => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    None
}

/// Bytes of one compiled expression.
const EXPRESSION_LIMIT: usize = 1024 * 1024;
