//! What was found: how bad it is, one sentence, and what to do about it.

use std::fmt;

/// How much a finding matters. The worst comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Requests will fail.
    Problem,
    /// Something will be slower, or answered otherwise, than one may expect.
    Warning,
    /// Good to know.
    Note,
    /// As it should be.
    Ok,
}

impl Severity {
    /// The word for it, on a terminal and in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Problem => "problem",
            Severity::Warning => "warning",
            Severity::Note => "note",
            Severity::Ok => "ok",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// Which check it is of, one word.
    pub check: &'static str,
    /// The site it concerns; none: all.
    pub site: Option<String>,
    /// What was found: one sentence with the number measured.
    pub found: String,
    /// What to do; none: nothing.
    pub remedy: Option<Remedy>,
}

/// A line, and where it belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remedy {
    /// A file, a part of one, or a shell.
    pub place: String,
    /// To be copied as it is.
    pub line: String,
}

impl Finding {
    /// Requests will fail.
    pub fn problem(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(Severity::Problem, check, found.into())
    }

    /// Slower or otherwise than one may expect.
    pub fn warning(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(Severity::Warning, check, found.into())
    }

    /// Good to know.
    pub fn note(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(Severity::Note, check, found.into())
    }

    /// As it should be.
    pub fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(Severity::Ok, check, found.into())
    }

    /// A finding of this severity.
    #[must_use]
    pub fn new(severity: Severity, check: &'static str, found: String) -> Self {
        Finding {
            severity,
            check,
            site: None,
            found,
            remedy: None,
        }
    }

    /// The same, about this site.
    #[must_use]
    pub fn of(mut self, site: &str) -> Self {
        self.site = Some(site.to_owned());
        self
    }

    /// The same, with the line that helps and where to put it.
    #[must_use]
    pub fn put(mut self, place: impl Into<String>, line: impl Into<String>) -> Self {
        self.remedy = Some(Remedy {
            place: place.into(),
            line: line.into(),
        });
        self
    }
}

/// Where keys of the top level belong.
pub const SETTINGS: &str = "the settings file";
/// Where the kernel's settings belong.
pub const SYSCTL: &str = "/etc/sysctl.d/60-nostat.conf (then: sysctl --system)";
/// Where the limits of the service belong.
pub const UNIT: &str =
    "[Service] of nostat.service (systemctl edit nostat), or ulimit of who starts it";
/// Where commands belong.
pub const SHELL: &str = "a shell, as root";
