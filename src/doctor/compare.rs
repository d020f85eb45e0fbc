//! What the front page names, fetched from the server in use now and from a running Nostat, and held side by side.
//!
//! Only over plain HTTP; compression is not asked for. At most 200 files, 20 MB and 30 seconds.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use http::Uri;
use serde_json::{Value, json};

use super::fetch::{Fetched, Server};
use super::finding::Finding;
use super::page_names::names;
use super::report::printable;
use crate::clock::Clock;
use crate::settings::Settings;

/// Files that two servers answer differently.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// How many files were fetched from both.
    pub files: usize,
    /// What differs.
    pub differences: Vec<Difference>,
}

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Path and query.
    pub path: String,
    /// What differs: `status`, `content-type`, `bytes`, `cache-control`.
    pub what: &'static str,
    /// At the server in use now.
    pub there: String,
    /// At Nostat.
    pub here: String,
}

impl Comparison {
    /// For a terminal.
    #[must_use]
    pub fn table(&self) -> String {
        if self.differences.is_empty() {
            return format!("{} files, no difference\n", self.files);
        }
        let shown = |text: &str| match text {
            "" => "-".to_owned(),
            text => printable(text),
        };
        let mut rows = vec![["FILE", "DIFFERS", "THERE", "HERE"].map(str::to_owned)];
        rows.extend(
            self.differences
                .iter()
                .map(|one| [&*one.path, one.what, &*one.there, &*one.here].map(shown)),
        );
        let width = |column: usize| {
            let widths = rows.iter().filter_map(|row| row.get(column));
            widths.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths = [width(0), width(1), width(2)];
        let mut table = String::new();
        for [path, what, there, here] in &rows {
            let [first, second, third] = widths;
            table.push_str(&format!(
                "{path:first$}  {what:second$}  {there:third$}  {here}\n"
            ));
        }
        table
    }

    /// As JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        let one = |one: &Difference| json!({"path": one.path, "what": one.what, "there": one.there, "here": one.here});
        json!({
            "files": self.files,
            "differences": self.differences.iter().map(one).collect::<Vec<_>>(),
        })
    }
}

/// Whether the address can be compared with.
///
/// # Errors
/// Why not.
pub fn check(url: &str) -> Result<(), &'static str> {
    let uri: Uri = url.parse().map_err(|_| "not an address")?;
    match (uri.scheme_str(), uri.host()) {
        (Some("http"), Some(_)) => Ok(()),
        (Some("https"), _) => Err(
            "https is not compared yet; expected the address behind the TLS end, e.g. http://127.0.0.1:8080/",
        ),
        _ => Err("expected e.g. http://127.0.0.1:8080/"),
    }
}

/// Fetches from both, and adds what it means to `findings`. None: one of them does not answer.
pub fn examine(settings: &Settings, url: &str, findings: &mut Vec<Finding>) -> Option<Comparison> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .ok()?;
    match runtime.block_on(compare(settings, url)) {
        Ok(comparison) => {
            findings.extend(judge(&comparison));
            Some(comparison)
        }
        Err(why) => {
            findings.push(Finding::warning(
                "compare",
                format!("nothing compared: {why}"),
            ));
            None
        }
    }
}

async fn compare(settings: &Settings, url: &str) -> Result<Comparison, String> {
    let clock = Clock::system();
    let end = clock.now().plus(LONGEST);
    let uri: Uri = url.parse().map_err(|_| "not an address".to_owned())?;
    let (host, authority) = host_of(settings, &uri);
    let mut there = Server::new(
        address_of(&uri).map_err(|e| format!("{url}: {e}"))?,
        authority.clone(),
    );
    let ours = listening(settings).ok_or("listen names no port")?;
    let mut here = Server::new(ours, authority);
    let base = uri.path().to_owned();
    let mut page = there
        .get(&base, MOST_BYTES)
        .await
        .map_err(|error| format!("{url}: {error}"))?;
    if page.status.is_redirection() && page.field("location").starts_with("https://") {
        there.is_https_told = true;
        here.is_https_told = true;
        page = there
            .get(&base, MOST_BYTES)
            .await
            .map_err(|error| format!("{url}: {error}"))?;
    }
    if page.status.is_redirection() {
        return Err(format!(
            "{url} is a redirect to {}; expected the page itself",
            printable(page.field("location"))
        ));
    }
    let text = String::from_utf8_lossy(&page.content);
    let mut next: VecDeque<String> = names(&text, &host, &base).into();
    let mut seen: Vec<String> = next.iter().cloned().collect();
    let mut comparison = Comparison::default();
    let mut bytes = 0_usize;
    while let Some(path) = next.pop_front() {
        if comparison.files == MOST_FILES || bytes >= MOST_BYTES || clock.now() > end {
            break;
        }
        let Ok(theirs) = there.get(&path, MOST_BYTES).await else {
            continue;
        };
        let ours = here
            .get(&path, MOST_BYTES)
            .await
            .map_err(|error| format!("no Nostat with these settings answers at {ours}: {error}"))?;
        bytes += theirs.content.len() + ours.content.len();
        comparison.files += 1;
        comparison
            .differences
            .extend(differences(&path, &theirs, &ours));
        if theirs.field("content-type").starts_with("text/css") {
            let css = String::from_utf8_lossy(&theirs.content);
            for name in names(&css, &host, &path) {
                if !seen.contains(&name) {
                    seen.push(name.clone());
                    next.push_back(name);
                }
            }
        }
    }
    Ok(comparison)
}

/// The host that pages name, and the Host to ask for. A bare address stands for the first host of the settings.
fn host_of(settings: &Settings, uri: &Uri) -> (String, String) {
    let host = uri.host().unwrap_or_default().to_owned();
    let is_bare = host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok() || host == "localhost";
    let named = settings
        .sites
        .iter()
        .flat_map(|site| &site.hosts)
        .find(|host| !host.starts_with('*'));
    match named {
        Some(named) if is_bare => (named.clone(), named.clone()),
        _ => {
            let authority = uri.authority().map_or(host, ToString::to_string);
            (authority.clone(), authority)
        }
    }
}

fn address_of(uri: &Uri) -> io::Result<SocketAddr> {
    let host = uri.host().unwrap_or_default();
    let port = uri.port_u16().unwrap_or(80);
    (host.trim_matches(['[', ']']), port)
        .to_socket_addrs()?
        .next()
        .ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Where a Nostat with these settings is to be found from here.
fn listening(settings: &Settings) -> Option<SocketAddr> {
    let mut address = settings.listen.first()?.address;
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    (address.port() != 0).then_some(address)
}

fn differences(path: &str, there: &Fetched, here: &Fetched) -> Vec<Difference> {
    let one = |what, there: String, here: String| {
        (there != here).then(|| Difference {
            path: path.to_owned(),
            what,
            there,
            here,
        })
    };
    let status = one(
        "status",
        there.status.as_u16().to_string(),
        here.status.as_u16().to_string(),
    );
    if status.is_some() {
        return status.into_iter().collect();
    }
    // Pages of errors are each server's own.
    if !there.status.is_success() {
        return Vec::new();
    }
    let media_type = one(
        "content-type",
        media_type(there.field("content-type")),
        media_type(here.field("content-type")),
    );
    let bytes = (there.content != here.content).then(|| {
        let length = |fetched: &Fetched| fetched.content.len().to_string();
        let (there, here) = (length(there), length(here));
        let here = match there == here {
            true => format!("{here}, others"),
            false => here,
        };
        Difference {
            path: path.to_owned(),
            what: "bytes",
            there,
            here,
        }
    });
    let lifetime = one(
        "cache-control",
        there.field("cache-control").to_owned(),
        here.field("cache-control").to_owned(),
    );
    [media_type, bytes, lifetime]
        .into_iter()
        .flatten()
        .collect()
}

/// Without its charset; JavaScript has several names (RFC 9239).
fn media_type(field: &str) -> String {
    let bare = field.split(';').next().unwrap_or_default();
    let bare = bare.trim().to_ascii_lowercase();
    match bare.as_str() {
        "application/javascript" | "application/x-javascript" => "text/javascript".to_owned(),
        _ => bare,
    }
}

fn judge(comparison: &Comparison) -> Vec<Finding> {
    let count = |what| {
        let same = |one: &&Difference| one.what == what;
        comparison.differences.iter().filter(same).count()
    };
    let files = comparison.files;
    let mut findings = Vec::new();
    let broken = comparison
        .differences
        .iter()
        .filter(|one| one.what == "status" && one.there.starts_with('2'))
        .count();
    for (number, severity, what) in [
        (
            broken,
            Finding::problem as fn(_, _) -> _,
            "are answered there and not here",
        ),
        (
            count("status") - broken,
            Finding::note,
            "have another status",
        ),
        (count("bytes"), Finding::warning, "have other bytes"),
        (
            count("content-type"),
            Finding::warning,
            "have another Content-Type",
        ),
        (
            count("cache-control"),
            Finding::note,
            "have another Cache-Control (cache_control sets it)",
        ),
    ] {
        if number > 0 {
            findings.push(severity(
                "compare",
                format!("{number} of {files} files {what}"),
            ));
        }
    }
    if files == 0 {
        findings.push(Finding::note(
            "compare",
            "the page names no file of its host",
        ));
    } else if findings.is_empty() {
        findings.push(Finding::ok(
            "compare",
            format!("{files} files, no difference"),
        ));
    }
    findings
}

const MOST_FILES: usize = 200;
const MOST_BYTES: usize = 20_000_000;
const LONGEST: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use hyper::body::Bytes;
    use hyper::{HeaderMap, StatusCode};

    use super::*;
    use crate::doctor::finding::Severity;

    fn fetched(status: u16, media_type: &str, content: &'static [u8]) -> Fetched {
        let mut fields = HeaderMap::new();
        fields.insert("content-type", media_type.parse().unwrap());
        Fetched {
            status: StatusCode::from_u16(status).unwrap(),
            fields,
            content: Bytes::from_static(content),
        }
    }

    #[test]
    fn what_differs_is_named() {
        let what = |there: &Fetched, here: &Fetched| {
            let found = differences("/a", there, here);
            found.iter().map(|one| one.what).collect::<Vec<_>>()
        };
        let one = fetched(200, "application/javascript", b"x");
        assert!(what(&one, &fetched(200, "text/javascript; charset=utf-8", b"x")).is_empty());
        assert_eq!(
            what(&one, &fetched(200, "text/css", b"y")),
            ["content-type", "bytes"]
        );
        assert_eq!(what(&one, &fetched(403, "text/html", b"")), ["status"]);
        let gone = fetched(404, "text/html", b"a");
        assert!(what(&gone, &fetched(404, "text/plain", b"b")).is_empty());
    }

    #[test]
    fn a_file_that_is_lost_is_a_problem() {
        let comparison = Comparison {
            files: 2,
            differences: differences(
                "/a",
                &fetched(200, "text/css", b"x"),
                &fetched(404, "text/html", b""),
            ),
        };
        assert_eq!(judge(&comparison)[0].severity, Severity::Problem);
        let expected = "FILE  DIFFERS  THERE  HERE\n/a    status   200    404\n";
        assert_eq!(comparison.table(), expected);
    }

    #[test]
    fn only_plain_http_is_compared() {
        assert!(check("http://127.0.0.1:8080/").is_ok());
        assert!(check("https://example.com/").unwrap_err().contains("https"));
        assert!(check("example.com").is_err());
    }
}
