//! Who asks for a page: somebody whose page is everybody's, and by which kind of device.

use crate::request::cookies;
use crate::request::fields::{Fields, members, weighed};
use crate::request::head::Method;
use crate::request::user_agent;
use crate::site::decision::Request;

/// A visitor that nothing in the request tells from others.
#[derive(Debug, Clone)]
pub struct Visitor {
    /// The kind of device.
    pub device: Device,
    /// Whether any cookie came along.
    pub has_cookies: bool,
    /// The user agent in lower case.
    pub user_agent: Vec<u8>,
    /// Whether Cache Enabler takes the user agent for a phone's: by words in this very spelling.
    pub has_mobile_words: bool,
}

/// A kind of device, by its user agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    /// Surely a desktop's browser.
    Desktop,
    /// Surely a phone, for every plugin.
    Phone,
    /// A tablet, or something that plugins may take for this or that.
    Unclear,
}

impl Visitor {
    /// None: the answer may be this visitor's own, or no page is asked for.
    pub fn of<F: Fields + ?Sized>(request: &Request<'_, F>) -> Option<Visitor> {
        let (target, fields) = (request.target, request.fields);
        let reads = matches!(request.method, Method::Get | Method::Head);
        // Without its slash WordPress redirects; the plugins' folders do not tell the two apart.
        let names_page = target.query.is_none_or(<[u8]>::is_empty)
            && target.raw_path.ends_with(b"/")
            && is_plainly_spelt(target.raw_path)
            && !target.separator_in_segment
            && !is_of_machines(&target.path);
        let personal = fields.first("authorization").is_some()
            || fields.first("x-wap-profile").is_some()
            || fields.first("profile").is_some()
            || fields
                .lines("cookie")
                .flat_map(cookies::names)
                .any(|name| cookies::is_personal(&name));
        (reads && names_page && !personal && wants_html(fields)).then(|| {
            let agent = fields.first("user-agent").unwrap_or_default();
            let lower = agent.to_ascii_lowercase();
            Visitor {
                device: Device::of(&lower),
                has_cookies: fields.first("cookie").is_some(),
                user_agent: lower,
                // Cache Enabler looks for the same words as WordPress.
                has_mobile_words: user_agent::has_mobile_words(agent),
            }
        })
    }

    /// Whether the user agent has this word, given in lower case.
    pub fn says(&self, word: &str) -> bool {
        memchr::memmem::find(&self.user_agent, word.as_bytes()).is_some()
    }
}

impl Device {
    /// By a user agent in lower case.
    fn of(user_agent: &[u8]) -> Device {
        let has = |sign: &str| memchr::memmem::find(user_agent, sign.as_bytes()).is_some();
        if !HANDHELD.iter().any(|sign| has(sign)) {
            return match DESKTOP.iter().any(|sign| has(sign)) {
                true => Device::Desktop,
                false => Device::Unclear,
            };
        }
        // Phones say Mobile and tablets do not, in what the makers of both systems tell sites to look for.
        let phone = has("iphone") || (has("android") && has("mobile"));
        let tablet = ["ipad", "tablet", "kindle", "silk/", "playbook"];
        match phone && !tablet.iter().any(|sign| has(sign)) {
            true => Device::Phone,
            false => Device::Unclear,
        }
    }
}

/// Whether the path is spelt as plugins store it: no empty or dot segments, nothing escaped that need not be.
fn is_plainly_spelt(raw: &[u8]) -> bool {
    let has = |what: &[u8]| memchr::memmem::find(raw, what).is_some();
    !has(b"//")
        && !has(b"/.")
        && memchr::memchr_iter(b'%', raw).all(|at| {
            // What is escaped is beyond ASCII.
            raw.get(at + 1)
                .is_some_and(|digit| matches!(digit, b'8' | b'9' | b'a'..=b'f' | b'A'..=b'F'))
        })
}

/// Feeds, the API and the like are no pages, whatever a plugin has stored.
fn is_of_machines(path: &[u8]) -> bool {
    path.split(|&byte| byte == b'/').any(|segment| {
        MACHINES
            .iter()
            .any(|machine| segment.eq_ignore_ascii_case(machine))
    })
}

/// No Accept, or one that names HTML and no JSON, which WordPress may answer with at the same URL.
fn wants_html<F: Fields + ?Sized>(fields: &F) -> bool {
    let mut html = None;
    for member in fields.lines("accept").flat_map(members) {
        let (range, weight) = weighed(member);
        let range = range.to_ascii_lowercase();
        if memchr::memmem::find(&range, b"json").is_some() {
            return false;
        }
        html = Some(html.unwrap_or(false) || (range == b"text/html" && weight > 0));
    }
    html.unwrap_or(true)
}

/// Segments of paths that name no page.
const MACHINES: [&[u8]; 5] = [b"feed", b"wp-json", b"embed", b"wc-api", b"trackback"];
/// Systems that desktop browsers name.
const DESKTOP: [&str; 4] = ["windows nt", "macintosh", "x11;", "cros "];
/// Signs of anything but a desktop, in lower case.
const HANDHELD: [&str; 30] = [
    "mobile",
    "android",
    "phone",
    "ipad",
    "ipod",
    "tablet",
    "kindle",
    "silk",
    "blackberry",
    "bb10",
    "opera mini",
    "opera mobi",
    "symbian",
    "webos",
    "j2me",
    "midp",
    "wap",
    "palm",
    "nokia",
    "samsung",
    "playbook",
    "htc",
    "netfront",
    "docomo",
    "sonyericsson",
    "nintendo",
    "playstation",
    "windows ce",
    "up.browser",
    "touch",
];
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_by_their_words() {
        for (agent, device) in [
            (
                "Mozilla/5.0 (X11; Linux x86_64) Chrome/130.0.0.0 Safari/537.36",
                Device::Desktop,
            ),
            ("curl/8.0", Device::Unclear),
            ("DoCoMo/2.0 N905i(c100;TB;W24H16)", Device::Unclear),
            (
                "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) Mobile/15E148",
                Device::Phone,
            ),
            (
                "Mozilla/5.0 (Linux; Android 14; Pixel 8) Chrome/130 Mobile Safari/537.36",
                Device::Phone,
            ),
            (
                "Mozilla/5.0 (Linux; Android 14; SM-X910) Chrome/130 Safari/537.36",
                Device::Unclear,
            ),
            (
                "Mozilla/5.0 (iPad; CPU OS 17_0 like Mac OS X) Mobile/15E148",
                Device::Unclear,
            ),
            ("Opera/9.80 (J2ME/MIDP; Opera Mini/9)", Device::Unclear),
            ("", Device::Unclear),
        ] {
            let lower = agent.to_ascii_lowercase();
            assert_eq!(Device::of(lower.as_bytes()), device, "{agent}");
        }
    }

    #[test]
    fn what_is_accepted() {
        let wants = |lines: &[&str]| {
            let fields: Vec<(Vec<u8>, Vec<u8>)> = lines
                .iter()
                .map(|line| (b"accept".to_vec(), line.as_bytes().to_vec()))
                .collect();
            wants_html(&fields[..])
        };
        assert!(wants(&[]));
        assert!(wants(&["text/html,application/xhtml+xml,*/*;q=0.8"]));
        for accept in [
            "application/json, text/plain, */*",
            "application/activity+json, text/html;q=0.1",
            "text/html;q=0, image/png",
            "*/*",
            "image/avif,image/webp",
        ] {
            assert!(!wants(&[accept]), "{accept}");
        }
    }

    #[test]
    fn spellings() {
        for path in ["/", "/a-b/c_d/", "/caf%C3%A9/"] {
            assert!(is_plainly_spelt(path.as_bytes()), "{path}");
        }
        for path in [
            "/%41bout/",
            "/x/../a/",
            "//",
            "/a//",
            "/.well/",
            "/a%2Fb/",
            "/%",
        ] {
            assert!(!is_plainly_spelt(path.as_bytes()), "{path}");
        }
    }
}
