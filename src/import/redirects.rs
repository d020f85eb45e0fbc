//! `rewrite … permanent` and `return 301` of paths as rows of `redirects`, where both send the same requests to the same place.
//!
//! A query goes along in a `rewrite`, not in a `return`, and in neither where its `?` is written at the end; the key has
//! the same mark. Where the rest of a path goes along, `from` is a folder and `to` ends with a slash.

use crate::settings::hosts;
use crate::site::redirects::Redirects;
use crate::site::settings::{Moved, RedirectRule};

use super::choice::compiled;
use super::nginx::directives::Directive;
use super::yaml::Value;

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The pattern of what is sent on.
    pub from: String,
    /// Where to; none: it is gone.
    pub to: Option<String>,
    /// The status.
    pub status: u16,
    /// Whether the pattern means its path with a slash at the end, too, as nginx does not.
    pub is_wider: bool,
}

/// What an expression means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meant {
    /// One path; with a slash at its end, too, or not.
    Path(String, bool),
    /// All paths that begin so; whether what follows is captured.
    Begins(String, bool),
}

/// The row of a `rewrite`.
#[must_use]
pub fn of_rewrite(rule: &Directive) -> Option<(Meant, Row)> {
    let (to, flag) = (rule.arg(1), rule.arg(2));
    let is_url = to.starts_with("http://") || to.starts_with("https://");
    let status = match flag {
        "permanent" => 301,
        "redirect" => 302,
        "" if is_url => 302,
        _ => return None,
    };
    of_expression(rule.arg(0), to, status, Query::IsAdded)
}

/// What becomes of a request's query where a destination has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query {
    /// It is put behind the destination's, as nginx does.
    IsAdded,
    /// The destination's takes its place, as Apache does.
    IsReplaced,
}

/// The row of an expression with a destination, which may end with what the expression's bracket has found.
#[must_use]
pub fn of_expression(
    expression: &str,
    to: &str,
    status: u16,
    query: Query,
) -> Option<(Meant, Row)> {
    let meant = meant(expression)?;
    let (whole, drops) = match to.strip_suffix('?') {
        Some(whole) => (whole, true),
        None => (to, false),
    };
    // These are decoded and encoded again, or variables.
    if whole.contains('%') {
        return None;
    }
    if let (Meant::Begins(folder, true), Some(base)) = (&meant, whole.strip_suffix("$1")) {
        let carries = folder.ends_with('/') && base.ends_with('/') && !base.contains('?') && !drops;
        let row = Row {
            from: folder.clone(),
            to: Some(destination(base).filter(|_| carries)?),
            status,
            is_wider: true,
        };
        return Some((meant, row));
    }
    let whole = destination(whole)?;
    let to = match (drops, whole.contains('?')) {
        (true, false) => format!("{whole}?"),
        (true, true) | (false, false) => whole,
        (false, true) if query == Query::IsReplaced => whole,
        // Both queries, in one.
        (false, true) => return None,
    };
    Some((meant.clone(), row(&meant, to, status)))
}

/// The row of a `return` for all that is meant.
#[must_use]
pub fn of_return(rule: &Directive, meant: &Meant) -> Option<Row> {
    let (status, to) = match rule.args.as_slice() {
        [status, to] => (status.parse().ok()?, to.as_str()),
        [to] => (302, to.as_str()),
        _ => return None,
    };
    if !matches!(status, 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let keeping = to
        .strip_suffix("$is_args$args")
        .or_else(|| to.strip_suffix("$is_args$query_string"));
    let to = match keeping {
        Some(to) => destination(to).filter(|to| !to.contains('?'))?,
        None => {
            let to = destination(to).filter(|to| !to.ends_with('?'))?;
            match to.contains('?') {
                true => to,
                false => format!("{to}?"),
            }
        }
    };
    Some(row(meant, to, status))
}

/// A path of the settings for one of nginx's, if it means one page.
#[must_use]
pub fn one_path(path: &str) -> Option<Meant> {
    let bare = path.strip_suffix('/').unwrap_or(path);
    is_plain(bare).then(|| Meant::Path(bare.to_owned(), false))
}

/// All that begins so.
#[must_use]
pub fn all_below(path: &str) -> Option<Meant> {
    (is_plain(path) && path != "/").then(|| Meant::Begins(path.to_owned(), false))
}

/// What an expression means, where that is a path or all that begins with one.
#[must_use]
pub fn meant(expression: &str) -> Option<Meant> {
    let mut rest = expression.strip_prefix('^')?.chars();
    let mut literal = String::new();
    loop {
        let here = rest.as_str();
        match rest.next() {
            Some('\\') => match rest.next() {
                Some(mark) if mark.is_ascii_punctuation() => literal.push(mark),
                _ => return None,
            },
            Some(plain) if plain.is_ascii_alphanumeric() || "/-_~,:;=@!&%'".contains(plain) => {
                literal.push(plain);
            }
            _ => {
                rest = here.chars();
                break;
            }
        }
    }
    let either = literal.strip_suffix('/').filter(|_| rest.as_str() == "?$");
    let meant = match rest.as_str() {
        "$" => one_path(&literal)?,
        "?$" => Meant::Path(either?.to_owned(), true),
        "" | ".*" | ".*$" => all_below(&literal)?,
        "(.*)" | "(.*)$" => match all_below(&literal)? {
            Meant::Begins(begin, _) => Meant::Begins(begin, true),
            path => path,
        },
        _ => return None,
    };
    match &meant {
        Meant::Path(path, _) | Meant::Begins(path, _) => is_plain(path).then_some(meant),
    }
}

/// Whether a rule that is not taken over may change what comes to one that means this, if it stands before it.
#[must_use]
pub fn may_concern(earlier: &Directive, meant: &Meant) -> bool {
    let begin = match meant {
        Meant::Path(path, _) | Meant::Begins(path, _) => path.as_str(),
    };
    let expression = earlier.arg(0);
    let fixed = fixed(expression);
    if !begin.starts_with(&fixed) && !fixed.starts_with(begin) {
        return false;
    }
    match (meant, compiled(expression, false)) {
        (Meant::Path(path, _), Some(found)) => {
            found.is_match(path) || found.is_match(&format!("{path}/"))
        }
        _ => true,
    }
}

/// What all paths begin with that an expression finds, if that is a folder at least.
#[must_use]
pub fn beginning(expression: &str) -> Option<String> {
    let fixed = fixed(expression);
    // The last letter, which is not among these, may have been the slash behind it.
    let is_folder = expression
        .strip_prefix("^/")
        .and_then(|rest| rest.get(..fixed.len()))
        .is_some_and(|rest| rest.contains('/') && !rest.starts_with('/'));
    is_folder.then_some(fixed)
}

/// The letters that an expression surely begins with.
fn fixed(expression: &str) -> String {
    let fixed: String = expression
        .strip_prefix('^')
        .unwrap_or_default()
        .chars()
        .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_'))
        .collect();
    // The last one may be optional, and with alternatives nothing is fixed.
    let last = match expression.contains('|') {
        true => 0,
        false => fixed.len().saturating_sub(1),
    };
    fixed.get(..last).unwrap_or_default().to_owned()
}

/// The positions of rows that lead back to themselves, over others or at once. `names` are hosts of sites.
#[must_use]
pub fn leading_back(rows: &[Row], names: &[String]) -> Vec<usize> {
    let rules: Vec<RedirectRule> = rows.iter().map(Row::rule).collect();
    let Ok(Some(compiled)) = Redirects::new(&rules) else {
        return Vec::new();
    };
    let next = |index: usize| {
        let to = rows.get(index)?.to.as_deref()?;
        let path = match to.split_once("://") {
            Some((_, rest)) => {
                let end = rest.find(['/', '?']).unwrap_or(rest.len());
                let (host, path) = rest.split_at_checked(end)?;
                let host = host.to_ascii_lowercase();
                names.contains(&host).then_some(path)?
            }
            None => to,
        };
        let path = path.split('?').next().unwrap_or_default();
        let decoded: Vec<u8> = percent_encoding::percent_decode_str(path).collect();
        compiled.position(&decoded)
    };
    let comes_back = |index: &usize| {
        let mut at = *index;
        for _ in 0..rows.len() {
            match next(at) {
                Some(back) if back == *index => return true,
                Some(other) => at = other,
                None => return false,
            }
        }
        false
    };
    (0..rows.len()).filter(comes_back).collect()
}

impl Row {
    /// The row as it is written.
    #[must_use]
    pub fn entry(&self) -> Vec<(String, Value)> {
        let mut row = vec![("from".to_owned(), Value::Text(self.from.clone()))];
        if let Some(to) = &self.to {
            row.push(("to".to_owned(), Value::Text(to.clone())));
        }
        if self.status != 301 {
            row.push(("status".to_owned(), Value::Word(self.status.to_string())));
        }
        row
    }

    fn rule(&self) -> RedirectRule {
        RedirectRule {
            from: self.from.clone(),
            to: match &self.to {
                Some(to) => Moved::To {
                    to: to.clone(),
                    status: self.status,
                },
                None => Moved::Gone,
            },
        }
    }
}

fn row(meant: &Meant, to: String, status: u16) -> Row {
    let (from, is_wider) = match meant {
        Meant::Path(path, with_slash) => (path.clone(), !with_slash),
        Meant::Begins(begin, _) => (format!("{begin}**"), false),
    };
    Row {
        from,
        to: Some(to),
        status,
        is_wider,
    }
}

/// A path or URL that stays as it is in both.
#[must_use]
pub fn destination(text: &str) -> Option<String> {
    let is_kept =
        |c: char| c.is_ascii_graphic() && !matches!(c, '$' | '\\' | '"' | '<' | '>' | '#');
    // Segments of dots are taken out of paths before they are compared.
    let path = text.split_once("://").map_or(text, |(_, rest)| rest);
    let is_normal = !path.contains("//") && !path.split('/').any(|s| matches!(s, "." | ".."));
    if !text.chars().all(is_kept) || !is_normal {
        return None;
    }
    if text.starts_with('/') {
        return (!text.starts_with("//")).then(|| text.to_owned());
    }
    let rest = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"))?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let host = rest.get(..end)?;
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => name,
        _ => host,
    };
    hosts::is_name(name).then(|| text.to_owned())
}

/// A path below the root that a pattern means by its own letters.
fn is_plain(path: &str) -> bool {
    path.len() > 1
        && path.starts_with('/')
        && path.chars().all(|c| c.is_ascii_graphic() && c != '*')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use std::rc::Rc;

    use super::*;
    use crate::import::nginx::directives::parse;

    fn directive(text: &str) -> Directive {
        let tree = parse(&Rc::from("n"), text.as_bytes()).unwrap();
        tree.into_iter().next().unwrap()
    }

    fn shown(row: &Row) -> String {
        let to = row.to.as_deref().unwrap_or("-");
        format!("{} {to} {}", row.from, row.status)
    }

    #[test]
    fn rewrites_have_rows_where_both_send_the_same() {
        for (text, expected) in [
            ("rewrite ^/old$ /new permanent;", Some("/old /new 301")),
            ("rewrite ^/old/?$ /new/ redirect;", Some("/old /new/ 302")),
            ("rewrite ^/old$ /new? permanent;", Some("/old /new? 301")),
            (
                "rewrite ^/old$ /new?a=b? permanent;",
                Some("/old /new?a=b 301"),
            ),
            (
                "rewrite ^/old/(.*)$ /new/$1 permanent;",
                Some("/old/ /new/ 301"),
            ),
            (
                "rewrite ^/old/(.*) https://b.example/$1 permanent;",
                Some("/old/ https://b.example/ 301"),
            ),
            (
                "rewrite ^/a\\.html$ https://b.example;",
                Some("/a.html https://b.example 302"),
            ),
            ("rewrite ^/old/ /new/ permanent;", Some("/old/** /new/ 301")),
            ("rewrite ^/old /new permanent;", Some("/old** /new 301")),
            ("rewrite ^/old$ /new?a=b permanent;", None),
            ("rewrite ^/old/(.*)$ /new$1 permanent;", None),
            ("rewrite ^/old/(.*)$ /new/$1? permanent;", None),
            ("rewrite ^/old/(.+)$ /new/$1 permanent;", None),
            ("rewrite ^/old(.*)$ /new/$1 permanent;", None),
            ("rewrite ^/old/(.*)$ /new/$1/x permanent;", None),
            ("rewrite ^/old/(.*)$ /new/$uri permanent;", None),
            ("rewrite ^/a(b|c)$ /new permanent;", None),
            ("rewrite ^/a*$ /new permanent;", None),
            ("rewrite ^/a.html$ /new permanent;", None),
            ("rewrite (?i)^/a$ /new permanent;", None),
            ("rewrite /old$ /new permanent;", None),
            ("rewrite ^/$ /new permanent;", None),
            ("rewrite ^/ /new permanent;", None),
            ("rewrite ^/old$ /new last;", None),
            ("rewrite ^/old$ /new;", None),
            ("rewrite ^/old$ //evil.example permanent;", None),
            ("rewrite ^/old$ https://evil_$host/ permanent;", None),
            ("rewrite ^/old$ /a%20b permanent;", None),
        ] {
            let row = of_rewrite(&directive(text)).map(|(_, row)| shown(&row));
            assert_eq!(row.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn returns_drop_the_query_unless_they_name_it() {
        let meant = one_path("/old").unwrap();
        for (text, expected) in [
            ("return 301 /new;", Some("/old /new? 301")),
            ("return 308 /new$is_args$args;", Some("/old /new 308")),
            ("return 302 /new?a=b;", Some("/old /new?a=b 302")),
            (
                "return https://b.example/;",
                Some("/old https://b.example/? 302"),
            ),
            ("return 301 /new?$args;", None),
            ("return 301 https://$host/new;", None),
            ("return 301 new;", None),
            ("return 301 javascript:alert(1);", None),
            ("return 200 /new;", None),
            ("return 301;", None),
        ] {
            let row = of_return(&directive(text), &meant).map(|row| shown(&row));
            assert_eq!(row.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn rules_before_it_may_concern_a_path() {
        let path = one_path("/old").unwrap();
        let below = all_below("/old/").unwrap();
        for (text, of_path, of_below) in [
            ("rewrite ^/other /x last;", false, false),
            ("rewrite ^/ol?d /x last;", true, true),
            ("rewrite ^/old/a$ /x last;", false, true),
            ("rewrite ^ /index.php last;", true, true),
            ("rewrite ^(/[^/]+)?(/wp-.*) $2 last;", false, true),
            ("rewrite (.)\\1 /x last;", true, true),
            ("rewrite ^/other|old /x last;", true, true),
        ] {
            let earlier = directive(text);
            assert_eq!(may_concern(&earlier, &path), of_path, "{text}");
            assert_eq!(may_concern(&earlier, &below), of_below, "{text}");
        }
    }

    #[test]
    fn rows_that_lead_back_are_found() {
        let rows: Vec<Row> = [
            ("/a", "/a/"),
            ("/b", "/c"),
            ("/c", "https://own.example/b?x"),
            ("/d/", "/d/e/"),
            ("/f", "https://other.example/f"),
            ("/g", "/b"),
        ]
        .into_iter()
        .map(|(from, to)| Row {
            from: from.to_owned(),
            to: Some(to.to_owned()),
            status: 301,
            is_wider: false,
        })
        .collect();
        let names = ["own.example".to_owned()];
        assert_eq!(leading_back(&rows, &names), [0, 1, 2, 3]);
    }
}
