//! The keys of a site, once all of its block is read.

use crate::import::backend::Backend;
use crate::import::closed;
use crate::import::compression;
use crate::import::listen::Reached;
use crate::import::nginx::directives::Directive;
use crate::import::rules::Rules;
use crate::import::yaml::{self, Entry, Value};
use crate::settings::rules::field_name;
use crate::site::settings::{Multisite, Preset};

use super::{ANY_ROOT, Reading};

impl Reading<'_, '_> {
    /// The keys of the site.
    pub(super) fn finish(&mut self, server: &Directive, reached: &Reached) -> Vec<Entry> {
        let preset = self.preset(server);
        let mut keys = vec![Entry::new("root", Value::Text(self.root(server)))];
        match preset {
            Preset::Wordpress => {}
            Preset::Php => keys.push(Entry::new("preset", Value::Word("php".to_owned()))),
            Preset::Static => keys.push(Entry::new("preset", Value::Word("static".to_owned()))),
        }
        keys.extend(self.backend.as_ref().map(Backend::entry));
        let redirects = self.redirects();
        let auth = self.auth_rows(server);
        let patterns: Vec<String> = self
            .closed
            .iter()
            .flat_map(|(_, patterns)| patterns.clone())
            .collect();
        let deny = closed::beyond_preset(&patterns, preset, self.multisite);
        if !redirects.is_empty() {
            keys.push(Entry::new("redirects", Value::Flows(redirects)));
        }
        if !auth.is_empty() {
            keys.push(Entry::new("auth", Value::Flows(auth)));
        }
        if !deny.is_empty() {
            keys.push(Entry::new("deny", Value::Texts(deny)));
        }
        if preset == Preset::Wordpress && self.multisite == Multisite::Subdirectory {
            keys.push(Entry::new(
                "multisite",
                Value::Word("subdirectory".to_owned()),
            ));
        } else if preset == Preset::Wordpress
            && reached.hosts.iter().any(|host| host.starts_with("*."))
        {
            self.notes.note(
                server,
                "hosts",
                "if this is a network with a site for each of these hosts: multisite: subdomain",
            );
        }
        // The server's own rules count where no location has one.
        let mut of_all = Rules::default();
        std::mem::swap(&mut of_all, &mut self.rules);
        let scope = match self.hsts_is_said {
            true => self.scope.counted().without_hsts(),
            false => self.scope.counted(),
        };
        of_all.take(
            &scope,
            &["/".to_owned()],
            self.backend.is_some(),
            &mut self.notes,
        );
        for (key, rows) in [
            ("cache_control", of_all.cache_control()),
            ("headers", of_all.headers()),
        ] {
            if !rows.is_empty() {
                keys.push(Entry::new(key, Value::Flows(rows)));
            }
        }
        let cached = self.backend_scope.take();
        let own =
            cached.and_then(|(scope, module)| self.bypass.entry(&scope, module, &mut self.notes));
        match own {
            Some(own) => keys.push(own),
            None if self.plugin_pages && preset == Preset::Wordpress => {
                keys.push(Entry::new("page_cache", Value::Word("auto".to_owned())));
            }
            None => {}
        }
        keys.extend(compression::entries(&self.scope, &mut self.notes));
        if let Some(size) = &self.max_body {
            keys.push(Entry::new("max_body", Value::Word(size.clone())));
        }
        let client = self.scope.get("real_ip_header").cloned();
        match client.as_ref().map(|header| (header, header.arg(0))) {
            Some((_, name)) if name.eq_ignore_ascii_case("X-Forwarded-For") => {}
            // The address says it.
            Some((header, "proxy_protocol")) => self.notes.idle(header),
            Some((_, name)) if field_name(name).is_ok() => {
                keys.push(Entry::new("client_ip_header", Value::Text(name.to_owned())));
            }
            _ => {}
        }
        self.scope.unused(&mut self.notes);
        keys
    }

    fn preset(&mut self, server: &Directive) -> Preset {
        match &self.backend {
            None => {
                if self.front_controller {
                    self.notes.left_out(server, "preset", "pages are for /index.php, and no fastcgi_pass says where PHP is: add php:, and leave out preset");
                }
                Preset::Static
            }
            Some(_) if self.is_wordpress => Preset::Wordpress,
            Some(_) if self.front_controller => {
                self.notes.note(server, "", "taken for a WordPress, as missing paths go to /index.php; for another application: preset: php");
                Preset::Wordpress
            }
            Some(backend) => {
                if backend.key == "origin" {
                    self.notes.note(server, "preset", "for a WordPress leave this out: its private files and uploads are then looked after");
                }
                Preset::Php
            }
        }
    }

    fn root(&mut self, server: &Directive) -> String {
        let root = self.scope.get("root").cloned();
        let path = root.as_ref().map(|root| self.scope.expanded(root.arg(0)));
        let usable = |path: &String| {
            path.starts_with('/')
                && !path.trim_end_matches('/').is_empty()
                && !path.contains('$')
                && path.chars().all(yaml::is_text)
        };
        match path.filter(usable) {
            Some(path) => path.trim_end_matches('/').to_owned(),
            None => {
                let at = root.as_ref().unwrap_or(server);
                self.notes.left_out(
                    at,
                    "root",
                    "a site needs the absolute path of its files: put it here",
                );
                ANY_ROOT.to_owned()
            }
        }
    }
}
