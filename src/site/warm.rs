//! Files that are taken into the cache before anybody asks (`warm:`): at the start, after a reload, and after a release
//! was swapped. It runs beside the requests and is bounded, so that a careless pattern costs a minute at the most.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt};

use crate::descriptor_cache::{Child, RootGeneration, Want};
use crate::request::TreePath;
use crate::request::pattern::Pattern;
use crate::site::StaticSite;
use crate::site::php_source;

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Warmed {
    /// Files taken in.
    pub files: usize,
    /// Whether the tree had more than may be taken in, or took longer.
    pub is_cut: bool,
}

/// Takes in what the patterns of `site` mean in its present generation.
pub async fn warm(site: &StaticSite) -> Warmed {
    warm_patterns(site, site.warm_patterns()).await
}

/// Takes in what these patterns mean.
pub async fn warm_patterns(site: &StaticSite, patterns: &[Pattern]) -> Warmed {
    let generation = site.root().current();
    let mut warmed = Warmed::default();
    let walking = walk(site, &generation, patterns, &mut warmed);
    if tokio::time::timeout(LONGEST, walking).await.is_err() {
        warmed.is_cut = true;
    }
    warmed
}

async fn walk(
    site: &StaticSite,
    generation: &Arc<RootGeneration>,
    patterns: &[Pattern],
    warmed: &mut Warmed,
) {
    let mut folders = VecDeque::from(beginnings(patterns));
    let mut listed = 0;
    while let Some(folder) = folders.pop_front() {
        listed += 1;
        let Some(path) = TreePath::new(&folder) else {
            continue;
        };
        if listed > MOST_FOLDERS || warmed.files >= MOST_FILES {
            warmed.is_cut = true;
            return;
        }
        let listing = site.cache().children(generation, path, MOST_FILES).await;
        let mut files = Vec::new();
        for Child { name, is_directory } in listing.unwrap_or_default() {
            let path = match folder.is_empty() {
                true => name.to_vec(),
                false => [&folder[..], b"/", &name].concat(),
            };
            if is_directory {
                folders.push_back(path);
            } else if patterns.iter().any(|pattern| pattern.matches(&path)) {
                files.push(path);
            }
        }
        let room = MOST_FILES - warmed.files;
        warmed.is_cut |= files.len() > room;
        files.truncate(room);
        let taken = stream::iter(files)
            .map(|path| take_in(site, generation, path))
            .buffer_unordered(AT_ONCE)
            .filter(|taken| std::future::ready(*taken));
        warmed.files += taken.count().await;
    }
}

/// Uses a file as often as it takes to be admitted. PHP sources are not read: nobody is sent them.
async fn take_in(site: &StaticSite, generation: &Arc<RootGeneration>, path: Vec<u8>) -> bool {
    let Some(path) = TreePath::new(&path) else {
        return false;
    };
    if php_source::is_source(path.file_name()) {
        return false;
    }
    let mut found = false;
    for _ in 0..=site.cache().min_uses() {
        let looked = site.cache().lookup(generation, path, Want::Content).await;
        found = looked.is_ok_and(|looked| looked.found.is_file());
        if !found {
            break;
        }
    }
    found
}

/// The folders to begin at, none within another.
fn beginnings(patterns: &[Pattern]) -> Vec<Vec<u8>> {
    let mut folders: Vec<Vec<u8>> = patterns
        .iter()
        .map(|pattern| pattern.folder().to_vec())
        .collect();
    folders.sort();
    folders.dedup();
    let all = folders.clone();
    folders.retain(|folder| {
        !all.iter().any(|above| {
            above != folder
                && (above.is_empty()
                    || folder
                        .strip_prefix(&above[..])
                        .is_some_and(|rest| rest.first() == Some(&b'/')))
        })
    });
    folders
}

const MOST_FILES: usize = 10_000;
const MOST_FOLDERS: usize = 10_000;
const AT_ONCE: usize = 8;
const LONGEST: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::fixture::{Fixture, run};
    use crate::site::settings::{Preset, SiteSettings};

    #[test]
    fn beginnings_hold_no_folder_twice() {
        let patterns: Vec<Pattern> = ["/a/b/", "/a/*.css", "/a/b/c/**/x.js", "/ab/"]
            .iter()
            .map(|text| Pattern::parse(text).expect("a pattern"))
            .collect();
        assert_eq!(beginnings(&patterns), [b"a".to_vec(), b"ab".to_vec()]);
        let everywhere = [Pattern::parse("*.css").expect("a pattern")];
        assert_eq!(beginnings(&everywhere), [b"".to_vec()]);
    }

    #[test]
    fn what_the_patterns_mean_is_a_hit_at_the_first_request() {
        run(async {
            let fixture = Fixture::empty();
            for path in [
                "t/style.css",
                "t/deep/er/app.js",
                "t/page.php",
                "u/photo.jpg",
            ] {
                fixture.write(path, "content");
            }
            let site = fixture.site(&SiteSettings {
                warm: vec!["/t/".into()],
                ..fixture.settings(Preset::Static)
            });
            let warmed = warm(&site.site).await;
            assert_eq!(
                warmed,
                Warmed {
                    files: 2,
                    is_cut: false
                }
            );
            let before = fixture.cache.counters().snapshot();
            assert_eq!(site.get("/t/style.css").await, "200 content");
            assert_eq!(site.get("/t/deep/er/app.js").await, "200 content");
            let after = fixture.cache.counters().snapshot();
            assert_eq!(after.calls.reads, before.calls.reads);
            assert!(after.hits >= before.hits + 2);
        });
    }
}
