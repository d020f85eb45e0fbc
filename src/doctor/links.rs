//! Symbolic links that lead out of a root and are refused.

use std::path::{Path, PathBuf};

use super::finding::Finding;
use super::survey::Survey;
use super::{Site, machine};
use crate::descriptor_cache::Symlinks;
use crate::descriptor_cache::links::is_system;

/// Judges the links that the walk has met against what the server adopts.
#[must_use]
pub fn examine(site: Site<'_>, root: &Path, targets: &[PathBuf], survey: &Survey) -> Vec<Finding> {
    let symlinks = site.settings.links.symlinks;
    let mut refused: Vec<(PathBuf, PathBuf, bool)> = Vec::new();
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
            let is_folder = machine::facts(&target).is_some_and(|facts| facts.is_directory);
            refused.push((link.clone(), target, is_folder));
        }
    }
    let mut findings: Vec<Finding> = refused
        .iter()
        .take(MOST_NAMED)
        .map(|(link, target, is_folder)| {
            refusal(site, (root, targets), symlinks, link, target, *is_folder)
        })
        .collect();
    if refused.len() > MOST_NAMED {
        let found = format!("{} more links are refused", refused.len() - MOST_NAMED);
        findings.push(Finding::warning("links", found));
    }
    if nowhere > 0 {
        let found = format!("{nowhere} links lead to nothing that can be seen: 404");
        findings.push(Finding::note("links", found));
    }
    if refused.is_empty() && !survey.links.is_empty() {
        let followed = survey.links.len() - nowhere;
        findings.push(Finding::ok(
            "links",
            format!("{followed} symbolic links are followed"),
        ));
    }
    findings
        .into_iter()
        .map(|finding| finding.of(&site.name()))
        .collect()
}

fn refusal(
    site: Site<'_>,
    (root, targets): (&Path, &[PathBuf]),
    symlinks: Symlinks,
    link: &Path,
    target: &Path,
    is_folder: bool,
) -> Finding {
    let what = match is_folder {
        true => "what is below it",
        false => "it",
    };
    let found = format!(
        "the link {} leads to {} and is refused: {what} is 403",
        link.display(),
        target.display()
    );
    if symlinks == Symlinks::Off {
        return Finding::warning("links", found).put(site.place(), "symlinks: beneath");
    }
    let folder = match is_folder {
        true => target,
        false => target.parent().unwrap_or(target),
    };
    // A line that would open the machine is not offered.
    if folder.parent().is_none() || is_system(folder) || root.starts_with(folder) {
        let found = format!("{found}, as it should be");
        return Finding::note("links", found);
    }
    // A list takes the place of what is adopted by itself.
    let mut all: Vec<String> = targets
        .iter()
        .map(|target| format!("\"{}\"", target.display()))
        .collect();
    all.push(format!("\"{}\"", folder.display()));
    let line = format!("link_targets: [{}]", all.join(", "));
    match is_folder {
        true => Finding::problem("links", found),
        false => Finding::warning("links", found),
    }
    .put(site.place(), line)
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
}
