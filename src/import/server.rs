//! A `server` block as a site.

mod keys;
mod paths;

use crate::site::settings::Multisite;

use super::around::Around;
use super::auth;
use super::backend::{self, Backend};
use super::block::Block;
use super::choice::Choice;
use super::fate::Scheme;
use super::inherited::Inherited;
use super::listen::Reached;
use super::location::{Location, told};
use super::nginx::directives::Directive;
use super::note::Notes;
use super::page_cache::{Bypass, is_of_bypass};
use super::redirects;
use super::rewrites::{self, Meaning};
use super::rules::Rules;
use super::shared::Shared;
use super::try_files::{self, Last};
use super::yaml::Entry;

/// A site, as far as it is understood.
#[derive(Clone, Debug)]
pub struct Site {
    /// How it is reached.
    pub reached: Reached,
    /// Its keys, but for the hosts.
    pub keys: Vec<Entry>,
    /// What is said of it.
    pub notes: Notes,
    /// The block.
    pub directive: Directive,
    /// Names that are sent on: by this rule, these, by this scheme, to this host.
    pub sent: Vec<(Directive, Vec<String>, Scheme, String)>,
}

/// The root where none is known.
pub const ANY_ROOT: &str = "/var/www/html";

/// What is found out while a block is read.
struct Reading<'t, 's> {
    scope: Inherited,
    around: &'s Around<'t>,
    choice: Choice<'t>,
    notes: Notes,
    rules: Rules,
    bypass: Bypass,
    closed: Vec<(&'t Directive, Vec<String>)>,
    backend: Option<Backend>,
    /// Where the backend's cache is said.
    backend_scope: Option<(Inherited, &'static str)>,
    /// Whether it is the one of the location of all scripts.
    scripts_seen: bool,
    named: Vec<&'t Directive>,
    front_controller: bool,
    is_wordpress: bool,
    plugin_pages: bool,
    multisite: Multisite,
    max_body: Option<String>,
    /// Rules that may come before a redirect and are not taken over.
    passed: Vec<&'t Directive>,
    moved: Vec<paths::Move<'t>>,
    auth: Vec<auth::Rule>,
    /// Locations that nobody is asked for, and whether that is said.
    free: Vec<(&'t Directive, bool)>,
    /// Whether what says how long browsers keep to https is said by the address.
    hsts_is_said: bool,
}

/// Reads a block that serves something.
pub fn read<'t>(
    block: Block<'t>,
    http: &Inherited,
    bypass: &Bypass,
    around: &Around<'t>,
    shared: &mut Shared,
) -> Site {
    let server = block.directive;
    let reached = block.reached;
    let mut reading = Reading {
        scope: http.within(),
        around,
        choice: Choice::of(server),
        notes: block.notes,
        rules: Rules::default(),
        bypass: bypass.clone(),
        closed: Vec::new(),
        backend: None,
        backend_scope: None,
        scripts_seen: false,
        named: Vec::new(),
        front_controller: false,
        is_wordpress: is_wordpress(server),
        plugin_pages: false,
        multisite: Multisite::Off,
        max_body: None,
        passed: Vec::new(),
        moved: Vec::new(),
        auth: Vec::new(),
        free: Vec::new(),
        hsts_is_said: around.hsts.is_some() && reached.has_tls(),
    };
    let mut access = Vec::new();
    let mut later = Vec::new();
    for child in server.children() {
        match child.name.as_str() {
            _ if reading.scope.take(child) || shared.take(child) => {}
            "listen" | "server_name" => {}
            "allow" | "deny" | "auth_request" | "auth_jwt" => access.push(child),
            "limit_conn" if shared.connections(child, &around.zones) => {}
            "client_max_body_size" => reading.max_body = shared.body_size(child),
            "index" => index(child, &mut reading.notes),
            "location" if child.arg(0).starts_with('@') => reading.named.push(child),
            "location" | "rewrite" | "if" | "try_files" | "return" => later.push(child),
            name if is_of_bypass(name) => later.push(child),
            _ => told(child, "", &mut reading.notes),
        }
    }
    if access.is_empty() {
        access.clone_from(&around.access);
    }
    reading.guard_all(server, &access);
    let is_sent = |rule: &Directive| {
        let mut sent = block.sent.hosts.iter().map(|(rule, ..)| *rule);
        let to_https = block.sent.to_https;
        // Without an address for it the rule is never met.
        to_https.is_some_and(|(first, _)| std::ptr::eq(first, rule) && reached.has_tls())
            || sent.any(|first| std::ptr::eq(first, rule))
    };
    // What a block inherits is known once all of the outer one is read, and its own rules come before its locations.
    let (rules, others): (Vec<_>, Vec<_>) = later
        .into_iter()
        .partition(|child| !matches!(child.name.as_str(), "location" | "try_files"));
    for child in rules {
        if !is_sent(child) && !reading.moved_by(child, None) {
            reading.rule(child);
        }
    }
    for child in others {
        match child.name.as_str() {
            "location" => reading.location(child, None, shared),
            _ => reading.try_files(child, shared),
        }
    }
    let keys = reading.finish(server, &reached);
    Site {
        reached,
        keys,
        notes: reading.notes,
        directive: server.clone(),
        sent: block
            .sent
            .hosts
            .into_iter()
            .map(|(rule, names, scheme, to)| (rule.clone(), names, scheme, to))
            .collect(),
    }
}

impl<'t> Reading<'t, '_> {
    fn location(
        &mut self,
        block: &'t Directive,
        around: Option<&Location<'_>>,
        shared: &mut Shared,
    ) {
        let outer = around.map_or(&self.scope, |around| &around.scope).clone();
        let location = Location::read(block, &outer, around, &mut self.notes);
        let passed = self.passed.len();
        let outer_asks = auth::of(&outer, self.around) != auth::Asked::Nobody;
        if location.depth > 0
            && outer_asks
            && auth::of(&location.scope, self.around) == auth::Asked::Nobody
        {
            self.notes.left_out(block, "auth", paths::STILL_ASKED);
        }
        for rule in &location.rules {
            if !self.moved_by(rule, Some(&location)) {
                self.rule(rule);
            }
        }
        if let Some(size) = location.max_body {
            match self.max_body {
                None => self.max_body = shared.body_size(size),
                Some(_) => self
                    .notes
                    .left_out(size, "max_body", "one bound for all of a site"),
            }
        }
        let of_network =
            |tries: &Directive| tries.args.iter().any(|word| word.contains("ms-files.php"));
        if location.try_files.is_some_and(of_network) {
            self.multisite = Multisite::Subdirectory;
            return self.notes.idle(block);
        }
        if let Some(tries) = location.try_files {
            // Of other locations `=404` and the like are what Nostat does for files.
            if location.matcher.is_all() || try_files::reaches_further(tries) {
                self.try_files(tries, shared);
            }
        }
        self.judge(&location, shared);
        self.passed.truncate(passed);
        for inner in &location.inner {
            self.location(inner, Some(&location), shared);
        }
    }

    /// What a location is for.
    fn judge(&mut self, location: &Location<'t>, shared: &mut Shared) {
        let block = location.directive;
        if let Some(pass) = location.pass {
            self.pass(pass, location);
        }
        let guarded = location.guarded.or_else(|| self.asked(location));
        let closed = location.closed || guarded.is_some() || self.is_gone(location);
        if let Some(guard) = guarded {
            self.guarded(guard, location);
        }
        let is_open_but_for_some = location.matcher.is_all()
            && !location.closed
            && guarded.is_some_and(|d| d.name == "deny");
        if closed && !is_open_but_for_some {
            match &location.patterns {
                Some(patterns) => self.closed.push((block, patterns.clone())),
                None => {
                    let wider = redirects::beginning(location.matcher.text());
                    let said = match &wider {
                        Some(_) => {
                            "the expression has no pattern: all that begins so is closed until what it means is written into deny: […]"
                        }
                        None => "the expression has no pattern: write what it means into deny: […]",
                    };
                    self.notes.left_out(block, "deny", said);
                    self.closed
                        .extend(wider.map(|begin| (block, vec![format!("{begin}**")])));
                }
            }
        }
        if let Some(returned) = location.returns
            && !self.returned(returned, location)
        {
            self.told_of(returned);
        }
        for limit in &location.limits {
            shared.rate(limit, location, self.around, &mut self.notes);
        }
        if let Some(root) = location
            .scope
            .get("root")
            .filter(|_| location.scope.has_own("root"))
        {
            match self.scope.get("root") {
                Some(first) if first.arg(0) == root.arg(0) => {}
                None if location.matcher.is_all() || location.pass.is_some() => {
                    self.scope.take(root);
                }
                _ if location.matcher.text().contains("well-known") => {
                    self.notes.note(
                        root,
                        "",
                        "certificates are asked for by the server in front",
                    );
                }
                _ => told(root, "", &mut self.notes),
            }
        }
        let has_rules = location.scope.has_own("expires") || location.scope.has_own("add_header");
        match &location.patterns {
            Some(patterns) if has_rules && !closed => {
                let pages = location.pass.is_some() || location.matcher.is_all();
                // Fields of scripts' answers are no rule for files.
                let patterns = match location.pass {
                    Some(_) if !location.matcher.is_all() => &[],
                    _ => patterns.as_slice(),
                };
                self.rules
                    .take(&location.scope, patterns, pages, &mut self.notes);
            }
            None if has_rules => {
                self.notes.left_out(block, "cache_control", "the expression has no pattern: write cache_control and headers for what it means");
            }
            _ => {}
        }
    }

    /// Says that a path is not open to some only. It is closed rather than open to all.
    fn guarded(&mut self, guard: &Directive, location: &Location<'_>) {
        let said = match location.matcher.is_all() {
            true if guard.name == "deny" => ADDRESSES,
            true => SITE_CLOSED,
            false if guard.name == "auth_basic" => {
                "auth needs a pattern for all that is meant, and a users_file outside of every root with an absolute path: closed to all until then"
            }
            false => {
                "addresses are not told apart: closed to all until this path is kept in the server in front"
            }
        };
        self.notes.left_out(guard, "deny", said);
    }

    fn pass(&mut self, pass: &Directive, location: &Location<'_>) {
        let whole = location.matcher.is_all()
            || matches!(
                location.matcher,
                super::matcher::Matcher::Named(_) | super::matcher::Matcher::Regex(_)
            )
            || location.matcher.text().ends_with(".php");
        let is_php = pass.name == "fastcgi_pass";
        if !whole {
            return self.notes.left_out(
                pass,
                "",
                "one backend answers for a site: keep this path in the server in front",
            );
        }
        let scope = &location.scope;
        let mut own = Notes::default();
        let found = match is_php {
            true => backend::php(pass, scope, &self.around.upstreams, &mut own),
            false => backend::origin(pass, scope, &self.around.upstreams, &mut own),
        };
        let module = if is_php { "fastcgi" } else { "proxy" };
        let same = |first: &Backend| (first.key, &first.address) == (found.key, &found.address);
        // The location of all scripts says more than that of one, wherever it stands.
        let counts = match &self.backend {
            None => true,
            Some(first) => same(first) && location.matcher.is_php() && !self.scripts_seen,
        };
        if counts {
            self.notes.list.extend(own.list);
            self.notes.idle.append(&mut own.idle);
            self.backend = Some(found);
            self.backend_scope = Some((scope.clone(), module));
            self.scripts_seen = location.matcher.is_php();
        } else if !self.backend.as_ref().is_some_and(same) {
            let said = "one backend answers for a site, and the first was taken: keep this path in the server in front";
            self.notes.left_out(pass, "", said);
        }
    }

    fn try_files(&mut self, tries: &'t Directive, shared: &mut Shared) {
        let read = try_files::read(tries, &mut self.notes);
        self.plugin_pages |= read.plugin_pages;
        match read.last {
            Last::FrontController => self.front_controller = true,
            Last::Named(name) => match self.named.iter().find(|block| block.arg(0) == name) {
                Some(block) => {
                    let block = *block;
                    self.location(block, None, shared);
                    // A script that is asked for each missing path; an origin is asked anyway.
                    let is_php = |backend: &Backend| backend.key == "php";
                    self.front_controller |= self.backend.as_ref().is_some_and(is_php);
                }
                None => self
                    .notes
                    .left_out(tries, "", "the named location is not there"),
            },
            Last::Nothing => {}
        }
    }

    fn rule(&mut self, rule: &'t Directive) {
        if self.bypass.take(rule, &mut self.notes) {
            return;
        }
        self.passed.push(rule);
        if rule.name == "if" && rule.args.iter().any(|word| word.contains("$ssl_client_")) {
            self.closed.push((rule, vec!["/".to_owned()]));
            let said = "certificates of clients are asked for at an address (client_ca): the site is closed to all until then";
            return self.notes.left_out(rule, "deny", said);
        }
        match rewrites::meaning(rule) {
            Meaning::FrontController => self.front_controller = true,
            Meaning::Multisite => self.multisite = Multisite::Subdirectory,
            Meaning::Preset => self.notes.idle(rule),
            Meaning::Note(said) => self.notes.note(rule, "", said),
            Meaning::LeftOut(said) => self.notes.left_out(rule, "", said),
        }
    }
}

const ADDRESSES: &str =
    "addresses are not told apart, and the site is open to all: keep it in the server in front";
const SITE_CLOSED: &str = "the site is closed to all (deny) until somebody decides: who may have it is not told by address, nor by another server; auth needs a \
                           users_file outside of every root with an absolute path";

/// Whether a path of WordPress, or a folder that is named after it, stands anywhere in the block.
fn is_wordpress(block: &Directive) -> bool {
    let says = |word: &String| word.contains("wp-") || word.contains("wordpress");
    let of_path =
        block.name != "server_name" && block.name != "fastcgi_pass" && block.name != "access_log";
    (of_path && block.args.iter().any(says)) || block.children().iter().any(is_wordpress)
}

fn index(directive: &Directive, notes: &mut Notes) {
    let usual = |name: &String| {
        matches!(name.as_str(), "index.php" | "index.html" | "index.htm")
            || name.starts_with("index.nginx")
    };
    match directive.args.iter().all(usual) {
        true => notes.idle(directive),
        false => notes.left_out(
            directive,
            "",
            "the index of a folder is index.php, else index.html",
        ),
    }
}
