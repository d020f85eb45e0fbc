//! See `../targets/settings.rs`.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../targets/settings.rs"]
mod target;

fuzz_target!(|bytes: &[u8]| target::run(bytes));
