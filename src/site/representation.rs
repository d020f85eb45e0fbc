//! The heads of a file's answers, rendered once for each state of the file and each set of rules.
//!
//! A set of rules has a number of its own in this process, so that two sites on one root, or a reload that changes
//! nothing, share what is rendered.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::clock::UnixTime;
use crate::descriptor_cache::{FileEntry, HeadPair, HeadRulesId, PreparedHeads};
use crate::request::accept_encoding::Coding;
use crate::request::fields::is_token_byte;
use crate::request::pattern::Pattern;
use crate::request::tree_path::TreePath;
use crate::site::cache_control::{CacheControl, Version};
use crate::site::media_type::MediaType;
use crate::site::settings::{
    CacheControlRule, EtagMode, HeaderRule, Preset, SiteError, SiteSettings,
};
use crate::site::validator;

/// The rules by which a site renders heads.
#[derive(Debug)]
pub struct HeadRules {
    /// Of files, by the coding that they are stored in.
    file_ids: [(Coding, HeadRulesId); 4],
    /// The same of pages.
    page_ids: [(Coding, HeadRulesId); 3],
    etag: EtagMode,
    cache_control: CacheControl,
    headers: Vec<(Pattern, Vec<(String, String)>)>,
}

impl HeadRules {
    /// The rules of a site.
    ///
    /// # Errors
    /// A pattern that cannot be used, or a field that cannot be set.
    pub fn new(settings: &SiteSettings) -> Result<HeadRules, SiteError> {
        for rule in &settings.cache_control {
            check_value("Cache-Control", &rule.value)?;
        }
        let mut headers = Vec::new();
        for rule in &settings.headers {
            for (name, value) in &rule.set {
                check_name(name)?;
                check_value(name, value)?;
            }
            headers.push((Pattern::parse(&rule.pattern)?, rule.set.clone()));
        }
        Ok(HeadRules {
            file_ids: [Coding::Identity, Coding::Gzip, Coding::Brotli, Coding::Zstd]
                .map(|coding| (coding, id_of(settings, Form::File(coding)))),
            page_ids: [Coding::Identity, Coding::Gzip, Coding::Brotli]
                .map(|coding| (coding, id_of(settings, Form::Page(coding)))),
            etag: settings.etag,
            cache_control: CacheControl::new(&settings.cache_control, settings.preset)?,
            headers,
        })
    }

    /// The number of the rules for files in this coding.
    #[must_use]
    pub fn file_id(&self, coding: Coding) -> HeadRulesId {
        id_in(&self.file_ids, coding)
    }

    /// Whether a file's heads need the hash of its content.
    #[must_use]
    pub fn needs_hash(&self, entry: &FileEntry, now: UnixTime) -> bool {
        validator::needs_hash(self.etag, entry, now)
    }

    /// Whether the site has fields of its own for some paths.
    #[must_use]
    pub fn has_headers(&self) -> bool {
        !self.headers.is_empty()
    }

    /// The number of the rules for pages in this coding.
    #[must_use]
    pub fn page_id(&self, coding: Coding) -> HeadRulesId {
        id_in(&self.page_ids, coding)
    }

    /// Renders the heads of a page that a plugin has stored, asked for by `path`. Browsers keep it and ask each time whether it
    /// is still the page; it is not for those who bring a cookie.
    #[must_use]
    pub fn render_page(
        &self,
        path: TreePath<'_>,
        entry: &FileEntry,
        now: UnixTime,
        coding: Coding,
    ) -> PreparedHeads {
        let etag = validator::entity_tag(self.etag, entry, now);
        let last_modified = validator::last_modified(entry, now);
        let mut fields = FieldList::of(b"text/html; charset=UTF-8", entry, last_modified, &etag);
        if let Some(name) = coding.name() {
            fields.set("Content-Encoding", name.as_bytes());
        }
        fields.set("Cache-Control", b"private, max-age=0, must-revalidate");
        fields.set("Vary", b"Accept-Encoding, Cookie");
        fields.set("X-Content-Type-Options", b"nosniff");
        self.add_configured(path, &mut fields);
        let pair = fields.render();
        PreparedHeads {
            media_type: fields.value("Content-Type").into(),
            plain: pair.clone(),
            versioned: pair,
            etag: Some(etag),
            last_modified,
        }
    }

    /// What the site says of the path's fields.
    fn add_configured(&self, path: TreePath<'_>, fields: &mut FieldList) {
        for (name, value) in self
            .headers
            .iter()
            .filter(|(p, _)| p.matches(path.as_bytes()))
            .flat_map(|(_, s)| s)
        {
            // Two lines of Vary are one list (RFC 9110 §5.3); replacing ours would let caches mix codings.
            if name.eq_ignore_ascii_case("Vary") {
                fields.add(name, value.as_bytes());
            } else {
                fields.set(name, value.as_bytes());
            }
        }
    }

    /// Renders the heads of the file at `path`, which `entry` holds in this coding.
    #[must_use]
    pub fn render(
        &self,
        path: TreePath<'_>,
        entry: &FileEntry,
        now: UnixTime,
        coding: Coding,
    ) -> PreparedHeads {
        let etag = coding.tag(&validator::entity_tag(self.etag, entry, now));
        self.render_tagged(path, entry, now, coding, etag)
    }

    /// Renders the heads of a form of `original` that was made here. Its tag tells the file's state and, as another compressor may
    /// make other bytes of it, the form's length.
    #[must_use]
    pub fn render_form(
        &self,
        path: TreePath<'_>,
        original: &FileEntry,
        form: &FileEntry,
        now: UnixTime,
        coding: Coding,
    ) -> PreparedHeads {
        let tag = validator::entity_tag(self.etag, original, now);
        let tag = match tag.strip_suffix(b"\"") {
            Some(start) => [start, format!("-{:x}\"", form.size()).as_bytes()].concat(),
            None => tag.to_vec(),
        };
        self.render_tagged(path, form, now, coding, coding.tag(&tag))
    }

    fn render_tagged(
        &self,
        path: TreePath<'_>,
        entry: &FileEntry,
        now: UnixTime,
        coding: Coding,
        etag: Vec<u8>,
    ) -> PreparedHeads {
        let media_type = MediaType::of(path.file_name());
        let last_modified = validator::last_modified(entry, now);
        let fields = |version| {
            let media_type_value = media_type.value.as_bytes();
            let mut fields = FieldList::of(media_type_value, entry, last_modified, &etag);
            if let Some(name) = coding.name() {
                fields.set("Content-Encoding", name.as_bytes());
            }
            if let Some(value) =
                self.cache_control
                    .select(path.as_bytes(), media_type.kind, version)
            {
                fields.set("Cache-Control", value.as_bytes());
            }
            if media_type.compressible {
                fields.set("Vary", b"Accept-Encoding");
            }
            fields.set("X-Content-Type-Options", b"nosniff");
            self.add_configured(path, &mut fields);
            fields
        };
        let (plain, versioned) = (fields(Version::None), fields(Version::InQuery));
        PreparedHeads {
            media_type: plain.value("Content-Type").into(),
            plain: plain.render(),
            versioned: versioned.render(),
            etag: Some(etag.into()),
            last_modified,
        }
    }
}

/// Field lines in the order in which they are sent.
#[derive(Debug, Default)]
struct FieldList(Vec<(String, Vec<u8>)>);

impl FieldList {
    /// What every representation of a file has.
    fn of(media_type: &[u8], entry: &FileEntry, last_modified: Option<i64>, etag: &[u8]) -> Self {
        let mut fields = FieldList::default();
        fields.set("Content-Type", media_type);
        fields.set("Content-Length", entry.size().to_string().as_bytes());
        if let Some(date) = last_modified.and_then(http_date) {
            fields.set("Last-Modified", date.as_bytes());
        }
        fields.set("ETag", etag);
        fields.set("Accept-Ranges", b"bytes");
        fields
    }

    /// Sets a field, in the place of one of the same name.
    fn set(&mut self, name: &str, value: &[u8]) {
        match self
            .0
            .iter_mut()
            .find(|(other, _)| other.eq_ignore_ascii_case(name))
        {
            Some((_, old)) => *old = value.to_vec(),
            None => self.add(name, value),
        }
    }

    fn add(&mut self, name: &str, value: &[u8]) {
        self.0.push((name.to_owned(), value.to_vec()));
    }

    fn value(&self, name: &str) -> &[u8] {
        let field = self
            .0
            .iter()
            .find(|(other, _)| other.eq_ignore_ascii_case(name));
        field.map_or(&[], |(_, value)| value)
    }

    fn render(&self) -> HeadPair {
        HeadPair {
            ok: self.lines(b"HTTP/1.1 200 OK\r\n", &[]),
            not_modified: self.lines(b"HTTP/1.1 304 Not Modified\r\n", &NOT_IN_304),
            partial: self.lines(b"", &NOT_IN_206),
        }
    }

    fn lines(&self, start: &[u8], left_out: &[&str]) -> Bytes {
        let mut head = start.to_vec();
        for (name, value) in &self.0 {
            if !left_out
                .iter()
                .any(|other| other.eq_ignore_ascii_case(name))
            {
                for part in [name.as_bytes(), b": ", value, b"\r\n"] {
                    head.extend_from_slice(part);
                }
            }
        }
        Bytes::from(head)
    }
}

/// An IMF-fixdate (RFC 9110 §5.6.7).
fn http_date(seconds: i64) -> Option<String> {
    let since = Duration::from_secs(u64::try_from(seconds).ok()?);
    Some(httpdate::fmt_http_date(UNIX_EPOCH.checked_add(since)?))
}

/// Everything that two sets of rules can differ in.
#[derive(Debug, PartialEq, Eq, Hash)]
struct RulesKey {
    etag: EtagMode,
    preset: Preset,
    cache_control: Vec<CacheControlRule>,
    headers: Vec<HeaderRule>,
    form: Form,
}

/// What the heads are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Form {
    File(Coding),
    Page(Coding),
}

fn id_in(ids: &[(Coding, HeadRulesId)], coding: Coding) -> HeadRulesId {
    let found = ids.iter().find(|(known, _)| *known == coding);
    // Every coding is among them that is asked for.
    found
        .or(ids.first())
        .map_or(HeadRulesId(u32::MAX), |(_, id)| *id)
}

fn id_of(settings: &SiteSettings, form: Form) -> HeadRulesId {
    static NUMBERS: LazyLock<Mutex<HashMap<RulesKey, HeadRulesId>>> = LazyLock::new(Mutex::default);
    let key = RulesKey {
        etag: settings.etag,
        preset: settings.preset,
        cache_control: settings.cache_control.clone(),
        headers: settings.headers.clone(),
        form,
    };
    let mut numbers = NUMBERS.lock();
    let next = HeadRulesId(u32::try_from(numbers.len()).unwrap_or(u32::MAX));
    *numbers.entry(key).or_insert(next)
}

fn check_name(name: &str) -> Result<(), SiteError> {
    let reason = if name.is_empty() || !name.bytes().all(is_token_byte) {
        "is no field name"
    } else if MADE_HERE.iter().any(|ours| ours.eq_ignore_ascii_case(name)) {
        "is made by the server alone"
    } else {
        return Ok(());
    };
    Err(SiteError::Field {
        name: name.to_owned(),
        reason,
    })
}

/// RFC 9110 §5.5: no control characters, no blanks at the ends.
fn check_value(name: &str, value: &str) -> Result<(), SiteError> {
    if value.trim() == value && !value.bytes().any(|b| b.is_ascii_control() && b != b'\t') {
        return Ok(());
    }
    Err(SiteError::Field {
        name: name.to_owned(),
        reason: "has a value that no field can have",
    })
}

/// RFC 9110 §15.4.5: a 304 has what a cache needs to know, and nothing about a content it does not bring.
const NOT_IN_304: [&str; 5] = [
    "Content-Encoding",
    "Content-Type",
    "Content-Length",
    "Accept-Ranges",
    "X-Content-Type-Options",
];
/// The range decides these.
const NOT_IN_206: [&str; 2] = ["Content-Type", "Content-Length"];
/// Fields that framing, validators and ranges depend on.
const MADE_HERE: [&str; 14] = [
    "Accept-Ranges",
    "Connection",
    "Content-Encoding",
    "Content-Length",
    "Content-Range",
    "Date",
    "ETag",
    "Keep-Alive",
    "Last-Modified",
    "Set-Cookie",
    "TE",
    "Trailer",
    "Transfer-Encoding",
    "Upgrade",
];

#[cfg(test)]
mod tests;
