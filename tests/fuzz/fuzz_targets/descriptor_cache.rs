//! Random changes of a small tree between lookups: what is answered after events were taken in is what stands there.
#![no_main]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use nostat::clock::Clock;
use nostat::descriptor_cache::{
    DescriptorCache, Found, LinkPolicy, RootGeneration, Settings, Source, Want,
};
use nostat::request::TreePath;

const PATHS: [&str; 6] = ["a", "b", "d/a", "d/b", "d/e/a", "f/a"];
const FOLDERS: [&str; 3] = ["d", "d/e", "f"];

fuzz_target!(|bytes: &[u8]| {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(run(bytes));
});

async fn run(bytes: &[u8]) {
    let root = tempfile::tempdir().expect("a folder");
    let cache = DescriptorCache::new(Settings::default(), Clock::system());
    let document_root = cache
        .root(root.path(), LinkPolicy::default())
        .expect("the folder can be opened");
    for step in bytes.chunks_exact(2).take(64) {
        let [what, which] = *step else { continue };
        let path = root.path().join(PATHS[usize::from(which) % PATHS.len()]);
        let other = root.path().join(PATHS[usize::from(which >> 4) % PATHS.len()]);
        let folder = root.path().join(FOLDERS[usize::from(which) % FOLDERS.len()]);
        // Each may fail, as the tree happens to be.
        let _ = match what % 8 {
            0 | 1 => fs::write(&path, vec![what; usize::from(which) * 7]),
            2 => fs::remove_file(&path),
            3 => fs::rename(&path, &other),
            4 => fs::create_dir_all(&folder),
            5 => fs::remove_dir_all(&folder),
            6 => fs::rename(&folder, root.path().join("f")),
            _ => Ok(()),
        };
        cache.take_in_events().await;
        let generation = document_root.current();
        for path in PATHS {
            compare(&cache, &generation, root.path(), path).await;
        }
    }
}

async fn compare(
    cache: &Arc<DescriptorCache>,
    generation: &Arc<RootGeneration>,
    root: &Path,
    path: &str,
) {
    let expected = fs::read(root.join(path)).ok();
    let path = TreePath::new(path.as_bytes()).expect("a path of the tree");
    let looked = cache.lookup(generation, path, Want::Content).await;
    let found = match looked.expect("nothing hinders a look").found {
        Found::File(file) => match &file.source {
            Source::Memory(bytes) => Some(bytes.to_vec()),
            Source::Descriptor(open) => {
                let length = usize::try_from(open.size()).expect("a small file");
                Some(open.read_at(0, length).await.expect("a readable file").to_vec())
            }
            Source::None => panic!("content was asked for"),
        },
        Found::Directory | Found::Missing => None,
    };
    assert_eq!(found, expected);
}
