//! See `../targets/two_readers.rs`.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../targets/two_readers.rs"]
mod target;

fuzz_target!(|bytes: &[u8]| target::run(bytes));
