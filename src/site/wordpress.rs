//! What is known of every WordPress tree: which names are never given away, where PHP never runs, which files
//! make a page's assets, where its folders are.
//!
//! Pure knowledge about decoded paths without their leading slash (DESIGN section 7). Folders are matched as whole
//! segments, at any depth (Bedrock, installs in subfolders), ASCII case-insensitively.

use crate::site::media_type::extension;

/// The folders of one WordPress: names differ by installation.
#[derive(Debug, Clone)]
pub struct Layout {
    content: Vec<Box<[u8]>>,
}

impl Layout {
    /// A WordPress whose content folder has one of these names (`wp-content`, `app`, `public/content`).
    #[must_use]
    pub fn new(content_dir: &[String]) -> Layout {
        let bare = content_dir
            .iter()
            .map(|name| name.trim_matches('/').as_bytes());
        Layout {
            content: bare
                .filter(|name| !name.is_empty())
                .map(Box::from)
                .collect(),
        }
    }

    /// Whether the path is a content folder, wp-includes or wp-admin, or lies below one.
    #[must_use]
    pub fn is_of_wordpress(&self, path: &[u8]) -> bool {
        tails(path).any(|tail| {
            let first = first_segment(tail);
            is_one_of(first, &[b"wp-includes", b"wp-admin"]) || self.below_content(tail).is_some()
        })
    }

    /// Whether this is a private folder of a plugin, or lies below one.
    #[must_use]
    pub fn is_private(&self, path: &[u8]) -> bool {
        tails(path).any(|tail| {
            self.below_content(tail).is_some_and(|below| {
                let folder = first_segment(below);
                is_one_of(
                    folder,
                    &[b"updraft", b"ai1wm-backups", b"backup-db", b"wflogs"],
                ) || starts_with(folder, b"backups-dup-")
            }) || below_folder(tail, b"uploads").is_some_and(|below| {
                let folder = first_segment(below);
                is_one_of(folder, &[b"wc-logs", b"sucuri"]) || starts_with(folder, b"backwpup")
            })
        })
    }

    /// Whether PHP never runs for this script because of the folder it lies in: what may be written by an upload or
    /// an update is no program.
    #[must_use]
    pub fn is_without_php(&self, script: &[u8]) -> bool {
        let Some(slash) = memchr::memrchr(b'/', script) else {
            return false;
        };
        let folder = script.get(..slash).unwrap_or_default();
        tails(folder).any(|tail| {
            is_one_of(
                first_segment(tail),
                &[b"uploads", b"blogs.dir", b".well-known"],
            ) || self.below_content(tail).is_some_and(|below| {
                let child = first_segment(below);
                child.eq_ignore_ascii_case(b"cache") || starts_with(child, b"upgrade")
            })
        })
    }

    /// Whether a missing file of this path is an asset that WordPress would not make either. Below a segment `cache`
    /// plugins make files on demand.
    #[must_use]
    pub fn is_asset(&self, path: &[u8]) -> bool {
        has_asset_extension(path)
            && self.is_of_wordpress(path)
            && !segments(path).any(|segment| segment.eq_ignore_ascii_case(b"cache"))
    }

    /// What follows a content folder that stands at the beginning of `tail`.
    fn below_content<'t>(&self, tail: &'t [u8]) -> Option<&'t [u8]> {
        self.content
            .iter()
            .find_map(|name| below_folder(tail, name))
    }
}

/// Whether a file of this path is never given away, by its name: configuration, logs, dumps, copies, and the same
/// rotated (`debug.log.1`, `error_log.2.gz`).
///
/// A path with a slash at its end names no file, and may be a page about one: `/wp-config-explained/`.
#[must_use]
pub fn is_sensitive(path: &[u8]) -> bool {
    if segments(path).any(|segment| starts_with(segment, b"wp-config.php")) {
        return true;
    }
    if path.ends_with(b"/") {
        return false;
    }
    let name = without_rotation(file_name(path));
    starts_with(name, b"wp-config")
        || is_one_of(
            name,
            &[b"error_log", b"php.ini", b"nginx.conf", b"web.config"],
        )
        || starts_with(name, b"composer.")
        || (starts_with(name, b"package") && ends_with(name, b".json"))
        || contains(name, b".sql")
        || name.ends_with(b"~")
        || extension(name).is_some_and(|e| is_one_of(e, &COPIES))
}

/// Whether this is a file of the root that tells about the installation, or a backup left there.
#[must_use]
pub fn is_private_in_root(path: &[u8]) -> bool {
    let name = file_name(path);
    name == path.strip_suffix(b"/").unwrap_or(path)
        && (is_one_of(name, &[b"readme.html", b"license.txt"])
            || (extension(name).is_some_and(|e| is_one_of(e, &ARCHIVES)) && !is_sitemap(name)))
}

/// Whether this is a packed sitemap, which plugins keep in the root or make on demand: no backup.
fn is_sitemap(name: &[u8]) -> bool {
    contains(name, b"sitemap") && ends_with(name, b".xml.gz")
}

/// The name before a log's rotation: without numbers and what packs it behind dots.
fn without_rotation(mut name: &[u8]) -> &[u8] {
    while let Some(last) = extension(name)
        && (last.iter().all(u8::is_ascii_digit) || is_one_of(last, &ROTATED))
    {
        let Some(end) = name.len().checked_sub(last.len() + 1) else {
            break;
        };
        name = name.get(..end).unwrap_or_default();
    }
    name
}

/// The part of a path that belongs to the network when its first segment is a site's name (nginx's documented rules
/// for networks in subdirectories): `site/wp-admin/x`, `site/wp-login.php`, `site/index.php/x`, Bedrock's
/// `site/wp/wp-admin/x`.
#[must_use]
pub fn without_site(path: &[u8]) -> Option<&[u8]> {
    let (site, rest) = split_site(path)?;
    let is_of_network = |segment: &[u8]| {
        matches!(segment, b"wp-content" | b"wp-admin" | b"wp-includes")
            || segment.ends_with(b".php")
    };
    (is_site_name(site) && segments(rest).any(is_of_network)).then_some(rest)
}

/// The file that `files/…` or `site/files/…` means in a network that began before WordPress 3.5.
#[must_use]
pub fn network_file(path: &[u8], in_subdirectory: bool) -> Option<&[u8]> {
    let direct = path.strip_prefix(b"files/");
    let file = direct.or_else(|| {
        let (site, rest) = split_site(path)?;
        (in_subdirectory && is_site_name(site)).then(|| rest.strip_prefix(b"files/"))?
    })?;
    (!file.is_empty()).then_some(file)
}

/// Whether the name is one of what pages load: styles, scripts, images, fonts, media, documents.
#[must_use]
pub fn has_asset_extension(path: &[u8]) -> bool {
    extension(file_name(path)).is_some_and(|e| is_one_of(e, &ASSETS))
}

/// The last segment that is not empty.
#[must_use]
pub fn file_name(path: &[u8]) -> &[u8] {
    let bare = path.strip_suffix(b"/").unwrap_or(path);
    memchr::memrchr(b'/', bare).map_or(bare, |slash| bare.get(slash + 1..).unwrap_or_default())
}

/// The segments of a path.
pub fn segments(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&b| b == b'/')
        .filter(|segment| !segment.is_empty())
}

/// What a request is sent to for a file of an old network.
pub const NETWORK_FILES_SCRIPT: &[u8] = b"wp-includes/ms-files.php";

/// The path from each of its segments on.
fn tails(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::successors(Some(path), |tail| {
        let slash = memchr::memchr(b'/', tail)?;
        tail.get(slash + 1..)
    })
}

fn first_segment(tail: &[u8]) -> &[u8] {
    let end = memchr::memchr(b'/', tail).unwrap_or(tail.len());
    tail.get(..end).unwrap_or_default()
}

fn split_site(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let slash = memchr::memchr(b'/', path)?;
    Some((path.get(..slash)?, path.get(slash + 1..)?))
}

fn is_site_name(segment: &[u8]) -> bool {
    !segment.is_empty()
        && segment
            .iter()
            .all(|&b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

/// What follows `folder` in `tail`, when `tail` begins with it as whole segments.
fn below_folder<'t>(tail: &'t [u8], folder: &[u8]) -> Option<&'t [u8]> {
    if !starts_with(tail, folder) {
        return None;
    }
    match tail.get(folder.len()..)? {
        [] => Some(&[]),
        [b'/', below @ ..] => Some(below),
        _ => None,
    }
}

fn starts_with(name: &[u8], prefix: &[u8]) -> bool {
    name.get(..prefix.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

fn ends_with(name: &[u8], suffix: &[u8]) -> bool {
    let start = name.len().checked_sub(suffix.len());
    start
        .and_then(|at| name.get(at..))
        .is_some_and(|end| end.eq_ignore_ascii_case(suffix))
}

fn contains(name: &[u8], part: &[u8]) -> bool {
    name.windows(part.len())
        .any(|window| window.eq_ignore_ascii_case(part))
}

fn is_one_of(name: &[u8], list: &[&[u8]]) -> bool {
    list.iter().any(|entry| name.eq_ignore_ascii_case(entry))
}

/// Extensions of what pages load; a missing one is worth no start of WordPress.
const ASSETS: [&[u8]; 44] = [
    b"css", b"js", b"mjs", b"map", b"json", b"wasm", b"jpg", b"jpeg", b"jpe", b"png", b"gif",
    b"webp", b"avif", b"svg", b"svgz", b"ico", b"bmp", b"tif", b"tiff", b"heic", b"woff", b"woff2",
    b"ttf", b"otf", b"eot", b"mp3", b"m4a", b"ogg", b"oga", b"wav", b"flac", b"mp4", b"m4v",
    b"webm", b"ogv", b"mov", b"avi", b"pdf", b"zip", b"txt", b"md", b"po", b"mo", b"pot",
];
const COPIES: [&[u8]; 8] = [
    b"bak", b"old", b"orig", b"save", b"dist", b"swp", b"swo", b"log",
];
const ROTATED: [&[u8]; 4] = [b"gz", b"bz2", b"xz", b"zst"];
const ARCHIVES: [&[u8]; 13] = [
    b"zip", b"tar", b"gz", b"tgz", b"bz2", b"tbz2", b"xz", b"txz", b"7z", b"rar", b"zst",
    b"wpress", b"jpa",
];

#[cfg(test)]
mod tests;
