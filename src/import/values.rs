//! nginx's times and sizes.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::settings::scalar;

/// `30`, `30s`, `1m30s`, `500ms`, `1d`; the units from the largest to the smallest, as nginx wants them.
#[must_use]
pub fn duration(text: &str) -> Option<Duration> {
    let mut millis: u64 = 0;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, behind) = rest.split_at_checked(digits)?;
        let letters = behind.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, behind) = behind.split_at_checked(letters)?;
        let unit = match unit {
            "ms" => 1,
            "" | "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 7 * 86_400_000,
            "M" => 30 * 86_400_000,
            "y" => 365 * 86_400_000,
            _ => return None,
        };
        let part = number.parse::<u64>().ok()?.checked_mul(unit)?;
        millis = millis.checked_add(part)?;
        rest = behind.trim_start();
    }
    Some(Duration::from_millis(millis))
}

/// `64m`, `8k`, `1g`, bytes without a letter.
#[must_use]
pub fn size(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let shift = match unit {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// A time as a settings file has it, brought within what the key takes.
#[must_use]
pub fn duration_within(text: &str, range: RangeInclusive<Duration>) -> Option<String> {
    let found = duration(text)?.clamp(*range.start(), *range.end());
    Some(scalar::format_duration(found))
}

/// A size as a settings file has it, brought within what the key takes.
#[must_use]
pub fn size_within(size: u64, range: RangeInclusive<u64>) -> String {
    scalar::format_size(size.clamp(*range.start(), *range.end()))
}

/// A tenth of a second.
pub const TENTH: Duration = Duration::from_millis(100);
/// One second.
pub const SECOND: Duration = Duration::from_secs(1);
/// One hour.
pub const HOUR: Duration = Duration::from_secs(3_600);
/// One day.
pub const DAY: Duration = Duration::from_secs(86_400);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_nginx_does() {
        for (text, seconds) in [
            ("60", 60),
            ("1m30s", 90),
            ("1h 1m", 3660),
            ("2w", 1_209_600),
        ] {
            assert_eq!(duration(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(duration("200ms"), Some(Duration::from_millis(200)));
        for text in ["", "x", "1x", "s", "-1", "99999999999999999999"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_are_binary() {
        assert_eq!(size("64m"), Some(64 << 20));
        assert_eq!(size("10"), Some(10));
        assert_eq!(size("1t"), None);
        assert_eq!(size_within(0, 1..=1 << 40), "1B");
    }
}
