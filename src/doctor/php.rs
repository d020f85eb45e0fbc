//! Who answers behind a site: whether it answers at all, and whether PHP-FPM sees the same tree.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::time::Duration;

use super::finding::{Finding, SHELL};
use super::identity::Identity;
use super::responder::{Said, ask};
use super::{Site, machine, pool};
use crate::fastcgi::{Address, Settings};
use crate::php_socket::{self, Outcome};
use crate::site::settings::{Backend, Preset};

/// Asks PHP-FPM for a script that cannot exist and for one that only sets variables; an origin is connected to.
#[must_use]
pub fn examine(site: Site<'_>, identity: &Identity) -> Vec<Finding> {
    let name = site.name();
    let findings: Vec<Finding> = match &site.settings.backend {
        Backend::None if site.settings.preset == Preset::Static => Vec::new(),
        Backend::None => vec![Finding::note(
            "php",
            "no PHP: only static files are answered",
        )],
        Backend::Origin(origin) => examine_origin(origin),
        Backend::Php(php) => {
            let root = match &php.root {
                Some(root) => root.clone(),
                None => machine::real_path(&site.settings.root)
                    .unwrap_or_else(|| site.settings.root.clone()),
            };
            let stopped = may_connect(php, identity);
            let mut findings = match examine_php(site, php, &root) {
                Ok(finding) => vec![finding],
                // Said below, of the user who matters.
                Err(error) if is_denied(&error) && stopped.is_some() => Vec::new(),
                Err(error) => vec![silent(site, php, &error)],
            };
            findings.extend(stopped);
            findings.extend(pool::examine(site, php));
            findings
        }
    };
    findings
        .into_iter()
        .map(|finding| finding.of(&name))
        .collect()
}

/// Each peer: one that is not there costs the others its share.
fn examine_origin(origin: &crate::origin::Settings) -> Vec<Finding> {
    let peers = &origin.pool.peers;
    let connect = |peer: &String| {
        let addresses: Vec<SocketAddr> = peer.to_socket_addrs()?.collect();
        let mut why = io::Error::from(io::ErrorKind::NotFound);
        for address in &addresses {
            match TcpStream::connect_timeout(address, origin.connect) {
                Ok(_) => return Ok(()),
                Err(error) => why = error,
            }
        }
        Err(why)
    };
    let tried: Vec<(&String, io::Result<()>)> =
        peers.iter().map(|peer| (peer, connect(peer))).collect();
    let is_any_there = tried.iter().any(|(_, connected)| connected.is_ok());
    let finding = |(peer, connected): (&String, io::Result<()>)| match connected {
        Ok(()) => Finding::ok("origin", format!("the origin {peer} can be connected to")),
        Err(error) if is_any_there => Finding::warning(
            "origin",
            format!("the origin {peer} cannot be connected to: {error}; others take its share"),
        ),
        Err(error) => Finding::problem(
            "origin",
            format!("the origin {peer} cannot be connected to: {error}; pages would be 502"),
        ),
    };
    tried.into_iter().map(finding).collect()
}

fn examine_php(site: Site<'_>, php: &Settings, root: &Path) -> io::Result<Finding> {
    let missing = format!("/nostat-doctor-{}.php", std::process::id());
    let patience = php.connect + ANSWER;
    let first = ask(&php.address, root, &missing, patience)?;
    if first.end.is_none() && first.stdout.is_empty() {
        let found = format!("{} closes without an answer: it is no PHP-FPM", php.address);
        return Ok(Finding::problem("php", found));
    }
    let took = first.took.as_micros();
    let answers = format!(
        "PHP-FPM at {} answers in {}.{} ms",
        php.address,
        took / 1000,
        took % 1000 / 100
    );
    let ours = site.settings.root.join(VERSION.trim_start_matches('/'));
    if site.settings.preset != Preset::Wordpress || !machine::is_there(&ours) {
        return Ok(Finding::ok("php", answers));
    }
    let second = ask(&php.address, root, VERSION, patience)?;
    Ok(same_tree(site, php, root, &answers, &second))
}

fn is_denied(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

/// What the answer to the script that only sets variables means.
fn same_tree(site: Site<'_>, php: &Settings, root: &Path, answers: &str, said: &Said) -> Finding {
    let shown = root.display();
    if said.is_without_script() {
        let found = format!(
            "{answers}, but sees no {shown}{VERSION}: every page would be \"File not found.\""
        );
        let line = format!(
            "php: {{address: \"{}\", root: /path/of/the/root/as/PHP/sees/it}}",
            php.address
        );
        return Finding::problem("php", found).put(site.place(), line);
    }
    if said.is_denied() {
        let found = format!(
            "{answers}, but may not run {shown}{VERSION}: its user may not read the tree, or security.limit_extensions forbids it"
        );
        return Finding::problem("php", found).put(SHELL, format!("namei -l {shown}{VERSION}"));
    }
    Finding::ok(
        "php",
        format!("{answers} and sees the same tree at {shown}"),
    )
}

/// Why there is no answer.
fn silent(site: Site<'_>, php: &Settings, error: &io::Error) -> Finding {
    let address = &php.address;
    match (error.kind(), address) {
        (io::ErrorKind::PermissionDenied, Address::Unix(path)) => {
            let found = format!("{address} may not be used by this user: pages would be 502");
            let finding = Finding::problem("php", found);
            match php_socket::permitted_group(path) {
                Some(group) => finding.put(SHELL, format!("usermod -aG {group} $USER")),
                None => finding.put(
                    "the pool's file of PHP-FPM",
                    "listen.group = www-data\nlisten.mode = 0660",
                ),
            }
        }
        (io::ErrorKind::WouldBlock, _) => Finding::warning(
            "php",
            format!("PHP-FPM at {address} has a full backlog now: all its processes are busy"),
        ),
        (io::ErrorKind::TimedOut, _) => Finding::warning(
            "php",
            format!(
                "PHP-FPM at {address} does not answer within {} s: all its processes are busy, or hang",
                (php.connect + ANSWER).as_secs()
            ),
        ),
        _ => {
            let found =
                format!("PHP-FPM at {address} cannot be reached: {error}; pages would be 502");
            let finding = Finding::problem("php", found);
            match php_socket::search(php_socket::DIRECTORY.as_ref()).outcome {
                Outcome::Found { path, .. } => {
                    finding.put(site.place(), format!("php: \"unix:{}\"", path.display()))
                }
                Outcome::Forbidden { .. } | Outcome::None => finding.put(
                    SHELL,
                    "systemctl start 'php*-fpm'   # then its address: grep -r '^listen =' /etc/php*",
                ),
            }
        }
    }
}

/// The server may run as another user than who asks here.
fn may_connect(php: &Settings, identity: &Identity) -> Option<Finding> {
    let Address::Unix(path) = &php.address else {
        return None;
    };
    let facts = machine::facts(path).filter(|facts| facts.is_socket)?;
    let stopped = path.parent().and_then(|folder| identity.stopped_at(folder));
    if identity.may(facts, 2) && stopped.is_none() {
        return None;
    }
    let found = format!(
        "user {}, as whom the server runs, may not use {}",
        identity.name,
        path.display()
    );
    let finding = Finding::problem("php", found);
    Some(match php_socket::permitted_group(path) {
        Some(group) if stopped.is_none() => {
            finding.put(SHELL, format!("usermod -aG {group} {}", identity.name))
        }
        _ => finding.put(
            "the pool's file of PHP-FPM",
            format!("listen.group = {}\nlisten.mode = 0660", identity.name),
        ),
    })
}

/// Sets a few variables and says nothing.
const VERSION: &str = "/wp-includes/version.php";
/// It runs no WordPress.
const ANSWER: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use super::super::finding::Severity;
    use super::*;
    use crate::site::settings::SiteSettings;

    fn verdict(stdout: &str) -> Finding {
        let settings = SiteSettings::new("/srv/w".into(), Preset::Wordpress);
        let site = Site {
            index: 0,
            settings: &settings,
        };
        let php = Settings::new("127.0.0.1:9000".parse().unwrap());
        let said = Said {
            stdout: stdout.to_owned(),
            ..Said::default()
        };
        same_tree(site, &php, Path::new("/srv/w"), "answers", &said)
    }

    #[test]
    fn another_tree_is_told_by_the_missing_script() {
        let missing = verdict("Status: 404 Not Found\r\n\r\nFile not found.\n");
        assert_eq!(missing.severity, Severity::Problem);
        assert!(missing.remedy.unwrap().line.contains("root: /path"));
        let denied = verdict("Status: 403 Forbidden\r\n\r\nAccess denied.\n");
        assert_eq!(denied.severity, Severity::Problem);
        assert_eq!(
            verdict("Content-type: text/html\r\n\r\n").severity,
            Severity::Ok
        );
    }

    #[test]
    fn a_socket_that_is_not_there_is_a_problem() {
        let settings = SiteSettings {
            backend: Backend::Php(Settings::new("unix:/nonexistent/php.sock".parse().unwrap())),
            ..SiteSettings::new("/srv/w".into(), Preset::Wordpress)
        };
        let site = Site {
            index: 0,
            settings: &settings,
        };
        let whole = crate::settings::Settings::for_root("/srv/w".into(), None, None);
        let findings = examine(site, &Identity::of(&whole));
        assert_eq!(findings[0].severity, Severity::Problem);
        assert!(findings[0].found.contains("cannot be reached"));
    }
}
