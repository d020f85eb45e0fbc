//! Answers of PHP and of origins are compressed on their way to the client (`compression: {dynamic}`), piece by piece: what the
//! application flushes leaves at once.
//!
//! A page that shows a secret beside words of whoever asks for it can be guessed by its compressed length, if a stranger can have
//! the user's browser ask for it and see the length (BREACH). Browsers say when another site has them ask (`Sec-Fetch-Site`):
//! such a request that has cookies gets its answer as it is, unless the user has clicked.

use std::any::Any;
use std::io::Write;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::StatusCode;
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, ETAG,
    IF_NONE_MATCH, TRANSFER_ENCODING, VARY,
};
use pingora_core::modules::http::{HttpModule, HttpModuleBuilder, Module};
use pingora_core::{Error, ErrorType, OrErr as _, Result};
use pingora_http::{RequestHeader, ResponseHeader};
use pingora_proxy::Session;
use zstd::stream::raw::CParameter;
use zstd::stream::write::Encoder as ZstdEncoder;

use crate::fastcgi::session::FromFile;
use crate::request::accept_encoding::{Coding, acceptable};
use crate::request::fields::{Fields, members};
use crate::site::settings::CompressionSettings;

/// The coding that the client's answer may be compressed with. None: it is to be left as it is.
pub fn wished<F: Fields + ?Sized>(settings: &CompressionSettings, fields: &F) -> Option<Coding> {
    if !settings.dynamic {
        return None;
    }
    // Brotli takes three times as long for the same length; whoever takes it takes others as well.
    let coding = acceptable(fields).find(|coding| *coding != Coding::Brotli)?;
    (coding != Coding::Identity && !may_be_measured(fields)).then_some(coding)
}

/// Whether another site has had the browser ask in its user's name.
fn may_be_measured<F: Fields + ?Sized>(fields: &F) -> bool {
    let is_from_elsewhere = match fields.first("sec-fetch-site") {
        Some(b"same-origin" | b"none") | None => false,
        Some(_) => true,
    };
    is_from_elsewhere
        && fields.first("sec-fetch-user") != Some(b"?1")
        && fields.first("cookie").is_some()
}

/// Makes the module for each request. Pingora tells the end of an answer to its modules alone.
pub struct Compressing;

impl HttpModuleBuilder for Compressing {
    fn init(&self) -> Module {
        Box::new(ForRequest(None))
    }
}

struct ForRequest(Option<Compressor>);

#[async_trait]
impl HttpModule for ForRequest {
    fn response_body_filter(&mut self, body: &mut Option<Bytes>, end: bool) -> Result<()> {
        match &mut self.0 {
            Some(compressor) => compressor.next(body, end),
            None => Ok(()),
        }
    }

    fn response_done_filter(&mut self) -> Result<Option<Bytes>> {
        let mut last = None;
        if let Some(mut compressor) = self.0.take() {
            compressor.next(&mut last, true)?;
        }
        Ok(last)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// Has the content of this answer compressed.
pub fn compress(session: &mut Session, compressor: Option<Compressor>) {
    if let Some(module) = session.downstream_modules_ctx.get_mut::<ForRequest>() {
        module.0 = compressor;
    }
}

/// Compresses the content of one answer.
pub struct Compressor {
    /// None: the content has ended. What is left of it may wait for the client for long.
    coding: Option<(Encoder, Place)>,
    /// Bytes of content that are still to come, where the application has said how many.
    left: Option<u64>,
}

/// One of the encoders that there may be at a time, given back when dropped.
struct Place;

impl Place {
    fn take() -> Option<Place> {
        let taken = IN_USE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| {
            (now < MOST_IN_USE).then_some(now + 1)
        });
        taken.is_ok().then(|| Place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        IN_USE.fetch_sub(1, Ordering::Relaxed);
    }
}

enum Encoder {
    Gzip(GzEncoder<Vec<u8>>),
    Zstd(ZstdEncoder<'static, Vec<u8>>),
}

impl Compressor {
    /// Prepares the head of an answer for `coding`, if it is one that is compressed: one that varies by what clients take says so
    /// in any case. None: its content stays as it is, or it has none.
    ///
    /// # Errors
    /// There is no memory for an encoder.
    pub fn begin(
        settings: &CompressionSettings,
        coding: Option<Coding>,
        is_head: bool,
        response: &mut ResponseHeader,
    ) -> Result<Option<Compressor>> {
        // A file in PHP's stead has its own tag, and ranges.
        if !settings.dynamic || response.extensions.get::<FromFile>().is_some() {
            return Ok(None);
        }
        if response.status == StatusCode::NOT_MODIFIED {
            // It varies as the answer does that it confirms (RFC 9110 §15.4.5), whose type it does not say.
            vary_by_coding(response)?;
            return Ok(None);
        }
        if !is_compressible(settings, response) {
            return Ok(None);
        }
        vary_by_coding(response)?;
        let Some((coding, name)) = coding.and_then(|coding| Some((coding, coding.name()?))) else {
            return Ok(None);
        };
        let left = response
            .headers
            .get(CONTENT_LENGTH)
            .and_then(|length| length.to_str().ok()?.parse().ok());
        if left.is_some_and(|length: u64| length < settings.min_size) {
            return Ok(None);
        }
        let Some(place) = Place::take() else {
            return Ok(None);
        };
        let encoder = match (is_head, coding) {
            (true, _) => None,
            (_, Coding::Gzip) => Some(Encoder::Gzip(GzEncoder::new(
                Vec::new(),
                Compression::new(GZIP_LEVEL),
            ))),
            (_, Coding::Zstd) => Some(Encoder::Zstd(zstd_encoder().or_err(
                ErrorType::InternalError,
                "an answer could not be compressed",
            )?)),
            (_, Coding::Identity | Coding::Brotli) => return Ok(None),
        };
        response.insert_header(CONTENT_ENCODING, name)?;
        response.remove_header(&CONTENT_LENGTH);
        // Ranges would be of the content as it was.
        response.remove_header(&ACCEPT_RANGES);
        if encoder.is_some() {
            // Pingora does not for what it has in its cache.
            response.insert_header(TRANSFER_ENCODING, "chunked")?;
        }
        mark_tag(response, coding)?;
        Ok(encoder.map(|encoder| Compressor {
            coding: Some((encoder, place)),
            left,
        }))
    }

    /// Replaces a piece of content by what is to be sent in its place.
    ///
    /// # Errors
    /// The content has ended before the length that the application has said.
    pub fn next(&mut self, piece: &mut Option<Bytes>, end: bool) -> Result<()> {
        let Some((encoder, _)) = &mut self.coding else {
            return Ok(());
        };
        let mut content = piece.take().unwrap_or_default();
        if let Some(left) = &mut self.left {
            content.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= content.len() as u64;
            if end && *left > 0 {
                return Error::e_explain(ErrorType::ReadError, "the answer is not whole");
            }
        }
        if content.is_empty() && !end {
            return Ok(());
        }
        let coded = encoder
            .next(&content, end)
            .or_err(ErrorType::InternalError, "while an answer was compressed")?;
        if end {
            self.coding = None;
        }
        BYTES_IN.fetch_add(content.len() as u64, Ordering::Relaxed);
        BYTES_OUT.fetch_add(coded.len() as u64, Ordering::Relaxed);
        *piece = Some(Bytes::from(coded));
        Ok(())
    }
}

impl Encoder {
    fn next(&mut self, content: &[u8], end: bool) -> std::io::Result<Vec<u8>> {
        match self {
            Encoder::Gzip(encoder) => {
                encoder.write_all(content)?;
                match end {
                    true => encoder.try_finish()?,
                    // The pieces are what there was at the time: the client has it as soon as it was made. It costs a hundredth
                    // of the length.
                    false => encoder.flush()?,
                }
                Ok(std::mem::take(encoder.get_mut()))
            }
            Encoder::Zstd(encoder) => {
                encoder.write_all(content)?;
                match end {
                    true => encoder.do_finish()?,
                    false => encoder.flush()?,
                }
                Ok(std::mem::take(encoder.get_mut()))
            }
        }
    }
}

fn zstd_encoder() -> std::io::Result<ZstdEncoder<'static, Vec<u8>>> {
    let mut encoder = ZstdEncoder::new(Vec::new(), ZSTD_LEVEL)?;
    encoder.set_parameter(CParameter::WindowLog(ZSTD_WINDOW))?;
    Ok(encoder)
}

/// Whether the answer has content that is compressed for those who take that.
fn is_compressible(settings: &CompressionSettings, response: &ResponseHeader) -> bool {
    let has_content = !response.status.is_informational()
        && !matches!(
            response.status,
            StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::PARTIAL_CONTENT
        );
    let headers = &response.headers;
    has_content
        && !headers.contains_key(CONTENT_ENCODING)
        && !headers.contains_key(CONTENT_RANGE)
        && !DIGESTS.iter().any(|name| headers.contains_key(*name))
        && !forbids_transforming(response)
        && headers
            .first("content-type")
            .is_some_and(|value| settings.means(value))
}

/// RFC 9111 §5.2.2.6.
fn forbids_transforming(response: &ResponseHeader) -> bool {
    let lines = response.headers.get_all(CACHE_CONTROL).into_iter();
    lines
        .flat_map(|line| members(line.as_bytes()))
        .any(|directive| directive.eq_ignore_ascii_case(b"no-transform"))
}

fn vary_by_coding(response: &mut ResponseHeader) -> Result<()> {
    let lines = response.headers.get_all(VARY).into_iter();
    let varies = lines
        .flat_map(|line| members(line.as_bytes()))
        .any(|name| name == b"*" || name.eq_ignore_ascii_case(b"accept-encoding"));
    if !varies {
        response.append_header("Vary", "Accept-Encoding")?;
    }
    Ok(())
}

/// The tag of the coded form: the same content, not the same bytes each time (RFC 9110 §8.8.1). A weak one means the content anyhow.
fn mark_tag(response: &mut ResponseHeader, coding: Coding) -> Result<()> {
    match response.headers.get(ETAG) {
        Some(tag) if tag.as_bytes().starts_with(b"\"") => {
            let marked = [b"W/", &*coding.tag(tag.as_bytes())].concat();
            response.insert_header("ETag", marked)
        }
        _ => Ok(()),
    }
}

/// The same for the answer that a client's tag is still right, which says nothing of the content's type.
///
/// # Errors
/// None that a valid value could meet.
pub fn mark_confirmed(response: &mut ResponseHeader, coding: Option<Coding>) -> Result<()> {
    match coding {
        Some(coding) if response.status == StatusCode::NOT_MODIFIED => mark_tag(response, coding),
        _ => Ok(()),
    }
}

/// Gives the application its own tags back, which it compares byte by byte. The coding that was named in them, if any.
///
/// # Errors
/// None that a valid value could meet.
pub fn unmark_tags(request: &mut RequestHeader) -> Result<Option<Coding>> {
    let mut found = None;
    let mut plain = Vec::new();
    for line in request.headers.get_all(IF_NONE_MATCH) {
        if !plain.is_empty() {
            plain.extend_from_slice(b", ");
        }
        // No tag has a quotation mark within.
        let mut parts = line.as_bytes().split(|&byte| byte == b'"');
        plain.extend_from_slice(parts.next().unwrap_or_default());
        while let Some(tag) = parts.next() {
            let after = parts.next();
            let marked = match plain.ends_with(b"W/") && after.is_some() {
                true => CODINGS.into_iter().find_map(|coding| {
                    let start = tag.strip_suffix(coding.name()?.as_bytes())?;
                    Some((coding, start.strip_suffix(b"-")?))
                }),
                false => None,
            };
            if marked.is_some() {
                plain.truncate(plain.len() - b"W/".len());
            }
            found = marked.map(|(coding, _)| coding).or(found);
            let tag = marked.map_or(tag, |(_, start)| start);
            plain.push(b'"');
            plain.extend_from_slice(tag);
            if let Some(after) = after {
                plain.push(b'"');
                plain.extend_from_slice(after);
            }
        }
    }
    if found.is_some() {
        request.insert_header(IF_NONE_MATCH, plain)?;
    }
    Ok(found)
}

/// Bytes of content that were compressed, and bytes that came of them.
pub fn bytes() -> (u64, u64) {
    (
        BYTES_IN.load(Ordering::Relaxed),
        BYTES_OUT.load(Ordering::Relaxed),
    )
}

static BYTES_IN: AtomicU64 = AtomicU64::new(0);
static BYTES_OUT: AtomicU64 = AtomicU64::new(0);

/// Encoders at a time. Each has half a MiB and more while the client takes its time, which it would be a small thing to have
/// thousands of; who comes then gets the answer as it is. Those who take what they get keep theirs for milliseconds.
const MOST_IN_USE: usize = 128;
static IN_USE: AtomicUsize = AtomicUsize::new(0);

const CODINGS: [Coding; 2] = [Coding::Gzip, Coding::Zstd];
/// A tenth of a millisecond for a page of 60 KB; the usual 6 takes twice as long for a twentieth less.
const GZIP_LEVEL: u32 = 3;
const ZSTD_LEVEL: i32 = 3;
/// 128 KiB, which bounds what an answer takes of memory here and at the client (RFC 9659 allows 8 MiB).
const ZSTD_WINDOW: u32 = 17;
/// Digests of the bytes as they were (RFC 9530, RFC 3230, RFC 1864).
const DIGESTS: [&str; 4] = ["content-digest", "repr-digest", "digest", "content-md5"];

#[cfg(test)]
mod tests;
