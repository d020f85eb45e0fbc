//! A configuration of many files as one tree: each `include` is replaced by what it names.

#![expect(
    clippy::disallowed_methods,
    reason = "reads the configuration it is given; the tree that is served is opened elsewhere"
)]

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::directives::{Directive, parse};
use super::{Place, Unreadable, glob};

/// The tree of `file` and all that it includes. An `include` of a file that is not there stays a directive, for who
/// reads the tree to judge; a pattern that finds nothing is gone, as for nginx.
///
/// # Errors
/// A file that cannot be read or parsed, or more of them than a configuration has.
pub fn read(file: &Path) -> Result<Vec<Directive>, Unreadable> {
    let folder = file.parent().unwrap_or(Path::new("")).to_owned();
    let mut reading = Reading {
        // A site's own file lies in a folder of nginx's: includes are relative to the one above.
        prefixes: vec![folder.clone(), folder.join("..")],
        bytes_left: MAX_BYTES,
        files_left: MAX_FILES,
    };
    reading.file(file, 0)
}

struct Reading {
    prefixes: Vec<PathBuf>,
    bytes_left: u64,
    files_left: usize,
}

impl Reading {
    fn file(&mut self, path: &Path, depth: usize) -> Result<Vec<Directive>, Unreadable> {
        let name: Rc<str> = Rc::from(path.to_string_lossy());
        let unreadable = |reason: String| Unreadable {
            place: Place {
                file: name.clone(),
                line: 0,
            },
            reason,
        };
        if depth > MAX_DEPTH {
            return Err(unreadable(format!("includes nest deeper than {MAX_DEPTH}")));
        }
        self.files_left = self
            .files_left
            .checked_sub(1)
            .ok_or_else(|| unreadable(format!("more than {MAX_FILES} files")))?;
        let bytes = self
            .bytes(path)
            .map_err(|error| unreadable(format!("cannot be read: {error}")))?;
        let tree = parse(&name, &bytes)?;
        self.included(tree, depth)
    }

    fn bytes(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = File::open(path)?
            .take(self.bytes_left + 1)
            .read_to_end(&mut bytes)?;
        let read = u64::try_from(read).unwrap_or(u64::MAX);
        self.bytes_left = self.bytes_left.checked_sub(read).ok_or_else(|| {
            io::Error::other(format!(
                "the configuration is larger than {MAX_BYTES} bytes"
            ))
        })?;
        Ok(bytes)
    }

    /// The tree with the files in the place of their includes.
    fn included(
        &mut self,
        tree: Vec<Directive>,
        depth: usize,
    ) -> Result<Vec<Directive>, Unreadable> {
        let mut whole = Vec::with_capacity(tree.len());
        for mut directive in tree {
            if let Some(block) = directive.block.take() {
                directive.block = Some(self.included(block, depth)?);
            } else if directive.name == "include" {
                let files = self.resolve(directive.arg(0));
                if files.is_empty() && !glob::has_wildcards(directive.arg(0)) {
                    whole.push(directive);
                }
                for file in files {
                    whole.extend(self.file(&file, depth + 1)?);
                }
                continue;
            }
            whole.push(directive);
        }
        Ok(whole)
    }

    /// The files that are there.
    fn resolve(&self, pattern: &str) -> Vec<PathBuf> {
        let found = |pattern: &Path| {
            let mut paths = glob::matches(pattern, &names);
            paths.retain(|path| path.is_file());
            paths
        };
        let there = found(Path::new(pattern));
        if pattern.starts_with('/') && !there.is_empty() {
            return there;
        }
        // A configuration copied from its machine names its files as they were there.
        let relative = USUAL_FOLDERS
            .iter()
            .find_map(|folder| pattern.strip_prefix(folder))
            .unwrap_or(pattern);
        if relative.starts_with('/') {
            return Vec::new();
        }
        let places = self.prefixes.iter().map(|prefix| prefix.join(relative));
        let mut found = places.map(|pattern| found(&pattern));
        found.find(|files| !files.is_empty()).unwrap_or_default()
    }
}

fn names(folder: &Path) -> Vec<String> {
    // An empty path is the current directory to everybody but read_dir.
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

const USUAL_FOLDERS: [&str; 3] = [
    "/etc/nginx/",
    "/usr/local/etc/nginx/",
    "/usr/local/nginx/conf/",
];
const MAX_DEPTH: usize = 16;
const MAX_FILES: usize = 1000;
const MAX_BYTES: u64 = 8 << 20;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use super::*;

    fn tree(files: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let tree = read(&folder.path().join(files[0].0)).map_err(|wrong| wrong.to_string())?;
        Ok(tree.iter().map(Directive::shown).collect())
    }

    #[test]
    fn includes_are_followed_in_their_place() {
        let found = tree(&[
            (
                "nginx.conf",
                "a; include conf.d/*.conf; include none/*; include gone.conf; z;",
            ),
            ("conf.d/2.conf", "c;"),
            ("conf.d/1.conf", "b; include /etc/nginx/snippets/s.conf;"),
            ("snippets/s.conf", "s;"),
        ]);
        assert_eq!(
            found.unwrap(),
            ["a", "b", "s", "c", "include gone.conf", "z"]
        );
    }

    #[test]
    fn a_sites_file_finds_the_snippets_beside_its_folder() {
        let found = tree(&[
            ("sites-enabled/a.conf", "include snippets/s.conf;"),
            ("snippets/s.conf", "s;"),
        ]);
        assert_eq!(found.unwrap(), ["s"]);
    }

    #[test]
    fn a_circle_ends() {
        let wrong = tree(&[("nginx.conf", "include nginx.conf;")]).unwrap_err();
        assert!(wrong.contains("nest deeper"), "{wrong}");
    }
}
