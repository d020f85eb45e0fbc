//! Sizes as a person reads them: no more digits than matter.

use crate::settings::scalar::format_size;

/// From 10 GiB on in GiB, from 1 MiB on in MiB, rounded down.
#[must_use]
pub fn rounded(bytes: u64) -> String {
    if bytes >= 10 << 30 {
        format_size(bytes >> 30 << 30)
    } else if bytes >= 1 << 20 {
        format_size(bytes >> 20 << 20)
    } else {
        format_size(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_that_do_not_matter_go() {
        assert_eq!(rounded((23 << 30) + 12_345), "23GiB");
        assert_eq!(rounded((300 << 20) + 12_345), "300MiB");
        assert_eq!(rounded(0), "0B");
    }
}
