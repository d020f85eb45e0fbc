//! Certificates that clients refuse, or will soon: expired, not valid yet, about to end.

use std::fmt;
use std::path::{Path, PathBuf};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use x509_parser::parse_x509_certificate;

use crate::clock::UnixTime;

use super::certificate::bytes_of;
use super::settings::Settings;

/// What is the matter with a certificate in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The file.
    pub path: PathBuf,
    /// What it is there.
    pub role: Role,
    /// What is the matter with it.
    pub kind: Kind,
    /// The second of Unix time that this is about.
    pub at: i64,
}

/// What a certificate is in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The one of the server, which stands first.
    Server,
    /// One behind it.
    Chain,
    /// An authority of clients (`client_ca`).
    Authority,
}

/// What is the matter with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It has ended.
    Expired,
    /// It has not begun.
    NotYet,
    /// It ends soon.
    EndsSoon,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = match self.role {
            Role::Server => "the certificate",
            Role::Chain => "a certificate of the chain",
            Role::Authority => "an authority of clients",
        };
        let at = UnixTime {
            seconds: self.at,
            nanos: 0,
        };
        let at = httpdate::fmt_http_date(at.system());
        let path = self.path.display();
        match self.kind {
            Kind::Expired => write!(f, "{path}: {role} has expired ({at})"),
            Kind::NotYet => write!(f, "{path}: {role} is not valid before {at}"),
            Kind::EndsSoon => write!(f, "{path}: {role} expires soon ({at})"),
        }
    }
}

/// All there is the matter with the files of a listener. One that cannot be read is told of elsewhere. Touches disks.
pub fn troubles(settings: &Settings, now: UnixTime) -> Vec<Trouble> {
    let mut all = Vec::new();
    for files in &settings.certificates {
        for (place, period) in periods(&files.certificate).into_iter().enumerate() {
            let role = match place {
                0 => Role::Server,
                _ => Role::Chain,
            };
            all.extend(period.trouble(&files.certificate, role, now));
        }
    }
    if let Some(path) = &settings.client_ca {
        let authorities = periods(path).into_iter();
        all.extend(authorities.filter_map(|period| period.trouble(path, Role::Authority, now)));
    }
    all
}

/// The time for which a certificate is valid, in seconds of Unix time (RFC 5280 §4.1.2.5).
#[derive(Clone, Copy, Debug)]
struct Period {
    not_before: i64,
    not_after: i64,
}

impl Period {
    fn trouble(self, path: &Path, role: Role, now: UnixTime) -> Option<Trouble> {
        let (kind, at) = self.judge(now.seconds)?;
        Some(Trouble {
            path: path.to_owned(),
            role,
            kind,
            at,
        })
    }

    fn judge(self, now: i64) -> Option<(Kind, i64)> {
        // Who renews it does so with a third of its time left.
        let lasts = self.not_after.saturating_sub(self.not_before);
        let soon = SOON.min(lasts / 3);
        if now > self.not_after {
            Some((Kind::Expired, self.not_after))
        } else if now < self.not_before {
            Some((Kind::NotYet, self.not_before))
        } else if self.not_after.saturating_sub(now) < soon {
            Some((Kind::EndsSoon, self.not_after))
        } else {
            None
        }
    }
}

/// Those of all certificates in a file.
fn periods(path: &Path) -> Vec<Period> {
    let bytes = bytes_of(path).unwrap_or_default();
    let certificates = CertificateDer::pem_slice_iter(&bytes).map_while(Result::ok);
    certificates
        .filter_map(|certificate| {
            let (_, parsed) = parse_x509_certificate(&certificate).ok()?;
            let validity = parsed.validity();
            Some(Period {
                not_before: validity.not_before.timestamp(),
                not_after: validity.not_after.timestamp(),
            })
        })
        .collect()
}

/// Seconds that a certificate should last at least.
const SOON: i64 = 7 * 86_400;

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const DAY: i64 = 86_400;

    #[test]
    fn what_has_ended_has_not_begun_or_ends_soon_is_told() {
        let year = Period {
            not_before: 1000 * DAY,
            not_after: 1365 * DAY,
        };
        for (now, expected) in [
            (999 * DAY, Some((Kind::NotYet, 1000 * DAY))),
            (1000 * DAY, None),
            (1350 * DAY, None),
            (1359 * DAY, Some((Kind::EndsSoon, 1365 * DAY))),
            (1365 * DAY, Some((Kind::EndsSoon, 1365 * DAY))),
            (1365 * DAY + 1, Some((Kind::Expired, 1365 * DAY))),
        ] {
            assert_eq!(year.judge(now), expected, "{now}");
        }
        // One of six days is not about to end from its first day on.
        let short = Period {
            not_before: 0,
            not_after: 6 * DAY,
        };
        assert_eq!(short.judge(0), None);
        assert_eq!(short.judge(5 * DAY), Some((Kind::EndsSoon, 6 * DAY)));
    }

    #[test]
    fn nothing_overflows() {
        let odd = Period {
            not_before: i64::MAX,
            not_after: i64::MIN,
        };
        assert_eq!(odd.judge(0), Some((Kind::Expired, i64::MIN)));
    }

    #[test]
    fn what_is_no_certificate_has_no_period() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.pem");
        assert!(periods(&path).is_empty());
        fs::write(&path, "nothing").expect("written");
        assert!(periods(&path).is_empty());
    }

    #[test]
    fn a_pipe_in_place_of_a_file_is_not_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe.pem");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).expect("made");
        for odd in [&*pipe, Path::new("/dev/zero"), folder.path()] {
            assert!(periods(odd).is_empty(), "{}", odd.display());
        }
    }
}
