//! What is known of the coded siblings of a file: `style.css.br` beside `style.css`.
//!
//! The file's entry keeps it, so that a file without any costs no further lookups; watches vouch for it as for the file.

use super::epochs::Voucher;

/// Which of a file's coded siblings there are.
#[derive(Debug, Default)]
pub struct Siblings {
    /// By their place in the list of codings.
    there: u8,
    vouchers: Box<[Voucher]>,
}

impl Siblings {
    /// A file that has none, whatever stands beside it.
    pub fn never() -> Siblings {
        Siblings::default()
    }

    /// Those whose bit is set in `there`, as long as all of these vouch for it.
    pub fn seen(there: u8, vouchers: Vec<Voucher>) -> Siblings {
        Siblings {
            there,
            vouchers: vouchers.into(),
        }
    }

    /// Those that were there; none: something has happened since.
    pub(super) fn current(&self, overflows: u64) -> Option<u8> {
        let all = self.vouchers.iter();
        all.into_iter()
            .all(|voucher| voucher.is_current(overflows))
            .then_some(self.there)
    }
}
