//! The compressed forms of a page. They are made once, aside, when a page is asked for again; nobody waits for them.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use zstd::stream::raw::CParameter;

use crate::page_cache::page::Page;
use crate::request::accept_encoding::Coding;

/// The compressed forms; those that are not shorter than the content are left out.
#[derive(Debug, Default)]
pub struct Coded {
    gzip: Option<Bytes>,
    brotli: Option<Bytes>,
}

impl Coded {
    /// Compresses.
    #[must_use]
    pub fn of(body: &Bytes) -> Coded {
        let shorter = |coded: Vec<u8>| (coded.len() < body.len()).then(|| Bytes::from(coded));
        Coded {
            gzip: gzip(body, Compression::new(GZIP_LEVEL)).and_then(shorter),
            brotli: brotli(body, BROTLI_QUALITY).and_then(shorter),
        }
    }

    /// The content in this coding, where there is such.
    #[must_use]
    pub fn body(&self, coding: Coding, plain: &Bytes) -> Option<Bytes> {
        match coding {
            Coding::Identity => Some(plain.clone()),
            Coding::Gzip => self.gzip.clone(),
            Coding::Brotli => self.brotli.clone(),
            Coding::Zstd => None,
        }
    }

    /// Bytes of all of them.
    #[must_use]
    pub fn length(&self) -> usize {
        let length = |form: &Option<Bytes>| form.as_ref().map_or(0, Bytes::len);
        length(&self.gzip) + length(&self.brotli)
    }
}

/// The thread that compresses.
#[derive(Debug)]
pub struct Compressor(SyncSender<Arc<Page>>);

impl Compressor {
    /// Starts it. It ends with the store.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn start() -> std::io::Result<Compressor> {
        let (sender, pages) = sync_channel::<Arc<Page>>(MOST_WAITING);
        std::thread::Builder::new()
            .name("page coder".into())
            .spawn(move || {
                for page in pages {
                    page.set_coded(Coded::of(&page.body));
                }
            })?;
        Ok(Compressor(sender))
    }

    /// Has the forms of a page made; when too many wait, it stays without.
    pub fn compress(&self, page: Arc<Page>) {
        // Sent plain is right, too.
        let _ = self.0.try_send(page);
    }
}

/// The content with gzip (RFC 1952). None: it could not be compressed.
#[must_use]
pub fn gzip(content: &[u8], level: Compression) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), level);
    encoder.write_all(content).ok()?;
    encoder.finish().ok()
}

/// The content with Brotli (RFC 7932), quality 0 to 11. None: it could not be compressed.
#[must_use]
pub fn brotli(content: &[u8], quality: i32) -> Option<Vec<u8>> {
    let mut coded = Vec::new();
    let params = brotli::enc::BrotliEncoderParams {
        quality,
        size_hint: content.len(),
        ..Default::default()
    };
    brotli::BrotliCompress(&mut &*content, &mut coded, &params).ok()?;
    Some(coded)
}

/// The content with Zstandard (RFC 8878), level 1 to 22. None: it could not be compressed.
#[must_use]
pub fn zstd(content: &[u8], level: i32) -> Option<Vec<u8>> {
    let mut compressor = zstd::bulk::Compressor::new(level).ok()?;
    // What a browser keeps of it at the most (RFC 9659).
    let window = CParameter::WindowLog(23);
    compressor.set_parameter(window).ok()?;
    compressor.compress(content).ok()
}

const GZIP_LEVEL: u32 = 6;
/// Nearly as short as the highest, in a tenth of the time.
const BROTLI_QUALITY: i32 = 6;
const MOST_WAITING: usize = 256;
