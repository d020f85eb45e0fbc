//! All findings, for a terminal or as JSON, and the exit status they amount to.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::compare::Comparison;
use super::finding::{Finding, Severity};

/// What an examination found, the worst first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    findings: Vec<Finding>,
    comparison: Option<Comparison>,
}

impl Report {
    /// Puts the worst first; what is equally bad stays in the order of the checks.
    #[must_use]
    pub fn new(mut findings: Vec<Finding>, comparison: Option<Comparison>) -> Self {
        findings.sort_by_key(|finding| finding.severity);
        Report {
            findings,
            comparison,
        }
    }

    /// The findings, the worst first.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Whether something will hurt.
    #[must_use]
    pub fn has_problem(&self) -> bool {
        self.count(Severity::Problem) > 0
    }

    /// For a terminal; with colours when it `is_coloured`.
    #[must_use]
    pub fn text(&self, is_coloured: bool) -> String {
        let mut text = String::new();
        for finding in &self.findings {
            let (before, after) = match (is_coloured, finding.severity) {
                (false, _) | (true, Severity::Note) => ("", ""),
                (true, Severity::Problem) => ("\x1b[1;31m", "\x1b[0m"),
                (true, Severity::Warning) => ("\x1b[33m", "\x1b[0m"),
                (true, Severity::Ok) => ("\x1b[32m", "\x1b[0m"),
            };
            let site = match &finding.site {
                Some(site) => format!("{site}: "),
                None => String::new(),
            };
            let severity = finding.severity;
            let _ = writeln!(
                text,
                "{before}{severity:<8}{after} {site}{}",
                printable(&finding.found)
            );
            if let Some(remedy) = &finding.remedy {
                let _ = writeln!(text, "{INDENT}in {}:", printable(&remedy.place));
                for line in remedy.line.lines() {
                    let _ = writeln!(text, "{INDENT}    {}", printable(line));
                }
            }
        }
        if let Some(comparison) = &self.comparison {
            text.push('\n');
            text.push_str(&comparison.table());
        }
        let _ = writeln!(
            text,
            "\n{}, {}, {}, {} ok",
            counted(self.count(Severity::Problem), "problem"),
            counted(self.count(Severity::Warning), "warning"),
            counted(self.count(Severity::Note), "note"),
            self.count(Severity::Ok)
        );
        text
    }

    /// As JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        let findings: Vec<Value> = self.findings.iter().map(object).collect();
        let mut whole = json!({
            "problems": self.count(Severity::Problem),
            "warnings": self.count(Severity::Warning),
            "notes": self.count(Severity::Note),
            "ok": self.count(Severity::Ok),
            "findings": findings,
        });
        if let (Some(whole), Some(comparison)) = (whole.as_object_mut(), &self.comparison) {
            whole.insert("comparison".to_owned(), comparison.json());
        }
        whole
    }

    fn count(&self, severity: Severity) -> usize {
        let same = |finding: &&Finding| finding.severity == severity;
        self.findings.iter().filter(same).count()
    }
}

fn object(finding: &Finding) -> Value {
    json!({
        "severity": finding.severity.as_str(),
        "check": finding.check,
        "site": finding.site,
        "found": finding.found,
        "place": finding.remedy.as_ref().map(|remedy| &remedy.place),
        "line": finding.remedy.as_ref().map(|remedy| &remedy.line),
    })
}

/// Names of files come from anywhere: none of them may give orders to a terminal.
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|character| match character.is_control() {
            true => '\u{FFFD}',
            false => character,
        })
        .collect()
}

fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

/// As wide as the longest severity and the blank after it.
const INDENT: &str = "         ";

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        Report::new(
            vec![
                Finding::ok("kernel", "fine"),
                Finding::problem("php", "does not answer\x1b[2J")
                    .of("example.com")
                    .put("a shell", "systemctl start php8.2-fpm"),
                Finding::note("calls", "fstat 250 ns"),
            ],
            None,
        )
    }

    #[test]
    fn the_worst_comes_first_with_its_line() {
        let expected = "\
problem  example.com: does not answer\u{FFFD}[2J
         in a shell:
             systemctl start php8.2-fpm
note     fstat 250 ns
ok       fine

1 problem, 0 warnings, 1 note, 1 ok
";
        assert_eq!(report().text(false), expected);
        assert!(report().has_problem());
        assert!(report().text(true).starts_with("\x1b[1;31mproblem "));
    }

    #[test]
    fn json_says_the_same() {
        let json = report().json();
        assert_eq!(json["problems"], 1);
        assert_eq!(json["findings"][0]["line"], "systemctl start php8.2-fpm");
        assert_eq!(json["findings"][2]["site"], Value::Null);
    }
}
