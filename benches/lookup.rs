//! What a lookup costs, and what a cached path takes: `cargo bench --bench lookup`.
//!
//! Each thread looks up for a while: nanoseconds of its processor time per lookup, which other programs on the machine do
//! not change, and lookups per second of all, which they do. A figure of a hit is refused when the cache made a file system call meanwhile. Without
//! `--bench` (as `cargo test --benches` runs it) everything is small and short, to see that it works.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    missing_docs,
    reason = "a benchmark makes its tree, reads the clock, prints its table and fails by panicking"
)]

use std::fs;
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use nostat::clock::Clock;
use nostat::descriptor_cache::{
    DescriptorCache, DocumentRoot, Found, LinkPolicy, Looked, RootGeneration, Settings, Source,
    Want,
};
use nostat::request::TreePath;
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Runtime;

/// How much is done.
struct Scale {
    files: usize,
    time: Duration,
}

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let scale = if full {
        Scale {
            files: 100_000,
            time: Duration::from_secs(1),
        }
    } else {
        Scale {
            files: 1_000,
            time: Duration::from_millis(20),
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let tree = tempfile::tempdir().unwrap();
    let paths = make_tree(tree.path(), scale.files);
    println!("files: {}, {SMALL} bytes each\n", paths.len());
    // The first, while the heap is what it was.
    memory(&runtime, tree.path(), &paths);
    speed(&runtime, tree.path(), &paths, &scale);
}

// -- the tree

/// As uploads are: a folder a month, names of some length.
fn make_tree(root: &Path, count: usize) -> Vec<String> {
    let paths: Vec<String> = (0..count)
        .map(|number| {
            let (year, month) = (2010 + number / 12 % 16, 1 + number % 12);
            format!("wp-content/uploads/{year}/{month:02}/image-{number:06}-300x200.jpg")
        })
        .collect();
    for path in &paths {
        let path = root.join(path);
        if let Err(error) = fs::write(&path, [b'x'; SMALL]) {
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, [b'x'; SMALL]).unwrap();
        }
    }
    fs::write(root.join(LARGE), vec![b'l'; 1 << 20]).unwrap();
    // What has changed just before a look is looked at at each use.
    thread::sleep(Duration::from_millis(2_100));
    paths
}

// -- memory

/// Resident memory that a path takes which holds neither a descriptor nor bytes.
fn memory(runtime: &Runtime, root: &Path, paths: &[String]) {
    let settings = Settings {
        max: paths.len() * 2,
        ..unhurried()
    };
    let (cache, _kept, root) = open(&settings, root);
    // What the first looks allocate for good is not the entries'.
    let (first, rest) = paths.split_at(paths.len() / 100);
    runtime.block_on(look_at_each(&cache, &root, first));
    let before = resident();
    runtime.block_on(look_at_each(&cache, &root, rest));
    let grown = resident().saturating_sub(before);
    // The task of the last look may not have let go of its file yet.
    let end = Instant::now() + Duration::from_secs(10);
    let usage = loop {
        let usage = cache.usage();
        if (usage.descriptors, usage.content, usage.looks) == (0, 0, 0) {
            break usage;
        }
        assert!(Instant::now() < end, "held: {usage:?}");
        thread::yield_now();
    };
    assert_eq!(usage.entries, paths.len());
    let length = paths.iter().map(String::len).sum::<usize>() / paths.len();
    println!("| memory of a cached path without descriptor and bytes | |\n|---|---:|");
    println!("| entries | {} |", usage.entries);
    println!("| mean length of the path | {length} bytes |");
    println!(
        "| the entry | {} bytes |",
        size_of::<nostat::descriptor_cache::FileEntry>()
    );
    println!(
        "| resident memory per entry | {} bytes |\n",
        grown / rest.len() as u64
    );
}

async fn look_at_each(cache: &Arc<DescriptorCache>, root: &Arc<RootGeneration>, paths: &[String]) {
    for path in paths {
        let looked = cache.lookup(root, tree_path(path), Want::Content).await;
        assert!(matches!(looked.unwrap().found, Found::File(_)), "{path}");
    }
}

/// VmRSS in bytes.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.unwrap().trim().trim_end_matches(" kB");
    kib.parse::<u64>().unwrap() * 1024
}

// -- speed

/// What is looked up, and what must be found.
struct Work<'a> {
    title: &'static str,
    paths: Vec<&'a str>,
    want: Want,
    expected: Expected,
}

#[derive(Copy, Clone, PartialEq)]
enum Expected {
    Memory,
    Descriptor,
    Facts,
    Missing,
}

fn speed(runtime: &Runtime, root: &Path, paths: &[String], scale: &Scale) {
    let settings = Settings {
        max: paths.len() * 2 + 1_000,
        ..unhurried()
    };
    let (cache, _kept, root) = open(&settings, root);
    println!(
        "| lookup | threads | ns of processor time | million/s of all |\n|---|---:|---:|---:|"
    );
    let zipf = zipf(paths);
    let missing: Vec<String> = (0..1_000)
        .map(|n| format!("wp-content/gone-{n}.css"))
        .collect();
    let hot = paths[0].as_str();
    let works = [
        Work::new(
            "one hot file, in memory",
            vec![hot],
            Want::Content,
            Expected::Memory,
        ),
        Work::new(
            "one hot file, by descriptor",
            vec![LARGE],
            Want::Content,
            Expected::Descriptor,
        ),
        Work::new(
            "one hot file, facts alone",
            vec![hot],
            Want::Script,
            Expected::Facts,
        ),
        Work::new(
            "one remembered 404",
            vec![&missing[0]],
            Want::Content,
            Expected::Missing,
        ),
        Work::new(
            "many files (Zipf), in memory",
            zipf.clone(),
            Want::Content,
            Expected::Memory,
        ),
        Work::new(
            "many files (Zipf), facts alone",
            zipf,
            Want::Script,
            Expected::Facts,
        ),
        Work::new(
            "a thousand remembered 404",
            missing.iter().map(String::as_str).collect(),
            Want::Content,
            Expected::Missing,
        ),
    ];
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    for work in &works {
        for _ in 0..3 {
            runtime.block_on(warm(&cache, &root, work));
        }
        let mut threads = 1;
        while threads <= cores.max(2) {
            hits(&cache, &root, work, threads, scale.time);
            threads *= 2;
        }
    }
    cold(runtime, root.resolved(), paths);
}

impl<'a> Work<'a> {
    fn new(title: &'static str, paths: Vec<&'a str>, want: Want, expected: Expected) -> Self {
        Self {
            title,
            paths,
            want,
            expected,
        }
    }
}

async fn warm(cache: &Arc<DescriptorCache>, root: &Arc<RootGeneration>, work: &Work<'_>) {
    let mut paths = work.paths.clone();
    paths.sort_unstable();
    paths.dedup();
    for path in paths {
        let _ = cache
            .lookup(root, tree_path(path), work.want)
            .await
            .unwrap();
    }
}

/// Lookups that the table must answer at the first poll.
fn hits(
    cache: &Arc<DescriptorCache>,
    root: &Arc<RootGeneration>,
    work: &Work<'_>,
    threads: usize,
    time: Duration,
) {
    let (stop, total, spent) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let calls = cache.counters().snapshot().calls;
    let start = Instant::now();
    thread::scope(|scope| {
        for number in 0..threads {
            let (stop, total, spent) = (&stop, &total, &spent);
            scope.spawn(move || {
                // Each thread begins elsewhere, so that they do not walk in step.
                let begin = work.paths.len() * number / threads;
                let mut paths = work.paths[begin..].iter().chain(work.paths.iter().cycle());
                let mut done = 0;
                let before = thread_time();
                while !stop.load(Ordering::Relaxed) {
                    for path in paths.by_ref().take(BATCH) {
                        let looked = at_once(cache.lookup(root, tree_path(path), work.want));
                        assert!(work.expected.is(&looked), "{path}: {looked:?}");
                    }
                    done += BATCH as u64;
                }
                spent.fetch_add(thread_time() - before, Ordering::Relaxed);
                total.fetch_add(done, Ordering::Relaxed);
            });
        }
        thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
    });
    let elapsed = start.elapsed().as_nanos() as f64;
    let total = total.into_inner() as f64;
    assert_eq!(
        cache.counters().snapshot().calls,
        calls,
        "a hit made a call"
    );
    println!(
        "| {} | {threads} | {:.0} | {:.2} |",
        work.title,
        spent.into_inner() as f64 / total,
        total / elapsed * 1e3
    );
}

/// Nanoseconds that this thread was on a processor.
fn thread_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    (time.tv_sec * 1_000_000_000 + time.tv_nsec).unsigned_abs()
}

impl Expected {
    fn is(self, looked: &Looked) -> bool {
        match (&looked.found, self) {
            (Found::File(found), Self::Memory) => matches!(found.source, Source::Memory(_)),
            (Found::File(found), Self::Descriptor) => matches!(found.source, Source::Descriptor(_)),
            (Found::File(found), Self::Facts) => matches!(found.source, Source::None),
            (Found::Missing, Self::Missing) => true,
            _ => false,
        }
    }
}

/// Looks that the kernel answers, from its caches: one after the other, each with its task.
fn cold(runtime: &Runtime, root: &Path, paths: &[String]) {
    let count = paths.len().min(20_000);
    let gone: Vec<String> = (0..count)
        .map(|n| format!("wp-content/never-{n}.css"))
        .collect();
    for (title, paths, is_there) in [
        ("first look at a file (opened, read)", &paths[..count], true),
        ("first look at nothing", &gone[..], false),
    ] {
        let (cache, _kept, root) = open(&unhurried(), root);
        let start = Instant::now();
        runtime.block_on(async {
            for path in paths {
                let looked = cache.lookup(&root, tree_path(path), Want::Content).await;
                let found = looked.unwrap().found;
                assert_eq!(matches!(found, Found::File(_)), is_there, "{path}");
            }
        });
        let each = start.elapsed().as_nanos() as f64 / count as f64;
        println!("| {title} | 1 | {each:.0} | {:.2} |", 1e3 / each);
    }
}

// -- what they share

/// Nothing of a cache with these settings is looked at again while a figure is taken.
fn unhurried() -> Settings {
    Settings {
        inactive: DAY,
        valid: DAY,
        errors_valid: DAY,
        content: 1 << 30,
        ..Settings::default()
    }
}

/// The root is kept by whoever uses it: its generation ends with it.
fn open(
    settings: &Settings,
    root: &Path,
) -> (Arc<DescriptorCache>, Arc<DocumentRoot>, Arc<RootGeneration>) {
    let cache = DescriptorCache::new(settings.clone(), Clock::system());
    let root = cache.root(root, LinkPolicy::default()).unwrap();
    let generation = root.current();
    (cache, root, generation)
}

fn tree_path(path: &str) -> TreePath<'_> {
    TreePath::new(path.as_bytes()).unwrap()
}

fn at_once<T, E: std::fmt::Debug>(lookup: impl Future<Output = Result<T, E>>) -> T {
    match pin!(lookup).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer.unwrap(),
        Poll::Pending => panic!("a warm lookup waits"),
    }
}

/// A sequence in which the n-th most wanted file comes 1/n as often as the first.
fn zipf(paths: &[String]) -> Vec<&str> {
    let mut sums = Vec::with_capacity(paths.len());
    let mut sum = 0.0;
    for rank in 0..paths.len() {
        sum += 1.0 / (rank as f64 + 1.0);
        sums.push(sum);
    }
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut sequence: Vec<&str> = (0..paths.len() * 4)
        .map(|_| {
            // xorshift64
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let point = (state >> 11) as f64 / (1_u64 << 53) as f64 * sum;
            let rank = sums.partition_point(|&bound| bound < point);
            // Neighbours in rank are none in the tree.
            paths[rank * 7_919 % paths.len()].as_str()
        })
        .collect();
    sequence.shrink_to_fit();
    sequence
}

const SMALL: usize = 512;
const LARGE: &str = "film.mp4";
const BATCH: usize = 256;
const DAY: Duration = Duration::from_secs(86_400);
