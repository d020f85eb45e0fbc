//! Who asks for a page: somebody whose page is everybody's, and by which kind of device.

use crate::request::fields::{Fields, members};
use crate::request::head::Method;
use crate::site::decision::Request;

/// A visitor that nothing in the request tells from others.
#[derive(Debug, Clone, Copy)]
pub struct Visitor {
    /// The kind of device.
    pub device: Device,
    /// Whether any cookie came along.
    pub has_cookies: bool,
    /// Whether the query has names in it that only count visits.
    pub is_tracked: bool,
}

/// A kind of device, by its user agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    /// No sign of anything else.
    Desktop,
    /// Surely a phone, for every plugin.
    Phone,
    /// A tablet, or something that plugins take for this or that.
    Handheld,
}

impl Visitor {
    /// None: the answer may be this visitor's own, or no page is asked for.
    pub fn of<F: Fields + ?Sized>(request: &Request<'_, F>) -> Option<Visitor> {
        let (target, fields) = (request.target, request.fields);
        let reads = matches!(request.method, Method::Get | Method::Head);
        // Without its slash WordPress redirects; the plugins' folders do not tell the two apart.
        let names_page = target.raw_path.ends_with(b"/")
            && !target.raw_path.windows(2).any(|pair| pair == b"//")
            && !target.separator_in_segment
            && !is_of_machines(&target.path);
        let query = target.query.unwrap_or_default();
        let is_tracked = !query.is_empty();
        let personal = fields.first("authorization").is_some()
            || fields.first("x-wap-profile").is_some()
            || fields.first("profile").is_some()
            || fields.lines("cookie").any(has_personal_cookie)
            || !query.split(|&byte| byte == b'&').all(only_counts);
        (reads && names_page && !personal && wants_html(fields)).then(|| Visitor {
            device: Device::of(fields.first("user-agent").unwrap_or_default()),
            has_cookies: fields.first("cookie").is_some(),
            is_tracked,
        })
    }
}

impl Device {
    fn of(user_agent: &[u8]) -> Device {
        let lower = user_agent.to_ascii_lowercase();
        let has = |sign: &str| memchr::memmem::find(&lower, sign.as_bytes()).is_some();
        if lower.is_empty() {
            return Device::Handheld;
        }
        if !HANDHELD.iter().any(|sign| has(sign)) {
            return Device::Desktop;
        }
        // Phones say Mobile and tablets do not, in what the makers of both systems tell sites to look for. Cache Enabler
        // looks for these words in this spelling.
        let cased = |sign: &[u8]| memchr::memmem::find(user_agent, sign).is_some();
        let phone = cased(b"iPhone") || (cased(b"Android") && cased(b"Mobile"));
        let tablet = ["ipad", "tablet", "kindle", "silk/", "playbook"];
        match phone && !tablet.iter().any(|sign| has(sign)) {
            true => Device::Phone,
            false => Device::Handheld,
        }
    }
}

/// Feeds, the API and the like are no pages, whatever a plugin has stored.
fn is_of_machines(path: &[u8]) -> bool {
    path.split(|&byte| byte == b'/')
        .any(|segment| MACHINES.contains(&segment))
}

/// No Accept, or one that takes a page.
fn wants_html<F: Fields + ?Sized>(fields: &F) -> bool {
    let mut accepted = fields.lines("accept").flat_map(members).peekable();
    accepted.peek().is_none()
        || accepted.any(|member| {
            let end = memchr::memchr(b';', member).unwrap_or(member.len());
            let range = member.get(..end).unwrap_or_default().trim_ascii();
            [&b"text/html"[..], b"text/*", b"*/*"]
                .iter()
                .any(|html| range.eq_ignore_ascii_case(html))
        })
}

/// Whether a line of cookies has one that makes pages a visitor's own. `wordpress_test_cookie`, which the login page leaves with
/// everybody who looks at it, does not.
fn has_personal_cookie(line: &[u8]) -> bool {
    line.split(|&byte| byte == b';')
        .map(<[u8]>::trim_ascii)
        .any(|cookie| {
            let end = memchr::memchr(b'=', cookie).unwrap_or(cookie.len());
            let name = cookie.get(..end).unwrap_or_default().to_ascii_lowercase();
            PERSONAL.iter().any(|start| name.starts_with(start)) && name != b"wordpress_test_cookie"
        })
}

/// Whether a member of a query only counts visits.
fn only_counts(member: &[u8]) -> bool {
    let end = memchr::memchr(b'=', member).unwrap_or(member.len());
    let name = member.get(..end).unwrap_or_default();
    member.is_empty()
        || COUNTING.contains(&name)
        || name.starts_with(b"utm_")
        || name.starts_with(b"mtm_")
}

/// Beginnings of cookie names, in lower case: WordPress' login, passwords of posts, comments, carts, and what the plugins and
/// switches of theirs look at.
const PERSONAL: [&[u8]; 14] = [
    b"wordpress_",
    b"wordpressuser_",
    b"wordpresspass_",
    b"wp-postpass_",
    b"wp-settings-",
    b"comment_author_",
    b"woocommerce_items_in_cart",
    b"woocommerce_cart_hash",
    b"wp_woocommerce_session_",
    b"woocommerce_geo_hash",
    b"edd_items_in_cart",
    b"w3tc_",
    b"wptouch",
    b"akm_mobile",
];
/// Names in queries that all plugins but WP Super Cache leave out of account.
const COUNTING: [&[u8]; 7] = [
    b"fbclid", b"gclid", b"msclkid", b"mc_cid", b"mc_eid", b"_ga", b"_ke",
];
/// Segments of paths that name no page.
const MACHINES: [&[u8]; 5] = [b"feed", b"wp-json", b"embed", b"wc-api", b"trackback"];
/// Signs of anything but a desktop, in lower case; more than any of the plugins looks for.
const HANDHELD: [&str; 24] = [
    "mobile",
    "android",
    "phone",
    "ipad",
    "ipod",
    "tablet",
    "kindle",
    "silk/",
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
    "cellphone",
    "htc",
    "netfront",
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
            ("curl/8.0", Device::Desktop),
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
                Device::Handheld,
            ),
            (
                "Mozilla/5.0 (iPad; CPU OS 17_0 like Mac OS X) Mobile/15E148",
                Device::Handheld,
            ),
            ("Opera/9.80 (J2ME/MIDP; Opera Mini/9)", Device::Handheld),
            ("", Device::Handheld),
        ] {
            assert_eq!(Device::of(agent.as_bytes()), device, "{agent}");
        }
    }

    #[test]
    fn cookies_that_make_a_page_ones_own() {
        for line in [
            "wordpress_logged_in_0123=a",
            "a=b; wordpress_sec_0123=c",
            "WP-postpass_0=x",
            "comment_author_email_0=x",
            "x=1;woocommerce_items_in_cart=1",
            "wp_woocommerce_session_0=1",
            "wordpress_0123456789abcdef=x",
        ] {
            assert!(has_personal_cookie(line.as_bytes()), "{line}");
        }
        for line in [
            "wordpress_test_cookie=WP%20Cookie%20check",
            "_ga=GA1.1; _fbp=fb.1",
            "a=wordpress_logged_in_0",
            "",
        ] {
            assert!(!has_personal_cookie(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn queries_that_only_count() {
        for member in ["", "utm_source=a", "fbclid=1", "gclid"] {
            assert!(only_counts(member.as_bytes()), "{member}");
        }
        for member in ["s=a", "add-to-cart=1", "=1", "utm", "p=1", "preview=true"] {
            assert!(!only_counts(member.as_bytes()), "{member}");
        }
    }
}
