//! The bytes that spools and buffered responses of the process may hold together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A bound on bytes, and how many are claimed.
#[derive(Debug)]
pub struct Budget {
    total: AtomicU64,
    used: AtomicU64,
    used_by_answers: AtomicU64,
}

/// Who a claim is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChargedTo {
    /// Content of a request.
    Content,
    /// The file of a response. These may take half of the budget, so that slow downloads never
    /// keep uploads out.
    Answer,
}

impl Budget {
    /// With nothing claimed.
    pub fn new(total: u64) -> Arc<Budget> {
        Arc::new(Budget {
            total: AtomicU64::new(total),
            used: AtomicU64::new(0),
            used_by_answers: AtomicU64::new(0),
        })
    }

    /// Changes the bound; what is claimed stays claimed.
    pub fn set_total(&self, total: u64) {
        self.total.store(total, Ordering::Relaxed);
    }

    /// Bytes claimed.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// A claim of nothing yet.
    pub fn charge(self: &Arc<Self>, to: ChargedTo) -> Charge {
        Charge {
            budget: Arc::clone(self),
            to,
            bytes: 0,
        }
    }
}

/// A claim on the budget, given back when dropped.
#[derive(Debug)]
pub struct Charge {
    budget: Arc<Budget>,
    to: ChargedTo,
    bytes: u64,
}

impl Charge {
    /// Claims `bytes` more; false when they are not there, and then nothing is claimed.
    pub fn grow(&mut self, bytes: u64) -> bool {
        let budget = &self.budget;
        let total = budget.total.load(Ordering::Relaxed);
        let of_answers = self.to == ChargedTo::Answer;
        if of_answers && !claim(&budget.used_by_answers, bytes, total / 2) {
            return false;
        }
        if !claim(&budget.used, bytes, total) {
            if of_answers {
                budget.used_by_answers.fetch_sub(bytes, Ordering::Relaxed);
            }
            return false;
        }
        self.bytes += bytes;
        true
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
        if self.to == ChargedTo::Answer {
            let used_by_answers = &self.budget.used_by_answers;
            used_by_answers.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

fn claim(used: &AtomicU64, bytes: u64, total: u64) -> bool {
    let claimed = used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
        used.checked_add(bytes).filter(|&sum| sum <= total)
    });
    claimed.is_ok()
}
