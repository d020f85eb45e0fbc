//! Text files without a coded file beside them are compressed here (`compression`): once for each state of a file, aside, on a
//! thread that leaves most of a processor to others. No request waits for it.
//!
//! A page that mixes secrets with what a stranger may have put in must not be compressed so that the stranger can see the length
//! (BREACH); files have no secrets. For PHP's answers see [`compressing`](crate::edge::compressing).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use flate2::Compression;

use crate::clock::Clock;
use crate::descriptor_cache::coded_forms::{CodedForms, Room};
use crate::descriptor_cache::{FileEntry, FileFound};
use crate::page_cache::coded::{brotli, gzip, zstd};
use crate::request::accept_encoding::{Coding, acceptable};
use crate::request::fields::Fields;
use crate::request::tree_path::TreePath;
use crate::site::media_type::MediaType;

/// The form of a file that the client likes better than the file itself, if there is one by now.
pub fn form<F: Fields + ?Sized>(
    path: TreePath<'_>,
    found: &FileFound,
    fields: &F,
    min_size: u64,
) -> Option<(Coding, FileFound)> {
    let entry = &found.entry;
    let forms = entry.making().get();
    let is_hopeless = match &*forms {
        Some(forms) => forms.is_empty(),
        None => entry.racy || !(min_size..=LARGEST).contains(&entry.size()),
    };
    if is_hopeless {
        return None;
    }
    let mut liked = acceptable(fields).peekable();
    if liked.peek() == Some(&Coding::Identity) {
        return None;
    }
    let Some(forms) = &*forms else {
        if entry.making().is_wished(ENOUGH) {
            begin(path, found);
        }
        return None;
    };
    for coding in liked {
        match (coding, forms.in_coding(coding)) {
            (Coding::Identity, _) => return None,
            (coding, Some(form)) => return Some((coding, form.clone())),
            (_, None) => {}
        }
    }
    None
}

/// Bytes of all forms that are kept.
pub fn bytes() -> usize {
    BUDGET.load(Ordering::Relaxed)
}

/// Has the forms made.
fn begin(path: TreePath<'_>, found: &FileFound) {
    if !MediaType::of(path.file_name()).compressible {
        found.entry.making().set(CodedForms::none());
        return;
    }
    let found = found.clone();
    tokio::spawn(async move {
        let whole = match usize::try_from(LARGEST) {
            Ok(largest) => found.whole(largest).await,
            Err(_) => None,
        };
        let entry = found.entry;
        let given = match (whole, &*CODER) {
            (Some(content), Some(coder)) => coder.try_send(Job {
                entry: entry.clone(),
                content,
            }),
            // It has changed, or cannot be read now.
            _ => return entry.making().wish_again(),
        };
        if given.is_err() {
            entry.making().wish_again();
        }
    });
}

struct Job {
    entry: Arc<FileEntry>,
    content: Bytes,
}

fn work(jobs: Receiver<Job>) {
    let clock = Clock::system();
    for Job { entry, content } in jobs {
        let began = clock.now();
        let mut forms = Vec::new();
        for (coding, coded) in [
            (Coding::Brotli, brotli(&content, brotli_quality(&content))),
            (Coding::Zstd, zstd(&content, ZSTD_LEVEL)),
            (Coding::Gzip, gzip(&content, Compression::best())),
        ] {
            // A form that saves little is not worth its memory.
            if let Some(coded) = coded.filter(|coded| coded.len() < content.len() / 10 * 9) {
                forms.push((coding, Bytes::from(coded)));
            }
        }
        let bytes = forms.iter().map(|(_, coded)| coded.len()).sum();
        let made = match Room::take(&BUDGET, bytes, MOST_BYTES) {
            Some(room) => CodedForms::of(&entry, forms, room),
            None => CodedForms::none(),
        };
        entry.making().set(made);
        drop((entry, content));
        // So it takes a fifth of a processor at most.
        std::thread::park_timeout(clock.now().since(began) * 4);
    }
}

fn brotli_quality(content: &[u8]) -> i32 {
    match content.len() <= SLOWEST_UP_TO {
        true => 11,
        false => 9,
    }
}

/// None: there was no thread to be had; files are sent as they are.
static CODER: LazyLock<Option<SyncSender<Job>>> = LazyLock::new(|| {
    let (sender, jobs) = sync_channel(MOST_WAITING);
    let thread = std::thread::Builder::new().name("file coder".into());
    thread.spawn(move || work(jobs)).ok().map(|_| sender)
});
static BUDGET: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// Wishes for a form before it is made.
const ENOUGH: u8 = 2;
const LARGEST: u64 = 2 << 20;
/// The highest that does not want hundreds of MiB.
const ZSTD_LEVEL: i32 = 19;
/// The highest quality takes a second for half a megabyte.
const SLOWEST_UP_TO: usize = 128 << 10;
/// Bytes of all forms together.
const MOST_BYTES: usize = 32 << 20;
/// Files that wait, with their content.
const MOST_WAITING: usize = 16;
