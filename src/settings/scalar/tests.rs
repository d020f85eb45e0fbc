#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use proptest::prelude::*;

use super::*;

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

const ANY_DURATION: RangeInclusive<Duration> = Duration::ZERO..=Duration::MAX;
const ANY_SIZE: RangeInclusive<u64> = 0..=u64::MAX;

#[test]
fn durations_have_a_unit() {
    for (written, millis) in [
        ("200ms", 200),
        ("30s", 30_000),
        ("5m", 300_000),
        ("1h", 3_600_000),
        ("1d", 86_400_000),
        ("0s", 0),
    ] {
        assert_eq!(
            duration(&text(written), ANY_DURATION),
            Ok(Duration::from_millis(millis))
        );
    }
}

#[test]
fn what_is_no_duration_is_refused() {
    for written in [
        "",
        "s",
        "5 s",
        " 5s",
        "5s ",
        "+5s",
        "-5s",
        "5.5s",
        "5S",
        "5sec",
        "1m30s",
        "٣s",
        "99999999999999999999s",
        "18446744073709551615h",
        "on",
    ] {
        assert!(
            duration(&text(written), ANY_DURATION).is_err(),
            "{written:?}"
        );
    }
    for value in [
        Value::Null,
        Value::Bool(true),
        Value::Sequence(vec![]),
        Value::from(1.5),
    ] {
        assert!(duration(&value, ANY_DURATION).is_err(), "{value:?}");
    }
}

#[test]
fn a_number_without_unit_gets_three_to_choose_from() {
    for value in [Value::from(30), text("30")] {
        let wrong = duration(&value, ANY_DURATION).unwrap_err();
        assert_eq!(wrong.message, "30 has no unit");
        assert_eq!(wrong.expected, "expected e.g. 30s, 30ms, 30m");
    }
    let wrong = size(&Value::from(64), ANY_SIZE).unwrap_err();
    assert_eq!(wrong.expected, "expected e.g. 64B, 64KiB, 64MiB");
}

#[test]
fn sizes_have_a_binary_unit() {
    for (written, bytes) in [
        ("512B", 512),
        ("128KiB", 128 << 10),
        ("64MiB", 64 << 20),
        ("1GiB", 1 << 30),
        ("2TiB", 2 << 40),
        ("0B", 0),
    ] {
        assert_eq!(size(&text(written), ANY_SIZE), Ok(bytes));
    }
}

#[test]
fn an_ambiguous_size_is_asked_about() {
    for (written, meant) in [
        ("64M", "64MiB"),
        ("64MB", "64MiB"),
        ("8k", "8KiB"),
        ("2gb", "2GiB"),
    ] {
        let wrong = size(&text(written), ANY_SIZE).unwrap_err();
        assert_eq!(wrong.expected, format!("did you mean {meant}?"));
    }
    for written in [
        "",
        "MiB",
        "1.5MiB",
        "-1MiB",
        "64 MiB",
        "99999999999TiB",
        "64x",
    ] {
        assert!(size(&text(written), ANY_SIZE).is_err(), "{written:?}");
    }
}

#[test]
fn a_value_out_of_range_says_the_range() {
    let range = Duration::from_secs(1)..=Duration::from_secs(3_600);
    let wrong = duration(&text("90m"), range).unwrap_err();
    assert_eq!(
        (wrong.message.as_str(), wrong.expected.as_str()),
        ("90m is out of range", "expected 1s to 1h")
    );
    let wrong = size(&text("2MiB"), 1 << 10..=1 << 20).unwrap_err();
    assert_eq!(wrong.expected, "expected 1KiB to 1MiB");
    for number in [
        Value::from(0),
        Value::from(1025),
        Value::from(-1),
        Value::from(u64::MAX),
    ] {
        assert_eq!(
            count(&number, 1_usize..=1024).unwrap_err().expected,
            "expected 1 to 1024"
        );
    }
}

#[test]
fn counts_are_whole_numbers() {
    assert_eq!(count(&Value::from(7), 0_u32..=9), Ok(7));
    assert_eq!(count(&text("7"), 0_u32..=9), Ok(7));
    for value in [
        Value::from(1.5),
        text("1e3"),
        text("+7"),
        text(""),
        Value::Null,
        Value::Bool(true),
    ] {
        assert!(count(&value, 0_u32..=9).is_err(), "{value:?}");
    }
}

#[test]
fn true_and_false_are_on_and_off() {
    let choices = [("on", true), ("off", false)];
    assert_eq!(choice(&Value::Bool(true), &choices), Ok(true));
    assert_eq!(choice(&text("off"), &choices), Ok(false));
    let wrong = choice(&text("yes"), &choices).unwrap_err();
    assert_eq!(wrong.expected, "expected on, off");
}

proptest! {
    #[test]
    fn a_formatted_duration_reads_as_itself(millis in 0..=u64::MAX / 1_000) {
        let expected = Duration::from_millis(millis);
        let written = Value::String(format_duration(expected));
        prop_assert_eq!(duration(&written, ANY_DURATION), Ok(expected));
    }

    #[test]
    fn a_formatted_size_reads_as_itself(bytes: u64) {
        prop_assert_eq!(size(&Value::String(format_size(bytes)), ANY_SIZE), Ok(bytes));
    }

    #[test]
    fn no_text_breaks_a_reader(any in ".*") {
        let value = Value::String(any);
        let _ = duration(&value, ANY_DURATION);
        let _ = size(&value, ANY_SIZE);
        let _ = count(&value, 0_u64..=u64::MAX);
    }
}
