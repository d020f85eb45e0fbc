//! A settings file: any bytes are settings, or mistakes that each have their place.

use nostat::settings::{Checks, parse};

/// One input.
pub fn run(bytes: &[u8]) {
    let Err(mistakes) = parse("nostat.yaml", bytes, Checks::TextOnly) else {
        return;
    };
    assert!(!mistakes.is_empty());
    for mistake in mistakes {
        assert!(!mistake.message.is_empty());
        // A mistake without a line is one of the whole file.
        assert!(mistake.line > 0 || mistake.path.is_empty(), "{mistake}");
        assert_eq!(mistake.line > 0, mistake.column > 0, "{mistake}");
    }
}
