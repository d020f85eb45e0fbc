//! The status page: one file without anything from elsewhere, which asks for `/overview` again and again.
//!
//! Paths, hosts and cookies in it are named by whoever sends requests. The page puts them in as text only, and what is
//! not in this file does not run: style and script carry a number that is another one in every answer.

use std::hash::{BuildHasher as _, RandomState};

/// The page, and the Content-Security-Policy that goes with it.
pub fn page() -> (String, String) {
    let number = format!("{:016x}{:016x}", any_number(), any_number());
    let policy = format!(
        "default-src 'none'; style-src 'nonce-{number}'; script-src 'nonce-{number}'; connect-src 'self'; \
         img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    (PAGE.replace(PLACE, &number), policy)
}

/// Seeded by the kernel.
fn any_number() -> u64 {
    RandomState::new().hash_one(0)
}

const PAGE: &str = include_str!("page.html");
/// Where the number goes.
const PLACE: &str = "{nonce}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn style_and_script_carry_the_number_of_the_policy_and_it_is_never_the_same() {
        let (text, policy) = page();
        assert!(!text.contains(PLACE));
        let number = policy
            .split("script-src 'nonce-")
            .nth(1)
            .and_then(|rest| rest.split('\'').next())
            .expect("a number");
        for element in ["style", "script"] {
            assert_eq!(text.matches(&format!("<{element}")).count(), 1);
            assert!(text.contains(&format!("<{element} nonce=\"{number}\">")));
        }
        assert_ne!(page().1, policy);
    }

    #[test]
    fn nothing_in_it_comes_from_elsewhere_or_puts_text_in_as_markup() {
        for word in [
            "src=",
            "@import",
            "url(",
            "innerHTML",
            "outerHTML",
            "insertAdjacent",
            "document.write",
            "eval(",
        ] {
            assert!(!PAGE.contains(word), "{word}");
        }
        let own = PAGE.replace("http://www.w3.org/2000/svg", "");
        assert!(!own.contains("http:") && !own.contains("https:"));
    }
}
