//! Calendar dates in UTC, for log lines: the proleptic Gregorian calendar, without leap seconds.

use std::io::Write as _;

use crate::clock::UnixTime;

/// A moment taken apart into calendar fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Date {
    /// The year; negative before the year 0.
    pub year: i64,
    /// The month, 1 to 12.
    pub month: i64,
    /// The day of the month, from 1.
    pub day: i64,
    /// The hour, 0 to 23.
    pub hour: i64,
    /// The minute, 0 to 59.
    pub minute: i64,
    /// The second, 0 to 59.
    pub second: i64,
    /// The millisecond, 0 to 999.
    pub millisecond: u32,
}

impl Date {
    /// The UTC date of a moment. Years are counted from March, so that the leap day is a year's last day and every
    /// month's first day follows from one linear formula.
    pub fn from_unix(time: UnixTime) -> Self {
        let second_of_day = time.seconds.rem_euclid(86_400);
        let days = time.seconds.div_euclid(86_400) + DAYS_FROM_MARCH_OF_YEAR_0;
        let era = days.div_euclid(DAYS_PER_ERA);
        let day_of_era = days.rem_euclid(DAYS_PER_ERA);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = if month_from_march < 10 {
            month_from_march + 3
        } else {
            month_from_march - 9
        };
        Self {
            year: era * 400 + year_of_era + i64::from(month <= 2),
            month,
            day: day_of_year - (153 * month_from_march + 2) / 5 + 1,
            hour: second_of_day / 3_600,
            minute: second_of_day / 60 % 60,
            second: second_of_day % 60,
            millisecond: time.nanos / 1_000_000,
        }
    }

    /// Appends the form of the common log format: `30/Nov/2026:13:41:56 +0000`.
    pub fn write_common_log(&self, line: &mut Vec<u8>) {
        let Self {
            year,
            day,
            hour,
            minute,
            second,
            ..
        } = self;
        let month = usize::try_from(self.month - 1)
            .ok()
            .and_then(|at| MONTHS.get(at))
            .unwrap_or(&"???");
        let _ = write!(
            line,
            "{day:02}/{month}/{year:04}:{hour:02}:{minute:02}:{second:02} +0000"
        );
    }

    /// Appends the form of RFC 3339, with milliseconds: `2026-11-30T13:41:56.007Z`.
    pub fn write_rfc_3339(&self, line: &mut Vec<u8>) {
        let Self {
            year,
            month,
            day,
            hour,
            minute,
            second,
            millisecond,
        } = self;
        let _ = write!(
            line,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z"
        );
    }
}

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
const DAYS_FROM_MARCH_OF_YEAR_0: i64 = 719_468;
const DAYS_PER_ERA: i64 = 146_097;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use proptest::prelude::*;

    use super::*;

    fn at(seconds: i64) -> UnixTime {
        UnixTime {
            seconds,
            nanos: 7_900_000,
        }
    }

    fn common_log(seconds: i64) -> String {
        let mut line = Vec::new();
        Date::from_unix(at(seconds)).write_common_log(&mut line);
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn known_moments_have_their_dates() {
        assert_eq!(common_log(0), "01/Jan/1970:00:00:00 +0000");
        assert_eq!(common_log(1_796_046_116), "30/Nov/2026:13:41:56 +0000");
        assert_eq!(common_log(951_782_400), "29/Feb/2000:00:00:00 +0000");
        assert_eq!(common_log(-1), "31/Dec/1969:23:59:59 +0000");
    }

    #[test]
    fn rfc_3339_has_milliseconds() {
        let mut line = Vec::new();
        Date::from_unix(at(1_796_046_116)).write_rfc_3339(&mut line);
        assert_eq!(line, b"2026-11-30T13:41:56.007Z");
    }

    proptest! {
        #[test]
        fn dates_agree_with_those_of_http(seconds in 0_i64..253_402_300_800) {
            let moment = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds.unsigned_abs());
            let http = httpdate::fmt_http_date(moment);
            let date = Date::from_unix(at(seconds));
            let month = MONTHS.get(usize::try_from(date.month).unwrap() - 1).unwrap();
            let (year, day, hour, minute, second) = (date.year, date.day, date.hour, date.minute, date.second);
            let own = format!("{day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT");
            prop_assert!(http.ends_with(&own), "{http} {own}");
        }

        #[test]
        fn no_moment_panics(seconds in any::<i64>()) {
            let seconds = seconds.clamp(i64::MIN + DAYS_FROM_MARCH_OF_YEAR_0, i64::MAX);
            let _ = Date::from_unix(at(seconds));
        }
    }
}
