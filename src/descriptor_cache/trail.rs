//! The directories that an absolute path leads through, those of its links included, with the name it takes in each.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::FileType;
use rustix::io::Errno;

use super::file::Descriptor;
use super::open::Opener;

/// The steps of one path.
#[derive(Debug, Default)]
pub struct Trail(pub Vec<Step>);

/// One step.
#[derive(Debug)]
pub struct Step {
    /// The directory, opened by O_PATH.
    pub directory: Arc<Descriptor>,
    /// The name in it.
    pub name: Box<[u8]>,
}

impl Trail {
    /// Follows `path` as far as it leads. Blocks.
    pub fn of(opener: &Opener, path: &Path) -> Self {
        let mut trail = Self::default();
        // However it ends: what has been passed is what can change.
        let _ = trail.follow(opener, path);
        trail
    }

    fn follow(&mut self, opener: &Opener, path: &Path) -> Result<(), Errno> {
        let top = Arc::new(opener.directory(Path::new("/"))?);
        let mut at = if path.is_absolute() {
            Arc::clone(&top)
        } else {
            Arc::new(opener.directory(Path::new("."))?)
        };
        let mut pending = segments(path.as_os_str().as_bytes());
        while let Some(name) = pending.pop() {
            if self.0.len() == MAX_STEPS {
                break;
            }
            if name != b".." {
                self.0.push(Step {
                    directory: Arc::clone(&at),
                    name: name.as_slice().into(),
                });
            }
            let opened = opener.child(&*at, &name)?;
            match opener.facts(&opened)?.kind {
                FileType::Symlink => {
                    let text = opener.link_text(&opened)?;
                    if text.first() == Some(&b'/') {
                        at = Arc::clone(&top);
                    }
                    pending.extend(segments(&text));
                }
                FileType::Directory => at = Arc::new(opened),
                _ => break,
            }
        }
        Ok(())
    }
}

/// The segments, the first one last.
fn segments(path: &[u8]) -> Vec<Vec<u8>> {
    path.split(|&byte| byte == b'/')
        .filter(|segment| !matches!(*segment, b"" | b"."))
        .rev()
        .map(<[u8]>::to_vec)
        .collect()
}

/// More than any path has that leads somewhere: links in circles end here.
const MAX_STEPS: usize = 256;
