//! `sites[].php`: the PHP-FPM pool of a site.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::fastcgi::{Address, ClientAbort, MaxChildren, Settings};

use super::mistake::{Wrong, quoted};
use super::report::Report;
use super::scalar;
use super::section::{Keys, Node, Section};

/// The pool at `node`: an address, or a mapping with `address`.
pub fn read(node: &Node<'_>, report: &Report) -> Option<Settings> {
    if !node.value.is_mapping() {
        let address = scalar::text(node.value).and_then(address);
        return report.accept(&node.path, address).map(Settings::new);
    }
    let section = Section::open(node, &KEYS, report)?;
    let read_address = |node: Node<'_>| {
        let address = scalar::text(node.value).and_then(address);
        report.accept(&node.path, address)
    };
    let found = section
        .required(
            "address",
            "expected e.g. address: \"unix:/run/php/php8.2-fpm.sock\"",
        )
        .and_then(read_address);
    // The other keys are checked even where the address is wrong.
    let placeholder = || Address::Unix(PathBuf::new());
    let settings = settings(
        &section,
        Settings::new(found.clone().unwrap_or_else(placeholder)),
    );
    found.map(|_| settings)
}

fn address(text: &str) -> Result<Address, Wrong> {
    match text.parse() {
        Ok(Address::Tcp(address)) if address.port() == 0 => {
            let message = format!("{} has no port", quoted(text));
            Err(Wrong::new(message, "expected e.g. 127.0.0.1:9000"))
        }
        Ok(address) => Ok(address),
        Err(error) => {
            let message = format!("{} is no address of PHP-FPM: {error}", quoted(text));
            Err(Wrong::new(
                message,
                "expected e.g. unix:/run/php/php8.2-fpm.sock, 127.0.0.1:9000",
            ))
        }
    }
}

fn settings(section: &Section<'_, '_>, default: Settings) -> Settings {
    Settings {
        root: section.read("root", |value| scalar::text(value).and_then(absolute)),
        max_children: section
            .auto_or_count("max_children", 1..=100_000)
            .map_or(MaxChildren::Auto, MaxChildren::Limit),
        queue: section.count("queue", default.queue, 0..=1_000_000),
        wait: section.duration("wait", default.wait, Duration::ZERO..=HOUR),
        connect: section.duration("connect", default.connect, MILLISECOND..=HOUR),
        first_byte: section.duration("first_byte", default.first_byte, MILLISECOND..=DAY),
        between_bytes: section.duration("between_bytes", default.between_bytes, MILLISECOND..=DAY),
        keep_alive: section
            .read("keep_alive", |value| match scalar::word(value) {
                Some("off") => Ok(None),
                _ => scalar::duration(value, MILLISECOND..=DAY)
                    .map(Some)
                    .map_err(|wrong| Wrong {
                        expected: format!("{}, or off", wrong.expected),
                        ..wrong
                    }),
            })
            .unwrap_or(default.keep_alive),
        buffer: section.size("buffer", default.buffer, 4 << 10..=1 << 30),
        temp_max: section.size("temp_max", default.temp_max, 0..=1 << 44),
        client_abort: section.choice("client_abort", default.client_abort, CLIENT_ABORT),
        address: default.address,
    }
}

fn absolute(text: &str) -> Result<PathBuf, Wrong> {
    if text.starts_with('/') {
        return Ok(Path::new(text).to_owned());
    }
    let message = format!("{} is not an absolute path", quoted(text));
    Err(Wrong::new(
        message,
        "expected the document root as PHP-FPM sees it",
    ))
}

const CLIENT_ABORT: &[(&str, ClientAbort)] =
    &[("reset", ClientAbort::Reset), ("close", ClientAbort::Close)];

/// The keys of this part.
pub const KEYS: Keys = Keys {
    known: &[
        "address",
        "root",
        "max_children",
        "queue",
        "wait",
        "connect",
        "first_byte",
        "between_bytes",
        "keep_alive",
        "buffer",
        "temp_max",
        "client_abort",
    ],
    later: &[],
};

const MILLISECOND: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);
