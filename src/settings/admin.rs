//! `admin`: where a running server is asked.

use std::path::PathBuf;

use serde_yaml::Value;

use super::report::Report;
use super::scalar;
use super::section::{Keys, Section};

/// The admin socket's path; none: `off`, or not said.
pub fn read(top: &Section<'_, '_>, report: &Report) -> Option<PathBuf> {
    let node = top.node("admin")?;
    if matches!(node.value, Value::String(word) if word == "off") {
        return None;
    }
    let section = Section::open(&node, &KEYS, report)?;
    let expected = "expected e.g. admin: {socket: /run/nostat/admin.sock}, or admin: off";
    let socket = section.required("socket", expected)?;
    let path = scalar::absolute_path(socket.value).map(ToOwned::to_owned);
    report.accept(&socket.path, path)
}

/// The keys of this part.
pub const KEYS: Keys = Keys {
    known: &["socket"],
    later: &["listen", "token_file"],
};
