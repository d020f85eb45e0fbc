//! The fuzz targets over their seeds and changes of them: the short form of `tests/nightly/fuzz`.

use std::fs;
use std::path::Path;

use crate::support::numbers::Numbers;

#[path = "../fuzz/targets/client.rs"]
mod client;
#[path = "../fuzz/targets/htaccess.rs"]
mod htaccess;
#[path = "../fuzz/targets/preconditions.rs"]
mod preconditions;
#[path = "../fuzz/targets/settings.rs"]
mod settings;
#[path = "../fuzz/targets/two_readers.rs"]
mod two_readers;

/// A seed with a few changes: bytes set, cut out, doubled, or taken over from another seed.
fn changed(seeds: &[Vec<u8>], numbers: &mut Numbers) -> Vec<u8> {
    const TELLING: &[u8] = b"\0\t\n\r \"#%*+,-/:;=<>[]\\{}\x7f\x80\xff09azAZ";
    let mut bytes = seeds[numbers.below(seeds.len())].clone();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(bytes.len());
        let end = (at + 1 + numbers.below(16)).min(bytes.len());
        match numbers.below(6) {
            0 if !bytes.is_empty() => bytes[at] = TELLING[numbers.below(TELLING.len())],
            1 => bytes.insert(at, TELLING[numbers.below(TELLING.len())]),
            2 => drop(bytes.drain(at..end)),
            3 => {
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            4 => bytes.truncate(at),
            _ => {
                let other = &seeds[numbers.below(seeds.len())];
                let from = numbers.below(other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
        }
    }
    bytes
}

fn over_seeds(target: &str, rounds: usize, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fuzz/seeds")
        .join(target);
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    let seeds: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    assert!(!seeds.is_empty());
    let mut numbers = Numbers(1);
    for seed in &seeds {
        run(seed);
    }
    for _ in 0..rounds {
        let bytes = changed(&seeds, &mut numbers);
        if let Err(panic) = std::panic::catch_unwind(|| run(&bytes)) {
            eprintln!("{target}: {}", bytes.escape_ascii());
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn any_settings_have_their_mistakes_told_with_their_place() {
    over_seeds("settings", 500, settings::run);
}

#[test]
fn any_htaccess_file_has_a_meaning() {
    over_seeds("htaccess", 5_000, htaccess::run);
}

#[test]
fn any_preconditions_have_a_meaning() {
    over_seeds("preconditions", 20_000, preconditions::run);
}

#[test]
fn no_peer_that_is_not_trusted_names_a_client() {
    over_seeds("client", 20_000, client::run);
}

#[test]
fn what_we_accept_of_a_head_the_proxy_behind_us_reads_alike() {
    over_seeds("two_readers", 5_000, two_readers::run);
}
