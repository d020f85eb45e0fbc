//! Symbolic links that lead out of a root and are refused.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::finding::{Finding, SHELL};
use super::survey::Survey;
use super::{Site, machine};
use crate::descriptor_cache::Symlinks;
use crate::descriptor_cache::links::is_system;
use crate::site::php_source::is_source;

/// A link that is refused.
struct Refused {
    link: PathBuf,
    target: PathBuf,
    /// The directory that `link_targets` would have to name.
    folder: PathBuf,
    kind: Kind,
}

/// What a refusal means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Everything below the link is 403.
    Folder,
    /// The file is 403.
    File,
    /// PHP reads it by itself, and nobody else should.
    Source,
    /// Its rules cannot be read, so they deny everything below its folder.
    Rules,
}

/// Judges the links that the walk has met against what the server adopts.
#[must_use]
pub fn examine(site: Site<'_>, root: &Path, targets: &[PathBuf], survey: &Survey) -> Vec<Finding> {
    let symlinks = site.settings.links.symlinks;
    let mut refused = Vec::new();
    let mut nowhere = 0_usize;
    for link in &survey.links {
        let Some(target) = machine::real_path(link) else {
            nowhere += 1;
            continue;
        };
        let is_allowed = match symlinks {
            Symlinks::Follow => true,
            Symlinks::Off => false,
            Symlinks::Beneath => std::iter::once(root)
                .chain(targets.iter().map(PathBuf::as_path))
                .any(|allowed| target.starts_with(allowed)),
        };
        if !is_allowed {
            refused.push(Refused::new(link, target));
        }
    }
    let mut findings = Vec::new();
    if symlinks == Symlinks::Off {
        if let Some(first) = refused.first() {
            let found = format!(
                "symlinks: off refuses {} links: {} and the like are 403",
                refused.len(),
                first.link.display()
            );
            findings.push(Finding::warning("links", found).put(site.place(), "symlinks: beneath"));
        }
    } else {
        findings.extend(refusals(site, root, targets, &refused));
    }
    if nowhere > 0 {
        let found = format!("{} to nothing that can be seen: 404", counted(nowhere));
        findings.push(Finding::note("links", found));
    }
    let followed = survey.links.len() - nowhere - refused.len();
    if refused.is_empty() && followed > 0 {
        let found = format!("{} within the root or into link targets", counted(followed));
        findings.push(Finding::ok("links", found));
    }
    findings
        .into_iter()
        .map(|finding| finding.of(&site.name()))
        .collect()
}

impl Refused {
    fn new(link: &Path, target: PathBuf) -> Self {
        let is_folder = machine::facts(&target).is_some_and(|facts| facts.is_directory);
        let name = link.file_name().unwrap_or_default().as_encoded_bytes();
        let kind = match is_folder {
            true => Kind::Folder,
            false if name == b".htaccess" => Kind::Rules,
            false if is_source(name) => Kind::Source,
            false => Kind::File,
        };
        let folder = match is_folder {
            true => target.clone(),
            false => target.parent().unwrap_or(&target).to_owned(),
        };
        Refused {
            link: link.to_owned(),
            target,
            folder,
            kind,
        }
    }

    /// Whether naming its directory would open more than a site.
    fn is_of_the_machine(&self, root: &Path) -> bool {
        self.folder.parent().is_none() || is_system(&self.folder) || root.starts_with(&self.folder)
    }
}

/// One finding for each directory that links lead into; each comes with the whole list, which takes the place of what
/// is adopted by itself.
fn refusals(site: Site<'_>, root: &Path, targets: &[PathBuf], refused: &[Refused]) -> Vec<Finding> {
    let mut list: Vec<PathBuf> = targets.to_vec();
    let mut folders: BTreeMap<(&Path, Kind), Vec<&Refused>> = BTreeMap::new();
    for one in refused {
        let wanted = matches!(one.kind, Kind::Folder | Kind::File);
        if wanted && !one.is_of_the_machine(root) && !list.contains(&one.folder) {
            list.push(one.folder.clone());
        }
        folders
            .entry((&one.folder, one.kind))
            .or_default()
            .push(one);
    }
    let whole = list.clone();
    list.retain(|folder| {
        !whole
            .iter()
            .any(|other| other != folder && folder.starts_with(other))
    });
    let list: Vec<String> = list
        .iter()
        .map(|folder| format!("\"{}\"", folder.display()))
        .collect();
    let line = format!("link_targets: [{}]", list.join(", "));
    let mut findings: Vec<Finding> = folders
        .values()
        .filter_map(|links| {
            let first = links.first()?;
            Some(refusal(site, root, first, links.len(), &line))
        })
        .collect();
    findings.sort_by_key(|finding| finding.severity);
    findings.truncate(MOST_NAMED);
    findings
}

fn refusal(site: Site<'_>, root: &Path, first: &Refused, count: usize, line: &str) -> Finding {
    let more = match count {
        1 => String::new(),
        _ => format!(" (and {} more into that folder)", count - 1),
    };
    let found = format!(
        "the link {} leads to {}{more} and is refused",
        first.link.display(),
        first.target.display()
    );
    match first.kind {
        Kind::Rules => {
            let found = format!("{found}: rules that cannot be read deny all below their folder");
            let line = format!(
                "cp --remove-destination {} {}",
                first.target.display(),
                first.link.display()
            );
            Finding::problem("links", found).put(SHELL, line)
        }
        Kind::Source => Finding::note("links", format!("{found}; PHP reads it by itself")),
        // A line that would open the machine is not offered.
        _ if first.is_of_the_machine(root) => {
            Finding::note("links", format!("{found}, as it should be: 403"))
        }
        Kind::Folder => Finding::problem("links", format!("{found}: what is below it is 403"))
            .put(site.place(), line),
        Kind::File => Finding::warning("links", format!("{found}: 403")).put(site.place(), line),
    }
}

fn counted(count: usize) -> String {
    match count {
        1 => "1 symbolic link leads".to_owned(),
        _ => format!("{count} symbolic links lead"),
    }
}

const MOST_NAMED: usize = 20;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

    use std::fs;
    use std::os::unix::fs::symlink;

    use super::super::finding::Severity;
    use super::*;
    use crate::clock::Clock;
    use crate::site::settings::{Preset, SiteSettings};

    #[test]
    fn a_refused_folder_comes_with_the_line_that_allows_it() {
        let folder = tempfile::tempdir().unwrap();
        let outside = folder.path().canonicalize().unwrap();
        let root = outside.join("root");
        fs::create_dir(&root).unwrap();
        fs::create_dir(outside.join("shared")).unwrap();
        fs::write(root.join("file"), "").unwrap();
        symlink(root.join("file"), root.join("inner")).unwrap();
        symlink(outside.join("shared"), root.join("outer")).unwrap();
        symlink("/etc", root.join("system")).unwrap();
        symlink("/nonexistent/x", root.join("nowhere")).unwrap();
        let settings = SiteSettings::new(root.clone(), Preset::Wordpress);
        let site = Site {
            index: 0,
            settings: &settings,
        };
        let survey = Survey::of(&root, &[], &Clock::system());
        let findings = examine(site, &root, &["/srv/more".into()], &survey);
        let severities: Vec<Severity> = findings.iter().map(|finding| finding.severity).collect();
        assert_eq!(
            severities,
            [Severity::Problem, Severity::Note, Severity::Note]
        );
        let line = findings[0].remedy.clone().unwrap().line;
        let expected = format!(
            "link_targets: [\"/srv/more\", \"{}/shared\"]",
            outside.display()
        );
        assert_eq!(line, expected);
        let adopted = examine(
            site,
            &root,
            &[outside.join("shared"), "/etc".into()],
            &survey,
        );
        assert_eq!(adopted[1].severity, Severity::Ok, "{adopted:?}");
    }

    #[test]
    fn rules_that_cannot_be_read_deny_and_php_reads_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let outside = folder.path().canonicalize().unwrap();
        let root = outside.join("root");
        fs::create_dir_all(root.join("lib")).unwrap();
        fs::create_dir(outside.join("php")).unwrap();
        for name in ["a.php", "b.php"] {
            fs::write(outside.join("php").join(name), "").unwrap();
            symlink(outside.join("php").join(name), root.join("lib").join(name)).unwrap();
        }
        fs::write(outside.join("rules"), "").unwrap();
        symlink(outside.join("rules"), root.join(".htaccess")).unwrap();
        let settings = SiteSettings::new(root.clone(), Preset::Wordpress);
        let site = Site {
            index: 0,
            settings: &settings,
        };
        let survey = Survey::of(&root, &[], &Clock::system());
        let mut findings = examine(site, &root, &[], &survey);
        findings.sort_by_key(|finding| finding.severity);
        let severities: Vec<Severity> = findings.iter().map(|finding| finding.severity).collect();
        assert_eq!(severities, [Severity::Problem, Severity::Note]);
        let line = findings[0].remedy.clone().unwrap().line;
        assert!(line.starts_with("cp --remove-destination"), "{line}");
        assert!(
            findings[1].found.contains("(and 1 more"),
            "{}",
            findings[1].found
        );
    }
}
