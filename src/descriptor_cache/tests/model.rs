//! Random changes of a tree and random lookups, against a naive model that knows all states a path has had.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::time::Duration;

use proptest::prelude::*;

use super::super::{Found, LookupError, Settings, Want, Watch};
use super::support::{Fixture, read};
use crate::request::TreePath;

#[derive(Clone, Debug)]
enum Step {
    Write(usize, usize),
    Replace(usize, usize),
    Remove(usize),
    Rename(usize, usize),
    MakeDirectory(usize),
    Link(usize, usize),
    Advance(u64),
    Tick,
    Purge,
    Reload(usize),
    Lookup(usize),
    Script(usize),
}

/// What may stand at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Missing,
    Directory,
    Content(Vec<u8>),
    Refused,
}

const PATHS: [&str; 6] = ["a", "b", "d/a", "d/b", "d", "e/f/a"];
const SIZES: [usize; 4] = [0, 10, 5000, 70_000];

fn step() -> impl Strategy<Value = Step> {
    let path = 0..PATHS.len();
    let size = 0..SIZES.len();
    prop_oneof![
        4 => (path.clone(), size.clone()).prop_map(|(path, size)| Step::Write(path, size)),
        3 => (path.clone(), size).prop_map(|(path, size)| Step::Replace(path, size)),
        3 => path.clone().prop_map(Step::Remove),
        2 => (path.clone(), path.clone()).prop_map(|(from, to)| Step::Rename(from, to)),
        1 => path.clone().prop_map(Step::MakeDirectory),
        2 => (path.clone(), path.clone()).prop_map(|(target, link)| Step::Link(target, link)),
        3 => prop_oneof![Just(1), 1..40_000_u64, Just(2000), Just(30_000), Just(61_000)].prop_map(Step::Advance),
        1 => Just(Step::Tick),
        1 => Just(Step::Purge),
        1 => (0..3_usize).prop_map(Step::Reload),
        16 => path.clone().prop_map(Step::Lookup),
        4 => path.prop_map(Step::Script),
    ]
}

/// Settings under which much is given up, little is, or nothing is kept.
fn settings(which: usize, watch: Watch) -> Settings {
    let settings = match which {
        0 => Settings::default(),
        1 => Settings {
            max: 3,
            descriptors: Some(1),
            content: 6000,
            min_uses: 1,
            ..Settings::default()
        },
        _ => Settings {
            descriptors: Some(0),
            content: 0,
            errors: false,
            ..Settings::default()
        },
    };
    Settings { watch, ..settings }
}

struct Model {
    fixture: Fixture,
    /// Milliseconds since the start.
    now: u64,
    /// Every state a path has had, with the time until which it had it; the present one by `present`.
    past: HashMap<usize, Vec<(u64, State)>>,
    writes: u8,
    /// Files changed in place are cut at the size of a kept descriptor's look until they are looked at again; that they
    /// are never mixed is only promised for content held in memory.
    racing: bool,
    /// Every change is told: no answer is ever a past state.
    watch: Watch,
    /// Paths that have led through a link: what is behind one is polled.
    linked: HashSet<usize>,
}

impl Model {
    fn new(racing: bool, watch: Watch) -> Self {
        let settings = settings(0, watch);
        let fixture = match (racing, watch) {
            (true, Watch::Off) => Fixture::racing(settings),
            (false, Watch::Off) => Fixture::settled(settings),
            (true, _) => Fixture::watched_racing(settings),
            (false, _) => Fixture::watched(settings),
        };
        Self {
            fixture,
            now: 0,
            past: HashMap::new(),
            writes: 0,
            racing,
            watch,
            linked: HashSet::new(),
        }
    }

    fn present(&self, path: usize) -> State {
        let path = self.fixture.path(PATHS[path]);
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => State::Directory,
            Ok(_) => State::Content(fs::read(path).unwrap()),
            Err(error) if error.raw_os_error() == Some(40) => State::Refused,
            Err(_) => State::Missing,
        }
    }

    /// Changes the tree and notes what all paths were before.
    fn change(&mut self, change: impl FnOnce(&Self)) {
        let before: Vec<_> = (0..PATHS.len()).map(|path| self.present(path)).collect();
        change(self);
        let linked = (0..PATHS.len()).filter(|&path| self.passes_link(PATHS[path]));
        self.linked.extend(linked.collect::<Vec<_>>());
        for (path, state) in before.into_iter().enumerate() {
            if state != self.present(path) {
                self.past.entry(path).or_default().push((self.now, state));
            }
        }
    }

    fn content(&mut self, size: usize) -> Vec<u8> {
        self.writes = self.writes.wrapping_add(1);
        // No two versions in a row have one size, whatever the file system's clock.
        vec![self.writes; SIZES[size] + usize::from(self.writes)]
    }

    fn apply(&mut self, step: &Step) {
        let at = |model: &Self, path: usize| model.fixture.path(PATHS[path]);
        let parent = |model: &Self, path: usize| {
            let _ = fs::create_dir_all(at(model, path).parent().unwrap());
        };
        match *step {
            Step::Write(path, size) => {
                // In place only what is small enough to be held whole.
                let content = self.content(size.min(2));
                let large = fs::metadata(at(self, path)).is_ok_and(|found| found.len() > 64 << 10);
                let held_open = self.fixture.cache.settings.load().content < 64 << 20;
                // What a link leads to is polled, whatever else is told.
                let polled = self.watch == Watch::Off || !self.linked.is_empty();
                if (large || held_open) && polled {
                    return;
                }
                self.change(|model| {
                    parent(model, path);
                    let _ = fs::write(at(model, path), content);
                });
            }
            Step::Replace(path, size) => {
                let content = self.content(size);
                self.change(|model| {
                    parent(model, path);
                    let beside = model.fixture.path("beside");
                    fs::write(&beside, content).unwrap();
                    let _ = fs::rename(beside, at(model, path));
                });
            }
            Step::Remove(path) => self.change(|model| {
                let path = at(model, path);
                if fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir()) {
                    let _ = fs::remove_dir_all(path);
                } else {
                    let _ = fs::remove_file(path);
                }
            }),
            Step::Rename(from, to) => self.change(|model| {
                let _ = fs::rename(at(model, from), at(model, to));
            }),
            Step::MakeDirectory(path) => self.change(|model| {
                let _ = fs::create_dir_all(at(model, path));
            }),
            Step::Link(target, link) => self.change(|model| {
                parent(model, link);
                let _ = std::os::unix::fs::symlink(at(model, target), at(model, link));
            }),
            Step::Advance(millis) => {
                self.now += millis;
                self.fixture.hand.advance(Duration::from_millis(millis));
            }
            Step::Tick => self.fixture.cache.tick(),
            Step::Purge => self.fixture.cache.purge(),
            Step::Reload(which) => {
                self.fixture.cache.reconfigure(settings(which, self.watch));
            }
            Step::Lookup(_) | Step::Script(_) => {}
        }
    }

    /// Whether a link stands on the way to the path.
    fn passes_link(&self, path: &str) -> bool {
        let mut ancestors = std::path::Path::new(path).ancestors();
        ancestors.any(|path| {
            fs::symlink_metadata(self.fixture.path(path.to_str().unwrap()))
                .is_ok_and(|found| found.is_symlink())
        })
    }

    async fn check(&self, path: usize, want: Want) {
        let root = self.fixture.root.current();
        if self.watch != Watch::Off {
            self.fixture.cache.take_in_events().await;
        }
        let tree_path = TreePath::new(PATHS[path].as_bytes()).unwrap();
        let answer = self.fixture.cache.lookup(&root, tree_path, want).await;
        let (answered, bound) = match &answer {
            Ok(looked) => match &looked.found {
                Found::Missing => (State::Missing, 2000),
                Found::Directory => (State::Directory, 30_000),
                Found::File(found) => {
                    if want == Want::Script {
                        (State::Content(Vec::new()), 30_000)
                    } else {
                        let content = read(found).await;
                        assert_eq!(content.len() as u64, found.entry.size(), "{}", PATHS[path]);
                        let racy = self.racing && found.entry.racy;
                        (State::Content(content), if racy { 0 } else { 30_000 })
                    }
                }
            },
            Err(LookupError::LinkRefused) => (State::Refused, 1000),
            Err(other) => panic!("{other} for {}", PATHS[path]),
        };
        let told = self.watch != Watch::Off && !self.linked.contains(&path);
        let bound = if told { 0 } else { bound };
        let same = |state: &State| match (state, &answered) {
            (State::Content(_), State::Content(_)) if want == Want::Script => true,
            (state, answered) => state == answered,
        };
        let present = self.present(path);
        let past = self.past.get(&path).map_or(&[][..], Vec::as_slice);
        let recent = past
            .iter()
            .filter(|(until, _)| bound > 0 && until + bound > self.now);
        assert!(
            same(&present) || recent.clone().any(|(_, state)| same(state)),
            "{} answered in a state it has not had within {bound} ms",
            PATHS[path]
        );
    }
}

fn run(steps: &[Step], racing: bool, watch: Watch) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut model = Model::new(racing, watch);
        for step in steps {
            model.apply(step);
            match *step {
                Step::Lookup(path) => model.check(path, Want::Content).await,
                Step::Script(path) => model.check(path, Want::Script).await,
                _ => {}
            }
        }
        model.fixture.cache.purge();
        model.fixture.expect_open(0).await;
        drop(model.fixture.root);
        // What the entries needed, then the way to the root.
        model.fixture.hand.advance(Duration::from_secs(601));
        model.fixture.cache.tick();
        let usage = model.fixture.cache.usage();
        assert_eq!(usage, Default::default());
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_answer_is_a_state_the_path_had_within_its_bound(steps in prop::collection::vec(step(), 1..80)) {
        run(&steps, false, Watch::Off);
    }

    #[test]
    fn files_that_have_just_changed_are_answered_in_their_present_state(steps in prop::collection::vec(step(), 1..60)) {
        run(&steps, true, Watch::Off);
    }

    #[test]
    fn what_is_watched_is_answered_in_its_present_state(steps in prop::collection::vec(step(), 1..80)) {
        run(&steps, false, Watch::Auto);
    }

    #[test]
    fn what_is_watched_and_has_just_changed_is_answered_in_its_present_state(
        steps in prop::collection::vec(step(), 1..80)
    ) {
        run(&steps, true, Watch::Auto);
    }
}
