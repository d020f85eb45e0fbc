//! A path below a document root, in the one shape the rest of the program knows.

/// A path below a document root: no slash at either end, no empty, `.` or `..` segment, no NUL.
///
/// The root itself is the empty path. The bytes need not be UTF-8.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TreePath<'a>(&'a [u8]);

impl<'a> TreePath<'a> {
    /// The document root itself.
    pub const ROOT: TreePath<'static> = TreePath(b"");

    /// The path when the bytes have the shape; they are never changed to make it so.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let well_formed = bytes.is_empty()
            || (memchr::memchr(0, bytes).is_none()
                && bytes
                    .split(|&byte| byte == b'/')
                    .all(|segment| !matches!(segment, b"" | b"." | b"..")));
        well_formed.then_some(TreePath(bytes))
    }

    /// The bytes of the path, segments joined by `/`.
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Whether this is the document root itself.
    pub fn is_root(self) -> bool {
        self.0.is_empty()
    }

    /// The segments from the root downwards; none for the root.
    pub fn segments(self) -> impl DoubleEndedIterator<Item = &'a [u8]> {
        self.0
            .split(|&byte| byte == b'/')
            .filter(|segment| !segment.is_empty())
    }

    /// The directory that holds this path; `None` for the root.
    pub fn parent(self) -> Option<TreePath<'a>> {
        if self.is_root() {
            return None;
        }
        let end = memchr::memrchr(b'/', self.0).unwrap_or(0);
        Some(TreePath(self.0.get(..end).unwrap_or_default()))
    }

    /// The last segment; empty for the root.
    pub fn file_name(self) -> &'a [u8] {
        self.0
            .rsplit(|&byte| byte == b'/')
            .next()
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_has_no_segment_and_no_parent() {
        assert_eq!(TreePath::new(b""), Some(TreePath::ROOT));
        assert_eq!(TreePath::ROOT.segments().count(), 0);
        assert_eq!(TreePath::ROOT.parent(), None);
        assert_eq!(TreePath::ROOT.file_name(), b"");
    }

    #[test]
    fn a_path_is_walked_in_both_directions() {
        let path = TreePath::new(b"wp-content/themes/t.css").expect("well formed");
        let down: Vec<_> = path.segments().collect();
        assert_eq!(down, [&b"wp-content"[..], b"themes", b"t.css"]);
        assert_eq!(path.file_name(), b"t.css");
        let parent = path.parent().expect("has a parent");
        assert_eq!(parent.as_bytes(), b"wp-content/themes");
        let top = parent.parent().expect("has a parent");
        assert_eq!(top.as_bytes(), b"wp-content");
        assert_eq!(top.parent(), Some(TreePath::ROOT));
    }

    #[test]
    fn any_other_shape_is_refused() {
        for bytes in [
            &b"/"[..],
            b"/a",
            b"a/",
            b"a//b",
            b".",
            b"..",
            b"a/../b",
            b"./a",
            b"a/.",
            b"a\0b",
        ] {
            assert_eq!(TreePath::new(bytes), None, "{bytes:?}");
        }
        assert!(TreePath::new(b".well-known/..a/...").is_some());
    }
}
