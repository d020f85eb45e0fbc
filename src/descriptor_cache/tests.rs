#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests make trees themselves, and a failed expectation is a failed test"
)]

mod budgets;
mod faults;
mod flights;
mod links;
mod lookups;
mod model;
mod roots;
mod special_files;
mod stress;
mod support;
mod untold;
mod watched_roots;
mod watching;
