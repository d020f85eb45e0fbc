//! Dates in fields (RFC 9110 §5.6.7): IMF-fixdate, and the two obsolete forms a recipient has to
//! accept.

use std::time::UNIX_EPOCH;

/// Reads a date as whole seconds since 1970; `None` when it is no valid date, or before 1970.
pub fn parse(value: &[u8]) -> Option<i64> {
    let text = str::from_utf8(value).ok()?;
    let time = httpdate::parse_http_date(text).ok()?;
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_secs()).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_three_forms_of_the_standard_are_read() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(parse(text.as_bytes()), Some(784_111_777), "{text}");
        }
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in [
            "",
            "0",
            "784111777",
            "yesterday",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Mon, 06 Nov 1994 08:49:37 GMT",
            "Sun, 31 Feb 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:49:37 GMT",
            "Thu, 01 Jan 1960 00:00:00 GMT",
            "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse(b"Sun, 06 Nov 1994 08:49:37 \xff"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(value in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = parse(&value);
        }

        #[test]
        fn anything_shaped_like_a_date_is_read_without_a_panic(
            value in "(Sun|Monday|Tue)(,)? [ 0-9]{2}[ -](Jan|Feb|Dec)[ -][0-9]{2,4} [0-9]{2}:[0-9]{2}:[0-9]{2}( GMT| [0-9]{4})"
        ) {
            let _ = parse(value.as_bytes());
        }
    }
}
