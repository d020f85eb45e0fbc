//! Something that every thread writes on a cache line of its own, so that none waits for another.

use std::sync::atomic::{AtomicUsize, Ordering};

/// One `T` for each thread; threads beyond [`PLACES`] share.
#[derive(Debug, Default)]
pub struct PerThread<T>([Place<T>; PLACES]);

#[derive(Debug, Default)]
#[repr(align(128))]
struct Place<T>(T);

impl<T> PerThread<T> {
    /// This thread's.
    pub fn mine(&self) -> &T {
        let mine = MINE.with(|mine| *mine);
        let place = self.0.get(mine);
        &place
            .expect("invariant: taken modulo the number of places")
            .0
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|place| &place.0)
    }
}

thread_local! {
    static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % PLACES;
}

static NEXT: AtomicUsize = AtomicUsize::new(0);

const PLACES: usize = 16;
