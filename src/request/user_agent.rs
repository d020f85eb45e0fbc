//! What WordPress takes a user agent for.

use super::fields::Fields;

/// Whether WordPress would take the client for a phone or a tablet: as `wp_is_mobile()` decides it, by the client hint where
/// there is one, else by words in this very spelling.
pub fn is_mobile<F: Fields + ?Sized>(fields: &F) -> bool {
    match fields.first("sec-ch-ua-mobile") {
        Some(hint) => hint == b"?1",
        None => has_mobile_words(fields.first("user-agent").unwrap_or_default()),
    }
}

/// Whether a user agent has one of the words that WordPress looks for.
pub fn has_mobile_words(user_agent: &[u8]) -> bool {
    WORDS
        .iter()
        .any(|word| memchr::memmem::find(user_agent, word.as_bytes()).is_some())
}

/// Of `wp_is_mobile()`.
const WORDS: [&str; 7] = [
    "Mobile",
    "Android",
    "Silk/",
    "Kindle",
    "BlackBerry",
    "Opera Mini",
    "Opera Mobi",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hint_counts_before_the_words() {
        let mobile = |lines: &[(&str, &str)]| {
            let fields: Vec<(Vec<u8>, Vec<u8>)> = lines
                .iter()
                .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
                .collect();
            is_mobile(&fields[..])
        };
        let phone = ("User-Agent", "Mozilla/5.0 (iPhone; …) Mobile/15E148");
        assert!(mobile(&[phone]));
        assert!(!mobile(&[phone, ("Sec-CH-UA-Mobile", "?0")]));
        assert!(mobile(&[("Sec-CH-UA-Mobile", "?1")]));
        assert!(!mobile(&[("User-Agent", "mozilla android")]));
        assert!(!mobile(&[]));
    }
}
