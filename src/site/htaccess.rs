//! The access rules of `.htaccess` files: text in, rules out, a verdict for a file's name.
//!
//! Only access rules are read: Order, Allow, Deny (Apache 2.2) and Require (2.4), bare or in IfModule, Files,
//! FilesMatch, Limit and Require containers. What cannot be verified here (addresses, hosts, users, environment)
//! denies, unless all are granted beside it; other directives are left alone. Merging follows Apache's "How the
//! sections are merged": folders from the root inwards, then Files sections from the root inwards, the later wins.

use crate::site::htaccess::matcher::Matcher;
use crate::site::htaccess::statements::Statements;

pub mod matcher;
pub mod statements;

/// What rules say of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing: what stands outside of it counts.
    Unsaid,
    /// Everybody may have it.
    Granted,
    /// Not everybody may have it.
    Denied,
}

/// The access rules of one `.htaccess`.
#[derive(Debug, Clone)]
pub struct Rules {
    folder: Verdict,
    files: Vec<(Matcher, Verdict)>,
    /// An expression that is not understood here, as it is written.
    unreadable: Option<String>,
}

impl Rules {
    /// Rules that deny everything: a file that cannot be read says what it says to nobody.
    #[must_use]
    pub fn deny_all() -> Rules {
        Rules {
            folder: Verdict::Denied,
            files: Vec::new(),
            unreadable: None,
        }
    }

    /// Reads the access rules out of the text of a `.htaccess`.
    #[must_use]
    pub fn parse(text: &[u8]) -> Rules {
        let mut reader = Reader::new();
        for line in logical_lines(text) {
            reader.line(&line);
        }
        reader.finish()
    }

    /// The last expression that is not understood here: what it would deny is denied for every name.
    #[must_use]
    pub fn unreadable(&self) -> Option<&str> {
        self.unreadable.as_deref()
    }

    /// Whether the file has any access rule.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.folder == Verdict::Unsaid && self.files.is_empty()
    }
}

/// What the rules of all folders above a file, the root's first, say of a file of this name.
pub fn evaluate<'r>(rules: impl Iterator<Item = &'r Rules> + Clone, file_name: &[u8]) -> Verdict {
    let folders = rules.clone().map(|r| r.folder);
    let files = rules
        .flat_map(|r| &r.files)
        .filter(|(matcher, verdict)| matcher.applies(file_name, *verdict))
        .map(|&(_, verdict)| verdict);
    folders
        .chain(files)
        .filter(|&verdict| verdict != Verdict::Unsaid)
        .last()
        .unwrap_or(Verdict::Unsaid)
}

/// A section that has been opened.
enum Section {
    /// Its content counts as if it stood outside.
    Transparent,
    /// Its content does not count.
    Skipped,
    /// Files or FilesMatch: statements of its own.
    Files,
    /// A container of Require.
    Require,
}

struct Reader {
    folder: Statements,
    files: Vec<(Matcher, Verdict)>,
    /// The Files section being read. They do not nest; an inner one would take the outer one's place.
    current: Option<(Matcher, Statements)>,
    open: Vec<(String, Section)>,
    unreadable: Option<String>,
}

impl Reader {
    fn new() -> Reader {
        Reader {
            folder: Statements::default(),
            files: Vec::new(),
            current: None,
            open: Vec::new(),
            unreadable: None,
        }
    }

    fn line(&mut self, line: &str) {
        let line = line.trim();
        if let Some(name) = line.strip_prefix("</") {
            let name = name.trim_end_matches('>').trim().to_ascii_lowercase();
            self.close(&name);
        } else if let Some(section) = line.strip_prefix('<') {
            let words = words(section.strip_suffix('>').unwrap_or(section));
            if let Some((name, arguments)) = words.split_first() {
                self.open(name.to_ascii_lowercase(), arguments);
            }
        } else if !line.starts_with('#') && !self.skipping() {
            let words = words(line);
            if let Some((name, arguments)) = words.split_first() {
                self.statements()
                    .directive(&name.to_ascii_lowercase(), arguments);
            }
        }
    }

    fn open(&mut self, name: String, arguments: &[String]) {
        if self.open.len() >= DEPTH_LIMIT {
            return;
        }
        let section = if self.skipping() {
            Section::Skipped
        } else {
            self.enter(&name, arguments)
        };
        self.open.push((name, section));
    }

    fn enter(&mut self, name: &str, arguments: &[String]) -> Section {
        let names_get = || {
            arguments
                .iter()
                .any(|m| m.eq_ignore_ascii_case("GET") || m.eq_ignore_ascii_case("HEAD"))
        };
        match name {
            "ifmodule" | "ifversion" | "ifdefine" | "iffile" | "ifdirective" | "ifsection" => {
                Section::Transparent
            }
            "limit" if names_get() => Section::Transparent,
            "limitexcept" if !names_get() => Section::Transparent,
            "files" | "filesmatch" => {
                let matcher = match arguments {
                    [tilde, expression, ..] if tilde == "~" => Matcher::expression(expression),
                    [expression, ..] if name == "filesmatch" => Matcher::expression(expression),
                    [wildcard, ..] => Matcher::wildcard(wildcard),
                    [] => Matcher::Unreadable,
                };
                self.end_files();
                if matches!(matcher, Matcher::Unreadable) {
                    self.unreadable = Some(arguments.join(" "));
                }
                self.current = Some((matcher, Statements::default()));
                Section::Files
            }
            "requireall" | "requireany" | "requirenone" => {
                self.statements().open(name);
                Section::Require
            }
            _ => Section::Skipped,
        }
    }

    fn close(&mut self, name: &str) {
        let Some(at) = self.open.iter().rposition(|(open, _)| open == name) else {
            return;
        };
        for (_, section) in self.open.split_off(at).into_iter().rev() {
            match section {
                Section::Files => self.end_files(),
                Section::Require => self.statements().close(),
                Section::Transparent | Section::Skipped => {}
            }
        }
    }

    fn end_files(&mut self) {
        if let Some((matcher, statements)) = self.current.take() {
            match statements.verdict() {
                Verdict::Unsaid => {}
                verdict => self.files.push((matcher, verdict)),
            }
        }
    }

    fn skipping(&self) -> bool {
        matches!(self.open.last(), Some((_, Section::Skipped)))
    }

    fn statements(&mut self) -> &mut Statements {
        match &mut self.current {
            Some((_, statements)) => statements,
            None => &mut self.folder,
        }
    }

    fn finish(mut self) -> Rules {
        self.end_files();
        Rules {
            folder: self.folder.verdict(),
            files: self.files,
            unreadable: self.unreadable,
        }
    }
}

/// Lines with their continuations, without a byte order mark; bytes that are no UTF-8 become U+FFFD, which no
/// directive that counts has.
pub fn logical_lines(text: &[u8]) -> Vec<String> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut lines = Vec::new();
    let mut held = String::new();
    for line in text.split(|&b| b == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = String::from_utf8_lossy(line);
        match line.strip_suffix('\\') {
            Some(part) => held.push_str(part),
            None => {
                held.push_str(&line);
                lines.push(std::mem::take(&mut held));
            }
        }
    }
    lines.push(held);
    lines
}

/// Words apart by blanks, or in single or double quotes, as Apache's `ap_getword_conf` has them.
pub fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut characters = line.chars().peekable();
    loop {
        while characters.next_if(|c| c.is_ascii_whitespace()).is_some() {}
        let Some(&first) = characters.peek() else {
            return words;
        };
        let quote = matches!(first, '"' | '\'').then_some(first);
        if quote.is_some() {
            characters.next();
        }
        let mut word = String::new();
        while let Some(character) = characters.next() {
            match quote {
                Some(quote) if character == quote => break,
                None if character.is_ascii_whitespace() => break,
                Some(quote) if character == '\\' => match characters.next_if_eq(&quote) {
                    Some(escaped) => word.push(escaped),
                    None => word.push(character),
                },
                _ => word.push(character),
            }
        }
        words.push(word);
    }
}

/// Sections within one another; deeper ones are left alone.
const DEPTH_LIMIT: usize = 64;

#[cfg(test)]
mod tests;
