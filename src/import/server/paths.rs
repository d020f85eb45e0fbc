//! Paths of a site that are sent on, asked for, or closed.

use crate::import::auth::{self, Asked};
use crate::import::choice::{ignores_case, rank};
use crate::import::location::{Location, told};
use crate::import::matcher::Matcher;
use crate::import::nginx::directives::Directive;
use crate::import::redirects::{self, Meant, Row};
use crate::import::rewrites::NOT_THE_SAME;
use crate::import::yaml::{Value, is_text};
use crate::request::pattern::Pattern;

use super::{ADDRESSES, Reading, SITE_CLOSED};

/// Rows of `redirects` that one rule amounts to.
#[derive(Clone, Debug)]
pub(super) struct Move<'t> {
    /// Where nginx looks at it: sooner is smaller.
    rank: (u8, usize),
    rows: Vec<Row>,
    rule: &'t Directive,
}

impl<'t> Reading<'t, '_> {
    /// Takes a `rewrite` that sends on; false: it is none, or not the same here.
    pub(super) fn moved_by(
        &mut self,
        rule: &'t Directive,
        location: Option<&Location<'t>>,
    ) -> bool {
        if rule.name != "rewrite" {
            return false;
        }
        let Some((meant, row)) = redirects::of_rewrite(rule) else {
            return false;
        };
        let fits = location.is_none_or(|location| self.is_of(&meant, location));
        fits && self.moved(rule, location, &meant, row)
    }

    /// Takes a `return` of a location that sends on.
    pub(super) fn returned(&mut self, rule: &'t Directive, location: &Location<'t>) -> bool {
        let meant = match &location.matcher {
            Matcher::Exact(path) => redirects::one_path(path),
            Matcher::Prefix(path) => redirects::all_below(path),
            Matcher::Regex(text) if !ignores_case(location.directive) => redirects::meant(text),
            _ => None,
        };
        let Some(meant) = meant else { return false };
        let Some(row) = redirects::of_return(rule, &meant) else {
            return false;
        };
        let fits = match &location.matcher {
            Matcher::Exact(path) => self.choice.takes(path, location.directive),
            _ => self.is_of(&meant, location),
        };
        fits && location.depth == 0 && self.moved(rule, Some(location), &meant, row)
    }

    /// Whether nginx takes this location for all that is meant.
    fn is_of(&self, meant: &Meant, location: &Location<'_>) -> bool {
        let block = location.directive;
        location.depth == 0
            && match meant {
                Meant::Path(path, with_slash) => {
                    self.choice.takes(path, block)
                        && (!with_slash || self.choice.takes(&format!("{path}/"), block))
                }
                Meant::Begins(begin, _) => self.choice.takes_all(begin, block),
            }
    }

    fn moved(
        &mut self,
        rule: &'t Directive,
        location: Option<&Location<'t>>,
        meant: &Meant,
        row: Row,
    ) -> bool {
        if self.passed.iter().any(|earlier| concerns(earlier, meant)) {
            return false;
        }
        let bare = row.from.trim_end_matches('/').to_owned();
        let is_own_elsewhere = |path: &str| {
            self.choice.exact(path).is_some_and(|other| {
                !location.is_some_and(|own| std::ptr::eq(own.directive, other))
            })
        };
        // What is meant beside it here may be somebody else's there.
        if row.is_wider
            && location
                .is_some_and(|_| is_own_elsewhere(&bare) || is_own_elsewhere(&format!("{bare}/")))
        {
            return false;
        }
        if row.is_wider {
            let said = "a path is sent on with and without a slash at its end";
            self.notes.note(rule, "redirects", said);
        }
        let order = self.moved.len();
        self.moved.push(Move {
            rank: location.map_or((0, order), |location| rank(location.directive, order)),
            rows: vec![row],
            rule,
        });
        true
    }

    /// Takes `return 410`; true: it has to be closed instead.
    pub(super) fn is_gone(&mut self, location: &Location<'t>) -> bool {
        let Some(rule) = location.gone else {
            return false;
        };
        // Of a script, or the page of a folder, what is found counts too: deny does that.
        let is_page = |pattern: &String| {
            pattern.contains(".ph")
                || pattern.contains("index")
                || Pattern::parse(pattern).is_err()
                || !pattern.chars().all(is_text)
        };
        let patterns = match &location.patterns {
            Some(patterns) if !patterns.iter().any(is_page) && !location.matcher.is_all() => {
                patterns
            }
            _ => return true,
        };
        let row = |pattern: &String| Row {
            from: pattern.clone(),
            to: None,
            status: 410,
            is_wider: false,
        };
        let order = self.moved.len();
        self.moved.push(Move {
            rank: rank(location.directive, order),
            rows: patterns.iter().map(row).collect(),
            rule,
        });
        false
    }

    /// The rows of `redirects`, in their order.
    pub(super) fn redirects(&mut self) -> Vec<Vec<(String, Value)>> {
        let mut moved = std::mem::take(&mut self.moved);
        moved.sort_by_key(|one| one.rank);
        let mut rows: Vec<(Row, &Directive)> = Vec::new();
        for one in &moved {
            rows.extend(one.rows.iter().map(|row| (row.clone(), one.rule)));
        }
        let names: Vec<String> = self.around.names.iter().cloned().collect();
        loop {
            let bare: Vec<Row> = rows.iter().map(|(row, _)| row.clone()).collect();
            let back = redirects::leading_back(&bare, &names);
            if back.is_empty() {
                break;
            }
            for index in back.into_iter().rev() {
                let (_, rule) = rows.remove(index);
                let said = "leads back to where it comes from, as a path is the same with and without a slash at its end here";
                self.notes.left_out(rule, "redirects", said);
            }
        }
        rows.iter().map(|(row, _)| row.entry()).collect()
    }

    /// Takes what a location asks for; a directive: it cannot be said, so the path has to be closed.
    pub(super) fn asked<'l>(&mut self, location: &'l Location<'t>) -> Option<&'l Directive> {
        let scope = &location.scope;
        let own = ["auth_basic", "auth_basic_user_file", "satisfy"]
            .iter()
            .any(|name| scope.has_own(name));
        let asked = auth::of(scope, self.around);
        let is_named = matches!(location.matcher, Matcher::Named(_));
        if asked == Asked::Nobody {
            if location.depth == 0 && !is_named && !location.closed {
                self.free.push((location.directive, own));
            }
            return None;
        }
        if !own || location.closed {
            return None;
        }
        let patterns = match location.matcher.is_all() {
            true => Some(vec!["/".to_owned()]),
            false => auth::covering(location.directive, location.patterns.as_ref()),
        };
        match (asked, patterns.filter(|_| !location.is_within_expression)) {
            (Asked::Users(file, realm), Some(patterns)) => {
                let order = self.auth.len();
                self.auth.push(auth::Rule {
                    rank: match location.depth {
                        0 => rank(location.directive, order),
                        _ => (0, 0),
                    },
                    depth: location.depth,
                    patterns,
                    users: Some((file, realm)),
                });
                None
            }
            _ => scope.get("auth_basic"),
        }
    }

    /// Takes what stands in the block itself: it guards all of the site.
    pub(super) fn guard_all(&mut self, server: &'t Directive, access: &[&'t Directive]) {
        let mut closes: Option<Directive> = None;
        match auth::of(&self.scope, self.around) {
            Asked::Nobody => {}
            Asked::Users(file, realm) => self.auth.push(auth::Rule {
                rank: (u8::MAX, 0),
                depth: 0,
                patterns: vec!["/".to_owned()],
                users: Some((file, realm)),
            }),
            Asked::Otherwise => closes = self.scope.get("auth_basic").cloned(),
        }
        let denies_all = access.iter().any(|d| d.name == "deny" && d.arg(0) == "all");
        for directive in access {
            match directive.name.as_str() {
                "deny" if directive.arg(0) == "all" => closes = Some((*directive).clone()),
                "deny" if !denies_all => self.notes.left_out(directive, "deny", ADDRESSES),
                "allow" | "deny" => self.notes.idle(directive),
                _ if directive.arg(0) == "off" => self.notes.idle(directive),
                _ => closes = Some((*directive).clone()),
            }
        }
        if let Some(directive) = closes {
            self.closed.push((server, vec!["/".to_owned()]));
            self.notes.left_out(&directive, "deny", SITE_CLOSED);
        }
    }

    /// The rows of `auth`, in their order.
    pub(super) fn auth_rows(&mut self, server: &Directive) -> Vec<Vec<(String, Value)>> {
        let mut rules = std::mem::take(&mut self.auth);
        let whole = rules.iter().find(|rule| rule.patterns == ["/"]);
        let is_origin = self
            .backend
            .as_ref()
            .is_some_and(|backend| backend.key == "origin");
        if let Some(whole) = whole {
            let all_ask = whole.rank.0 == u8::MAX;
            let asks = |other: &Directive| {
                let mut own = other.children().iter().filter(|d| d.name == "auth_basic");
                own.next_back().map_or(all_ask, |own| own.arg(0) != "off")
            };
            for (location, is_said) in std::mem::take(&mut self.free) {
                let is_exact = matches!(Matcher::parse(&location.args), Matcher::Exact(_));
                let freed = auth::freed(location, &self.choice, asks)
                    // An origin may have another page for a path with a slash at its end.
                    .filter(|_| !(is_exact && is_origin));
                match freed {
                    Some(pattern) => rules.push(auth::Rule {
                        rank: rank(location, rules.len()),
                        depth: 0,
                        patterns: vec![pattern],
                        users: None,
                    }),
                    None if is_said => self.notes.left_out(location, "auth", STILL_ASKED),
                    None => {}
                }
            }
        }
        let realm = rules
            .iter()
            .filter_map(|rule| rule.users.as_ref())
            .find(|(_, realm)| !auth::is_realm(realm));
        if realm.is_some() {
            let said = "a realm is ASCII, 100 characters at most: Restricted instead";
            self.notes.note(server, "auth", said);
        }
        auth::rows(rules)
    }

    /// What is said of a `return` that sends nothing on.
    pub(super) fn told_of(&mut self, rule: &Directive) {
        match rule.arg(0).starts_with('3') || rule.arg(0).contains("://") {
            true => self.notes.left_out(rule, "redirects", NOT_THE_SAME),
            false => told(rule, "", &mut self.notes),
        }
    }
}

/// Of a location that frees what is below another one.
pub(super) const STILL_ASKED: &str = "a password is asked for there, too, as another location may have some of its paths: users_file: off frees a pattern";

/// Whether a rule that is not taken over may change what comes to a later one, or send it elsewhere.
fn concerns(earlier: &Directive, meant: &Meant) -> bool {
    match earlier.name.as_str() {
        "rewrite" => redirects::may_concern(earlier, meant),
        "if" => earlier
            .children()
            .iter()
            .any(|inner| match inner.name.as_str() {
                "rewrite" => redirects::may_concern(inner, meant),
                "return" => inner.arg(0).starts_with('3') || inner.arg(0).contains("://"),
                _ => false,
            }),
        _ => false,
    }
}
