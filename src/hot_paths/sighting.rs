//! What is noted of one answer.

use crate::metrics::Kind;

/// One answer: what was asked for, who answered, and how.
#[derive(Clone, Copy, Debug)]
pub struct Sighting<'a> {
    /// The host asked for.
    pub host: &'a [u8],
    /// The path as sent, without its query: there are secrets in queries.
    pub path: &'a [u8],
    /// Who answered.
    pub kind: Kind,
    /// The status.
    pub status: u16,
}

impl<'a> Sighting<'a> {
    /// The answer to the request of this target.
    pub fn of_target(host: &'a [u8], target: &'a [u8], kind: Kind, status: u16) -> Sighting<'a> {
        let end = memchr::memchr(b'?', target).unwrap_or(target.len());
        let path = target.get(..end).unwrap_or_default();
        Sighting {
            host: cut(host, LONGEST_HOST),
            path: cut(path, LONGEST_PATH),
            kind,
            status,
        }
    }

    /// The answer to the request of this head, which was parsed before; none: there is no target in it.
    pub fn of_head(head: &'a [u8], kind: Kind, status: u16) -> Option<Sighting<'a>> {
        let mut lines = head.trim_ascii_start().split(|byte| *byte == b'\n');
        let target = lines.next()?.split(|byte| *byte == b' ').nth(1)?;
        let host = lines.find_map(|line| {
            let (name, value) = line.split_at_checked(HOST.len())?;
            name.eq_ignore_ascii_case(HOST)
                .then_some(value.trim_ascii())
        });
        Some(Sighting::of_target(
            host.unwrap_or_default(),
            target,
            kind,
            status,
        ))
    }
}

fn cut(text: &[u8], most: usize) -> &[u8] {
    text.get(..most).unwrap_or(text)
}

const HOST: &[u8] = b"host:";
const LONGEST_HOST: usize = 100;
const LONGEST_PATH: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_tells_path_and_host_and_no_query() {
        let head = b"\r\nGET /a%20b.css?key=secret HTTP/1.1\r\nAccept: */*\r\nHOST:  shop.example \r\n\r\n";
        let seen = Sighting::of_head(head, Kind::Static, 200).expect("a target");
        assert_eq!(
            (seen.host, seen.path),
            (&b"shop.example"[..], &b"/a%20b.css"[..])
        );
        let bare = Sighting::of_head(b"GET / HTTP/1.0\r\n\r\n", Kind::Static, 200);
        assert!(bare.is_some_and(|seen| seen.host.is_empty() && seen.path == b"/"));
        assert!(Sighting::of_head(b"", Kind::Refused, 400).is_none());
    }

    #[test]
    fn long_paths_are_cut() {
        let target = vec![b'a'; 10_000];
        let seen = Sighting::of_target(&target, &target, Kind::Php, 200);
        assert_eq!((seen.host.len(), seen.path.len()), (100, 200));
    }
}
