//! The kernel itself: its version, openat2, the queue of connections to be accepted.

use rustix::io::Errno;

use super::finding::{Finding, SYSCTL, UNIT};
use super::machine;

/// Judges the kernel that runs here.
#[must_use]
pub fn examine() -> Vec<Finding> {
    let system = rustix::system::uname();
    let release = system.release().to_string_lossy().into_owned();
    let mut findings = vec![opening(&release, machine::openat2())];
    if let Some(most) = machine::number("/proc/sys/net/core/somaxconn") {
        findings.push(queue(most));
    }
    findings
}

fn opening(release: &str, openat2: Result<(), Errno>) -> Finding {
    match openat2 {
        Ok(()) => Finding::ok("kernel", format!("Linux {release} with openat2")),
        Err(Errno::NOSYS | Errno::PERM) => {
            let found = format!(
                "Linux {release} has no openat2, or a filter refuses it: each folder of a path is opened by itself on a miss"
            );
            Finding::warning("kernel", found).put(
                UNIT,
                "RestrictSUIDSGID=no   # where the unit says yes; in a container: a newer seccomp profile",
            )
        }
        Err(errno) => Finding::note("kernel", format!("Linux {release}: openat2 says {errno}")),
    }
}

fn queue(most: u64) -> Finding {
    let found = format!(
        "net.core.somaxconn is {most}: connections that may wait to be accepted (65535 are asked for)"
    );
    if most < ENOUGH {
        return Finding::warning("kernel", found).put(SYSCTL, "net.core.somaxconn = 16384");
    }
    Finding::ok("kernel", found)
}

/// The kernel's default since 5.4.
const ENOUGH: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
    use super::*;

    #[test]
    fn an_old_default_is_raised_and_a_filter_named() {
        assert_eq!(queue(128).severity, Severity::Warning);
        assert_eq!(queue(4096).severity, Severity::Ok);
        let filtered = opening("6.1", Err(Errno::NOSYS));
        assert_eq!(filtered.severity, Severity::Warning);
        assert!(
            filtered
                .remedy
                .is_some_and(|remedy| remedy.line.contains("RestrictSUIDSGID"))
        );
    }
}
