//! Files that PHP names instead of sending: X-Accel-Redirect (a path below the root) and X-Sendfile (a file's path).
//!
//! A script has decided that this client may have the file, so `deny` and `.htaccess` do not count. PHP sources,
//! dotfiles and `wp-config*` are not sent for it either: a script that passes on a name from its request would give
//! away the site. Ranges and preconditions are answered as for any file; what PHP has said of the content stays.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::descriptor_cache::{
    DescriptorCache, DocumentRoot, FileFound, Found, HeadPair, LinkPolicy, Outcome, PreparedHeads,
    RootGeneration, Want,
};
use crate::request::fields::Fields;
use crate::request::head::Method;
use crate::request::target::Target;
use crate::request::tree_path::TreePath;
use crate::site::conditional::Selected;
use crate::site::decision::Request;
use crate::site::response::{self, Answer};
use crate::site::settings::{Backend, SiteSettings};
use crate::site::{access, php_source, wordpress};

/// The file that PHP names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccelTarget<'a> {
    /// X-Accel-Redirect: a URL path below the root, percent-encoded or not; a query is left alone.
    Redirect(&'a [u8]),
    /// X-Sendfile: an absolute path below the root, as we or as PHP sees it, or below a link target, where `realpath`
    /// leads.
    SendFile(&'a [u8]),
}

/// A file that was found for a script.
#[derive(Debug)]
pub struct NamedFile {
    /// Its path below the root, or below the link target.
    pub path: Vec<u8>,
    /// The file.
    pub found: FileFound,
    /// What the cache had to do.
    pub outcome: Outcome,
}

/// The link targets that files have been named in, each as a root of its own; opened when first needed.
#[derive(Debug, Default)]
pub struct TargetRoots(Mutex<HashMap<PathBuf, Arc<DocumentRoot>>>);

impl TargetRoots {
    /// The root at this link target; None when it cannot be opened.
    async fn root(
        &self,
        cache: &Arc<DescriptorCache>,
        generation: &RootGeneration,
        target: PathBuf,
    ) -> Option<Arc<DocumentRoot>> {
        if let Some(root) = self.0.lock().get(&target) {
            return Some(root.clone());
        }
        let opened = {
            let (cache, target) = (cache.clone(), target.clone());
            // It may lie on a network file system.
            tokio::task::spawn_blocking(move || cache.root(&target, LinkPolicy::default()))
        };
        match opened.await {
            Ok(Ok(root)) => {
                let mut roots = self.0.lock();
                // What an earlier release led to is let go of.
                roots.retain(|known, _| generation.link_targets().any(|target| target == known));
                roots.insert(target, root.clone());
                Some(root)
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "a link target cannot be opened");
                None
            }
            Err(_) => None,
        }
    }
}

/// Finds the file.
///
/// # Errors
/// The status of the answer where there is none to send; the log says why.
pub async fn locate(
    cache: &Arc<DescriptorCache>,
    settings: &SiteSettings,
    generation: &Arc<RootGeneration>,
    link_targets: &TargetRoots,
    target: AccelTarget<'_>,
) -> Result<NamedFile, u16> {
    let (shown, mut path) = match target {
        AccelTarget::Redirect(path) => (path, below_root_by_url(path)),
        AccelTarget::SendFile(path) => (path, below_root_by_file_name(path, settings, generation)),
    };
    let mut generation = generation.clone();
    if let (AccelTarget::SendFile(name), None) = (target, &path)
        && let Some((target, rest)) = below_link_target(name, &generation)
        && let Some(root) = link_targets.root(cache, &generation, target).await
    {
        generation = root.current();
        path = Some(rest);
    }
    let refuse = |status, reason| {
        tracing::warn!(path = %shown.escape_ascii(), reason, "a script named a file that is not sent");
        status
    };
    let bytes = path.ok_or_else(|| refuse(404, "not below the document root"))?;
    let path = TreePath::new(&bytes).ok_or_else(|| refuse(404, "not a path of a file"))?;
    if access::has_dot_segment(&bytes)
        || php_source::is_source(path.file_name())
        || wordpress::segments(&bytes)
            .any(|segment| segment.to_ascii_lowercase().starts_with(b"wp-config"))
    {
        return Err(refuse(403, "never sent"));
    }
    let looked = cache.lookup(&generation, path, Want::Content).await.map_err(|error| {
        tracing::warn!(path = %shown.escape_ascii(), %error, "a script named a file that is not sent");
        error.status()
    })?;
    match looked.found {
        Found::File(found) => Ok(NamedFile {
            found,
            outcome: looked.outcome,
            path: bytes,
        }),
        Found::Directory | Found::Missing => Err(refuse(404, "no such file")),
    }
}

/// The answer, with what PHP has said of the content in the place of what we would say.
pub fn answer<F: Fields + ?Sized>(
    request: &Request<'_, F>,
    found: &FileFound,
    heads: &PreparedHeads,
    kept: &[(Vec<u8>, Vec<u8>)],
) -> Answer {
    let kept: Vec<_> = kept
        .iter()
        .filter(|(name, value)| is_kept(name) && is_field_value(value))
        .collect();
    let replaced = |head: &Bytes, left_out: &[&str]| {
        let mut lines = Vec::with_capacity(head.len() + 256);
        for line in head.split_inclusive(|&b| b == b'\n') {
            let name = line.split(|&b| b == b':').next().unwrap_or_default();
            // How long a file may be kept, and by whom, is said for everybody's files; this one was given to one
            // client, perhaps together with a cookie.
            if !name.eq_ignore_ascii_case(b"Cache-Control")
                && !kept
                    .iter()
                    .any(|(other, _)| other.eq_ignore_ascii_case(name))
            {
                lines.extend_from_slice(line);
            }
        }
        for (name, value) in &kept {
            if !left_out
                .iter()
                .any(|other| other.as_bytes().eq_ignore_ascii_case(name))
            {
                for part in [&name[..], b": ", value, b"\r\n"] {
                    lines.extend_from_slice(part);
                }
            }
        }
        Bytes::from(lines)
    };
    let pair = HeadPair {
        ok: replaced(&heads.plain.ok, &[]),
        not_modified: replaced(
            &heads.plain.not_modified,
            &["Content-Type", "Content-Disposition"],
        ),
        partial: replaced(&heads.plain.partial, &["Content-Type"]),
    };
    let media_type = kept
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(b"Content-Type"));
    let selected = Selected {
        found,
        heads,
        pair: &pair,
        media_type: media_type.map_or(&heads.media_type, |(_, value)| value),
    };
    selected.answer(request)
}

/// Decoded once, as a request's own path. Scripts send names as they are, too: what may not stand in a target is
/// escaped before.
fn below_root_by_url(value: &[u8]) -> Option<Vec<u8>> {
    let path = value.split(|&b| b == b'?').next()?;
    let mut escaped = Vec::with_capacity(path.len());
    response::encode(path, VISIBLE, &mut escaped);
    let target = Target::parse(&Method::Get, &escaped).ok()?;
    if !escaped.starts_with(b"/") || target.trailing_slash() {
        return None;
    }
    target.tree_path().map(|path| path.as_bytes().to_vec())
}

/// Below the root as it is, as it was configured, or as PHP sees it.
fn below_root_by_file_name(
    path: &[u8],
    settings: &SiteSettings,
    generation: &RootGeneration,
) -> Option<Vec<u8>> {
    let of_php = match &settings.backend {
        Backend::Php(php) => php.root.as_deref(),
        Backend::None | Backend::Origin(_) => None,
    };
    let roots = [
        Some(generation.resolved()),
        of_php,
        Some(settings.root.as_path()),
    ];
    roots
        .into_iter()
        .flatten()
        .find_map(|root| below(path, root))
}

/// The link target that the path lies below, and what follows it.
fn below_link_target(path: &[u8], generation: &RootGeneration) -> Option<(PathBuf, Vec<u8>)> {
    generation
        .link_targets()
        .find_map(|target| Some((target.to_owned(), below(path, target)?)))
}

fn below(path: &[u8], root: &Path) -> Option<Vec<u8>> {
    let root = root.as_os_str().as_bytes();
    let root = root.strip_suffix(b"/").unwrap_or(root);
    let rest = path.strip_prefix(root)?.strip_prefix(b"/")?;
    let segments: Vec<_> = wordpress::segments(rest).collect();
    Some(segments.join(&b'/')).filter(|path| !path.is_empty() && !rest.ends_with(b"/"))
}

fn is_kept(name: &[u8]) -> bool {
    KEPT.iter()
        .any(|kept| kept.as_bytes().eq_ignore_ascii_case(name))
}

fn is_field_value(value: &[u8]) -> bool {
    !value.iter().any(|b| b.is_ascii_control() && *b != b'\t')
}

/// What PHP says of a file it names.
const KEPT: [&str; 5] = [
    "Content-Type",
    "Content-Disposition",
    "Cache-Control",
    "Expires",
    "Set-Cookie",
];
/// What a script may have left unescaped and a target cannot hold is everything but these, letters and digits.
const VISIBLE: &[u8] = b"!\"$%&'()*+,-./:;<=>@[\\]^_`{|}~";

#[cfg(test)]
mod tests;
