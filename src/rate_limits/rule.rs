//! A rule of `rate_limits`.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

/// How many requests of a kind one client may make.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// Which requests.
    pub matches: Match,
    /// How many in the long run.
    pub rate: Rate,
    /// How many at once after a pause.
    pub burst: NonZeroU32,
}

/// Which requests a rule means.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Match {
    /// Those for a path of this pattern.
    Path(String),
    /// Those that are answered 404, by us or by the application.
    Missing,
}

impl Match {
    /// As it stands in the settings.
    pub fn as_str(&self) -> &str {
        match self {
            Match::Path(pattern) => pattern,
            Match::Missing => MISSING,
        }
    }
}

/// So many in such a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    /// How many.
    pub count: NonZeroU32,
    /// In how much time.
    pub per: Duration,
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.per.as_secs() {
            1 => "s",
            60 => "min",
            3600 => "h",
            _ => "d",
        };
        write!(f, "{}/{unit}", self.count)
    }
}

impl Rule {
    /// The rules where the settings have none: logins and xmlrpc.php, wherever WordPress is installed, and scans.
    pub fn defaults() -> Vec<Rule> {
        let rule = |matches, count, per, burst| Rule {
            matches,
            rate: Rate {
                count: NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN),
                per: Duration::from_secs(per),
            },
            burst: NonZeroU32::new(burst).unwrap_or(NonZeroU32::MIN),
        };
        vec![
            rule(Match::Path("/**/wp-login.php".to_owned()), 10, 60, 10),
            rule(Match::Path("/**/xmlrpc.php".to_owned()), 60, 60, 20),
            rule(Match::Missing, 20, 1, 100),
        ]
    }
}

/// The word for [`Match::Missing`].
pub const MISSING: &str = "missing";
