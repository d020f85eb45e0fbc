//! `gzip`, `brotli` and what stands beside them as `compression` and `precompressed`.

use super::inherited::Inherited;
use super::note::Notes;
use super::values;
use super::yaml::{Entry, Value};

/// The keys, where they differ from what is done anyway.
pub fn entries(scope: &Inherited, notes: &mut Notes) -> Vec<Entry> {
    let is = |name: &str, value: &str| scope.get(name).is_some_and(|d| d.arg(0) == value);
    let mut found = Vec::new();
    if is("gzip_static", "off") {
        found.push(Entry::new("precompressed", Value::Word("off".to_owned())));
    }
    let others = is("brotli", "on") || is("zstd", "on");
    if is("gzip", "off") && !others {
        found.push(Entry::new("compression", Value::Word("off".to_owned())));
        return found;
    }
    if let Some(least) = scope.get("gzip_min_length").filter(|_| is("gzip", "on")) {
        match values::size(least.arg(0)) {
            Some(size) => {
                let size = values::size_within(size, 0..=1 << 30);
                let least = ("min_size".to_owned(), Value::Word(size));
                found.push(Entry::new("compression", Value::Flow(vec![least])));
            }
            None => notes.left_out(
                least,
                "compression",
                "not understood: see compression: {min_size}",
            ),
        }
    }
    found
}
