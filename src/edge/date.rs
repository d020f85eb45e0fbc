//! The end of a response head: `Date`, what becomes of the connection, and the empty line, rendered once a second.

use std::cell::RefCell;
use std::time::{Duration, UNIX_EPOCH};

/// What the client is told about its connection (RFC 9112 §9.3, §9.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// HTTP/1.1 keeps it open, nothing need be said.
    Implied,
    /// An HTTP/1.0 client has asked to keep it open, and is told so.
    Stated,
    /// This answer is the last one.
    Close,
}

/// Puts `Date: …`, perhaps `Connection: …`, and the empty line that ends a head behind `head`, for the second `seconds` of
/// Unix time.
pub fn end_head(seconds: i64, persistence: Persistence, head: &mut Vec<u8>) {
    ENDS.with_borrow_mut(|ends| {
        if ends.seconds != seconds {
            *ends = Ends::render(seconds);
        }
        head.extend_from_slice(match persistence {
            Persistence::Implied => &ends.implied,
            Persistence::Stated => &ends.stated,
            Persistence::Close => &ends.close,
        });
    });
}

struct Ends {
    seconds: i64,
    implied: Vec<u8>,
    stated: Vec<u8>,
    close: Vec<u8>,
}

impl Ends {
    fn render(seconds: i64) -> Ends {
        let since_epoch = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        let date = httpdate::fmt_http_date(UNIX_EPOCH + since_epoch);
        Ends {
            seconds,
            implied: format!("Date: {date}\r\n\r\n").into(),
            stated: format!("Date: {date}\r\nConnection: keep-alive\r\n\r\n").into(),
            close: format!("Date: {date}\r\nConnection: close\r\n\r\n").into(),
        }
    }
}

thread_local! {
    static ENDS: RefCell<Ends> = RefCell::new(Ends::render(0));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head_end(seconds: i64, persistence: Persistence) -> String {
        let mut head = b"A: b\r\n".to_vec();
        end_head(seconds, persistence, &mut head);
        let head = String::from_utf8(head).expect("text");
        head.strip_prefix("A: b\r\n").expect("kept").to_owned()
    }

    #[test]
    fn the_date_follows_the_second() {
        assert_eq!(
            head_end(784_111_777, Persistence::Implied),
            "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n"
        );
        assert_eq!(
            head_end(784_111_778, Persistence::Close),
            "Date: Sun, 06 Nov 1994 08:49:38 GMT\r\nConnection: close\r\n\r\n"
        );
        assert_eq!(
            head_end(784_111_778, Persistence::Stated),
            "Date: Sun, 06 Nov 1994 08:49:38 GMT\r\nConnection: keep-alive\r\n\r\n"
        );
    }

    #[test]
    fn a_clock_before_the_epoch_does_not_panic() {
        assert!(head_end(-5, Persistence::Implied).starts_with("Date: Thu, 01 Jan 1970"));
    }
}
