//! Which cookies make a page a visitor's own.

use super::fields::trim;

/// The names of the cookies in one line, as PHP reads them, in lower case.
pub fn names(line: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    line.split(|&byte| byte == b';')
        .map(trim)
        .filter(|cookie| !cookie.is_empty())
        .map(|cookie| {
            let end = memchr::memchr(b'=', cookie).unwrap_or(cookie.len());
            let mut name = trim(cookie.get(..end).unwrap_or_default()).to_ascii_lowercase();
            for byte in &mut name {
                if matches!(byte, b'.' | b' ' | b'[') {
                    *byte = b'_';
                }
            }
            name
        })
}

/// Whether a cookie of this name, in lower case, stands for a visitor that PHP knows: by login, password, comment or cart.
/// `wordpress_test_cookie`, which the login page leaves with everybody who looks at it, does not.
pub fn is_personal(name: &[u8]) -> bool {
    PERSONAL.iter().any(|start| name.starts_with(start)) && name != b"wordpress_test_cookie"
}

/// Whether a cookie of this name, in lower case, is known to be read by scripts of the page or by servers before this one,
/// and never by PHP: statistics, advertisement, consent, load balancers.
pub fn is_harmless(name: &[u8]) -> bool {
    HARMLESS.iter().any(|known| match known.strip_suffix('*') {
        Some(start) => name.starts_with(start.as_bytes()),
        None => name == known.as_bytes(),
    })
}

/// Beginnings of cookie names, in lower case: WordPress' login, passwords of posts, comments, carts, and what cache plugins and
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

/// In lower case; a star at the end stands for anything.
const HARMLESS: [&str; 66] = [
    "wordpress_test_cookie",
    // Statistics.
    "_ga",
    "_ga_*",
    "_gid",
    "_gat*",
    "_dc_gtm_*",
    "__utm*",
    "_pk_*",
    "_hj*",
    "_clck",
    "_clsk",
    "_ym*",
    "_sp_id*",
    "_sp_ses*",
    "ajs_*",
    "amplitude_*",
    "_vwo*",
    "_vis_opt_*",
    "tk_ai",
    "tk_lr",
    "tk_or",
    "tk_qs",
    "tk_r3d",
    "tk_tc",
    "sbjs_*",
    "__stripe_mid",
    "__stripe_sid",
    // Advertisement.
    "_gcl_*",
    "_gac_*",
    "__gads",
    "__gpi",
    "__eoi",
    "_fbp",
    "_fbc",
    "_uet*",
    "_pin_unauth",
    "_pinterest_*",
    "_tt_*",
    "_ttp",
    "_scid*",
    "_rdt_uuid",
    "_kla_id",
    "__kla_id",
    "_mkto_trk",
    "hubspotutk",
    "__hs*",
    "li_gc",
    "li_sugr",
    // Consent.
    "optanonconsent",
    "optanonalertboxclosed",
    "cookieconsent*",
    "cookieyes-consent",
    "cookielawinfo-*",
    "viewed_cookie_policy",
    "cookie_notice_accepted",
    "cmplz_*",
    "borlabs-cookie*",
    "real_cookie_banner*",
    "moove_gdpr_*",
    "euconsent*",
    // Servers before this one.
    "__cf_bm",
    "__cfduid",
    "_cfuvid",
    "cf_clearance",
    "awsalb*",
    "incap_ses_*",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn any(line: &str, is: impl Fn(&[u8]) -> bool) -> bool {
        names(line.as_bytes()).any(|name| is(&name))
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
            "wordpress.logged_in_x=1",
            "wordpress_logged_in_x",
        ] {
            assert!(any(line, is_personal), "{line}");
        }
        for line in [
            "wordpress_test_cookie=WP%20Cookie%20check",
            "_ga=GA1.1; _fbp=fb.1",
            "a=wordpress_logged_in_0",
            "",
        ] {
            assert!(!any(line, is_personal), "{line}");
        }
    }

    #[test]
    fn what_is_harmless_is_known_by_name() {
        for name in ["_ga", "_ga_ABC123", "_FBP", "wordpress_test_cookie"] {
            assert!(is_harmless(name.to_ascii_lowercase().as_bytes()), "{name}");
        }
        for name in ["_gaz", "phpsessid", "pll_language", "currency", "lang", ""] {
            assert!(!is_harmless(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn nothing_is_both() {
        for known in HARMLESS {
            let name = known.trim_end_matches('*');
            assert!(!is_personal(name.as_bytes()), "{known}");
        }
    }
}
