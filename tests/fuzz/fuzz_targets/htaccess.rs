//! See `../targets/htaccess.rs`.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../targets/htaccess.rs"]
mod target;

fuzz_target!(|bytes: &[u8]| target::run(bytes));
