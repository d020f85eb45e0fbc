//! The user that the server runs as, and what file modes let him do.

use std::path::Path;

use nix::unistd::{Gid, Group, Uid, User, getgrouplist};

use super::Site;
use super::finding::{Finding, SHELL};
use super::machine::{self, Facts};
use crate::settings::Settings;

/// A user with his groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// His name, or number.
    pub name: String,
    user: u32,
    groups: Vec<u32>,
}

impl Identity {
    /// Who the settings say, else who asks.
    #[must_use]
    pub fn of(settings: &Settings) -> Self {
        let user = match &settings.user {
            Some(name) => User::from_name(name),
            None => User::from_uid(Uid::effective()),
        };
        let Ok(Some(user)) = user else {
            let user = Uid::effective();
            return Identity {
                name: user.to_string(),
                user: user.as_raw(),
                groups: vec![Gid::effective().as_raw()],
            };
        };
        let main = settings
            .group
            .as_deref()
            .and_then(|name| Group::from_name(name).ok().flatten())
            .map_or(user.gid, |group| group.gid);
        let groups = std::ffi::CString::new(user.name.as_bytes())
            .ok()
            .and_then(|name| getgrouplist(&name, main).ok())
            .unwrap_or_else(|| vec![main]);
        Identity {
            name: user.name,
            user: user.uid.as_raw(),
            groups: groups.into_iter().map(Gid::as_raw).collect(),
        }
    }

    /// Whether he may do `wanted` (4 read, 2 write, 1 search) with a file, by its mode.
    #[must_use]
    pub fn may(&self, facts: Facts, wanted: u32) -> bool {
        let shift = if self.user == 0 {
            return true;
        } else if self.user == facts.owner {
            6
        } else if self.groups.contains(&facts.group) {
            3
        } else {
            0
        };
        (facts.mode >> shift) & wanted == wanted
    }

    /// The outermost folder on the way to `path` that he may not pass through, `path` itself included.
    #[must_use]
    pub fn stopped_at<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        let mut way: Vec<&Path> = path.ancestors().collect();
        way.reverse();
        way.into_iter().find(|folder| {
            machine::facts(folder).is_some_and(|facts| facts.is_directory && !self.may(facts, 1))
        })
    }

    /// Whether he gets into a document root.
    #[must_use]
    pub fn may_read(&self, site: Site<'_>, root: &Path) -> Option<Finding> {
        let stopped = match self.stopped_at(root) {
            Some(folder) => folder,
            None => {
                let unreadable = machine::facts(root).is_some_and(|facts| !self.may(facts, 5));
                unreadable.then_some(root)?
            }
        };
        let group = machine::facts(stopped)
            .and_then(|facts| Group::from_gid(Gid::from_raw(facts.group)).ok().flatten());
        let found = format!(
            "user {} may not read {}: every file of the site would be 403",
            self.name,
            stopped.display()
        );
        let finding = Finding::problem("root", found).of(&site.name());
        Some(match group {
            Some(group) if group.gid.as_raw() != 0 => {
                finding.put(SHELL, format!("usermod -aG {} {}", group.name, self.name))
            }
            _ => finding.put(SHELL, format!("chmod o+rx {}", stopped.display())),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_then_group_then_others_count() {
        let someone = |user, groups: &[u32]| Identity {
            name: "u".into(),
            user,
            groups: groups.to_vec(),
        };
        let facts = Facts {
            owner: 10,
            group: 20,
            mode: 0o100_640,
            is_directory: false,
            is_socket: false,
        };
        assert!(someone(10, &[]).may(facts, 6));
        assert!(someone(11, &[20]).may(facts, 4));
        assert!(!someone(11, &[20]).may(facts, 2));
        assert!(!someone(11, &[21]).may(facts, 4));
        assert!(someone(0, &[]).may(facts, 7));
    }
}
