//! Files that are stored in a content coding beside their original (`precompressed`): `.br`, `.zst`, `.gz`.
//!
//! Such a file is a representation of its own (RFC 9110 §8.4): it has its own length, entity-tag and ranges. It is sent only
//! beside its original, and never when it is older.

use std::sync::Arc;

use crate::descriptor_cache::{
    DescriptorCache, FileEntry, FileFound, Found, Looked, RootGeneration, Siblings, Want,
};
use crate::request::accept_encoding::{Coding, acceptable};
use crate::request::fields::Fields;
use crate::request::tree_path::TreePath;
use crate::site::media_type::MediaType;

/// A coded file in place of its original.
#[derive(Debug)]
pub struct CodedFile {
    /// Its coding.
    pub coding: Coding,
    /// Where it stands.
    pub path: Vec<u8>,
    /// The file.
    pub found: FileFound,
}

/// The file to send instead of `original`, which stands at `path`; none: that itself.
pub async fn choose<F: Fields + ?Sized>(
    cache: &Arc<DescriptorCache>,
    root: &Arc<RootGeneration>,
    path: TreePath<'_>,
    original: &FileEntry,
    fields: &F,
) -> Option<CodedFile> {
    let known = original.siblings(cache);
    if known == Some(0) {
        return None;
    }
    let mut liked = acceptable(fields).peekable();
    if liked.peek() == Some(&Coding::Identity) {
        return None;
    }
    let there = match known {
        Some(there) => there,
        None => look(cache, root, path, original).await,
    };
    for coding in liked {
        let (place, suffix) = stored(coding)?;
        if there & (1 << place) == 0 {
            continue;
        }
        let path = [path.as_bytes(), suffix].concat();
        let looked = cache.lookup(root, TreePath::new(&path)?, Want::Facts).await;
        if let Ok(Looked {
            found: Found::File(found),
            ..
        }) = looked
            && is_of(original, &found.entry)
        {
            return Some(CodedFile {
                coding,
                path,
                found,
            });
        }
    }
    None
}

/// Looks which there are, and notes it with the original where watches vouch for it.
async fn look(
    cache: &Arc<DescriptorCache>,
    root: &Arc<RootGeneration>,
    path: TreePath<'_>,
    original: &FileEntry,
) -> u8 {
    if !MediaType::of(path.file_name()).compressible {
        original.note_siblings(Siblings::never());
        return 0;
    }
    let (mut there, mut vouchers) = (0, Vec::new());
    for (place, (_, suffix)) in SUFFIXES.iter().enumerate() {
        let path = [path.as_bytes(), *suffix].concat();
        let Some(path) = TreePath::new(&path) else {
            continue;
        };
        let (answer, voucher) = cache.lookup_vouched(root, path, Want::Facts).await;
        if answer.is_ok_and(|looked| looked.found.is_file()) {
            there |= 1 << place;
        }
        vouchers.extend(voucher);
    }
    if vouchers.len() == SUFFIXES.len() {
        original.note_siblings(Siblings::seen(there, vouchers));
    }
    there
}

/// Whether a coded file is one of this original: not older, and not left empty by a tool that has failed. Tools that keep times
/// may cut them to seconds.
fn is_of(original: &FileEntry, coded: &FileEntry) -> bool {
    let (before, after) = (original.modified(), coded.modified());
    let is_older = match after.nanos {
        0 => after.seconds < before.seconds,
        _ => after < before,
    };
    !is_older && (coded.size() > 0 || original.size() == 0)
}

/// The place of a coding in the list, and what its files' names end in; none: the original.
fn stored(coding: Coding) -> Option<(usize, &'static [u8])> {
    let place = SUFFIXES.iter().position(|(stored, _)| *stored == coding)?;
    SUFFIXES.get(place).map(|(_, suffix)| (place, *suffix))
}

const SUFFIXES: [(Coding, &[u8]); 3] = [
    (Coding::Brotli, b".br"),
    (Coding::Zstd, b".zst"),
    (Coding::Gzip, b".gz"),
];
