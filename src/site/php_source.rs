//! Which names PHP, or a server set up for PHP, would take for PHP source.
//!
//! Such a file is never sent, in any preset: a name that a web server takes for text but an editor or an attacker
//! took from a script (`wp-config.php~`, `index.PHP`, `a.php.`) gives the source away.

/// Whether this is a script by its exact suffix. ASCII and case-sensitive, as the file system is: what differs in
/// case or by a look-alike is no script.
#[must_use]
pub fn is_script(name: &[u8]) -> bool {
    name.len() > SCRIPT_SUFFIX.len() && name.ends_with(SCRIPT_SUFFIX)
}

/// Whether a file of this name may be PHP source: by suffix in any case, behind trailing dots, blanks and `~`, with
/// something hung on (`a.php_`, `a.php-old`, `a.php (1)`), numbered (`a.php.1`), or as an editor's copy.
#[must_use]
pub fn is_source(name: &[u8]) -> bool {
    let mut name = without_tricks(name);
    loop {
        let Some((stem, extension)) = split_extension(name) else {
            return false;
        };
        if is_source_extension(extension) {
            return true;
        }
        let numbered = extension.iter().all(u8::is_ascii_digit);
        if !numbered
            && !COPIES
                .iter()
                .any(|copy| extension.eq_ignore_ascii_case(copy))
        {
            return false;
        }
        name = without_tricks(stem);
    }
}

/// The ends of the prefixes of `path` whose last segment is a script's name, shortest first.
pub fn script_ends(path: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let ends = memchr::memchr_iter(b'/', path).chain(std::iter::once(path.len()));
    ends.filter(|&end| {
        let prefix = path.get(..end).unwrap_or_default();
        let start = memchr::memrchr(b'/', prefix).map_or(0, |slash| slash + 1);
        prefix.get(start..).is_some_and(is_script)
    })
}

fn without_tricks(name: &[u8]) -> &[u8] {
    let end = name
        .iter()
        .rposition(|&b| b > b' ' && !matches!(b, b'.' | b'~' | b'#' | 0x7f))
        .map_or(0, |last| last + 1);
    name.get(..end).unwrap_or_default()
}

fn split_extension(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let dot = memchr::memrchr(b'.', name)?;
    Some((name.get(..dot)?, name.get(dot + 1..)?))
}

/// What is hung on behind the letters and digits does not make it another one: no file a page loads ends so.
fn is_source_extension(extension: &[u8]) -> bool {
    let end = extension
        .iter()
        .position(|byte| !byte.is_ascii_alphanumeric());
    let extension = end
        .and_then(|end| extension.get(..end))
        .unwrap_or(extension);
    SOURCES
        .iter()
        .any(|source| extension.eq_ignore_ascii_case(source))
        || extension.split_last().is_some_and(|(digit, php)| {
            (b'3'..=b'8').contains(digit) && php.eq_ignore_ascii_case(b"php")
        })
}

const SCRIPT_SUFFIX: &[u8] = b".php";
const SOURCES: [&[u8]; 6] = [b"php", b"phtml", b"phar", b"phps", b"pht", b"inc"];
/// Suffixes that editors, installers and people put behind a name they keep a copy of.
const COPIES: [&[u8]; 11] = [
    b"bak", b"old", b"orig", b"save", b"dist", b"swp", b"swo", b"tmp", b"copy", b"backup", b"txt",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_told_by_its_exact_suffix() {
        assert!(is_script(b"index.php"));
        for name in [
            &b"index.PHP"[..],
            b".php",
            b"index.php5",
            b"index.php ",
            "index.\u{ff50}hp".as_bytes(),
        ] {
            assert!(!is_script(name), "{name:?}");
        }
    }

    #[test]
    fn sources_are_told_behind_tricks() {
        for name in [
            "a.php",
            "a.PHP",
            "a.PhP",
            "a.php3",
            "a.php8",
            "a.phtml",
            "a.PHAR",
            "a.phps",
            "a.pht",
            "a.inc",
            "a.php.",
            "a.php...",
            "a.php ",
            "a.php~",
            "a.php.bak",
            "a.PHP.OLD~",
            "a.php.save~.swp",
            ".php",
        ] {
            assert!(is_source(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn sources_are_told_whatever_is_hung_on() {
        for name in [
            "a.php_",
            "a.PHP-old",
            "a.php (1)",
            "a.php copy",
            "a.php::$DATA",
            "a.php;x",
            "a.php\u{a0}",
            "a.php7_bak",
            "a.php.1",
            "a.php.save.2",
            "a.php.20240102",
            "a.php.txt",
            "a.inc-old",
        ] {
            assert!(is_source(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn other_names_are_no_sources() {
        for name in [
            "a.css",
            "php",
            "a.php.css",
            "a.php-1.2.js",
            "a.inc.min.js",
            "a.1.txt",
            "a.php_x.html",
            "1.2.3",
            "a.php9",
            "a.phpx",
            "inc",
            "a.bak",
            "",
            "~",
            "a.include",
        ] {
            assert!(!is_source(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn script_prefixes_are_found_shortest_first() {
        let ends = |path: &str| script_ends(path.as_bytes()).collect::<Vec<_>>();
        assert_eq!(ends("index.php/a/b.php"), [9, 17]);
        assert_eq!(ends("image.jpg/x.php"), [15]);
        assert!(ends("a/b.css").is_empty());
        assert!(ends("").is_empty());
        assert!(ends("a/.php/x").is_empty());
    }
}
