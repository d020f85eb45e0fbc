//! What a look at a file costs on this kernel, measured on a file of the root.

#![expect(
    clippy::disallowed_methods,
    reason = "measures the system calls themselves, serving nobody"
)]

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

use super::Site;
use super::finding::Finding;
use super::survey::Survey;

/// Nanoseconds of one call each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Costs {
    getppid: u64,
    fstat: u64,
    newfstatat: u64,
    statx: u64,
    open_and_close: u64,
}

/// Measures for half a second at most.
#[must_use]
pub fn examine(site: Site<'_>, survey: &Survey) -> Vec<Finding> {
    let Some(file) = &survey.some_file else {
        return Vec::new();
    };
    // A file that may not be read says nothing of the calls' cost.
    measure(file).map_or_else(
        |_| Vec::new(),
        |costs| {
            judge(costs)
                .into_iter()
                .map(|finding| finding.of(&site.name()))
                .collect()
        },
    )
}

fn measure(path: &Path) -> Result<Costs, Errno> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let open = || rustix::fs::openat(CWD, path, flags, Mode::empty());
    let file = open()?;
    Ok(Costs {
        getppid: median(|| {
            let _ = rustix::process::getppid();
            Ok(())
        })?,
        fstat: median(|| rustix::fs::fstat(&file).map(drop))?,
        newfstatat: median(|| rustix::fs::statat(&file, "", AtFlags::EMPTY_PATH).map(drop))?,
        statx: median(|| {
            rustix::fs::statx(&file, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS).map(drop)
        })?,
        open_and_close: median(|| open().map(drop))?,
    })
}

/// The median of batches: a look at the clock costs as much as some of the calls.
fn median(mut call: impl FnMut() -> Result<(), Errno>) -> Result<u64, Errno> {
    let begun = Instant::now();
    let mut batches = Vec::with_capacity(BATCHES);
    while batches.len() < BATCHES && begun.elapsed() < LONGEST {
        let batch = Instant::now();
        for _ in 0..BATCH {
            call()?;
        }
        batches.push(batch.elapsed().as_nanos() / u128::from(BATCH));
    }
    batches.sort_unstable();
    let middle = batches.get(batches.len() / 2).copied().unwrap_or_default();
    Ok(u64::try_from(middle).unwrap_or(u64::MAX))
}

fn judge(costs: Costs) -> Vec<Finding> {
    let Costs {
        getppid,
        fstat,
        newfstatat,
        statx,
        open_and_close,
    } = costs;
    let found = format!(
        "a look at an open file costs {fstat} ns (fstat), {newfstatat} ns (newfstatat), {statx} ns (statx); open and close {open_and_close} ns; an empty system call {getppid} ns"
    );
    if fstat > SLOW {
        let found = format!(
            "{found}: fstat is slow here (some {EXPECTED} ns are usual), as under a sandbox, audit rules or a security module; \
             warm requests make none, first looks at a file will be slower"
        );
        return vec![Finding::warning("calls", found)];
    }
    let mut findings = vec![Finding::ok("calls", found)];
    if newfstatat > 2 * fstat {
        let found = format!(
            "newfstatat costs {:.1} times what fstat does: a program that looks at files by it (C libraries of 2021 to 2024) pays that; Nostat does not",
            ratio(newfstatat, fstat)
        );
        findings.push(Finding::note("calls", found));
    }
    findings
}

fn ratio(one: u64, other: u64) -> f64 {
    let number = |value: u64| f64::from(u32::try_from(value).unwrap_or(u32::MAX));
    number(one) / number(other.max(1))
}

const BATCHES: usize = 200;
const BATCH: u32 = 100;
/// Five calls are measured in half a second.
const LONGEST: Duration = Duration::from_millis(100);
/// Measured on Linux 6.18.
const EXPECTED: u64 = 300;
const SLOW: u64 = 3 * EXPECTED;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use super::super::finding::Severity;
    use super::*;

    #[test]
    fn a_slow_fstat_is_a_warning_and_a_slow_newfstatat_a_note() {
        let usual = Costs {
            getppid: 60,
            fstat: 266,
            newfstatat: 286,
            statx: 308,
            open_and_close: 1570,
        };
        let severities = |costs| {
            let severity = |finding: &Finding| finding.severity;
            judge(costs).iter().map(severity).collect::<Vec<_>>()
        };
        assert_eq!(severities(usual), [Severity::Ok]);
        let regressed = Costs {
            newfstatat: 600,
            ..usual
        };
        assert_eq!(severities(regressed), [Severity::Ok, Severity::Note]);
        let slow = Costs {
            fstat: 2000,
            ..usual
        };
        assert_eq!(severities(slow), [Severity::Warning]);
    }

    #[test]
    fn calls_take_time() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let costs = measure(file.path()).unwrap();
        assert!(costs.open_and_close > costs.getppid, "{costs:?}");
    }
}
