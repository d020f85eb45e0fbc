//! `nostat import`: an nginx configuration in, a settings file out, with all that it does not say.
//!
//! The way of a file: [`nginx`] reads it with what it includes into a tree; [`shared`] takes what all sites share, [`block`] sees
//! how each block is reached and whether it serves ([`fate`]); [`server`] makes a site of each that does; [`sites`] joins
//! blocks that are one site, [`doors`] makes one list of all addresses, and [`strict`] keeps closed what was; [`yaml`] writes. Values go down as nginx hands them down ([`inherited`]). Every directive ends in one of four ways: it is a
//! key, it needs nothing, it is noted (done in another way), or it is left out, and then a sentence of [`advice`] says
//! what to do. What is left out stands as a comment where it belongs.
//!
//! The reader is our own. Of the crates, `nginx-config` knows a list of directives from years ago and reads nothing
//! else, and `nginx-lint-parser`, alive, is a linter's: UTF-8 only, a lossless tree beside a second one, and words that
//! nginx itself would refuse. The rules of nginx's reader are a page ([`nginx::tokens`]).

pub mod advice;
pub mod around;
pub mod auth;
pub mod backend;
pub mod block;
pub mod choice;
pub mod closed;
pub mod compression;
pub mod doors;
pub mod fate;
pub mod inherited;
pub mod listen;
pub mod location;
pub mod matcher;
pub mod nginx;
pub mod note;
pub mod others;
pub mod page_cache;
pub mod redirects;
pub mod rewrites;
pub mod rules;
pub mod server;
pub mod shared;
pub mod sites;
pub mod strict;
pub mod tls;
pub mod try_files;
pub mod values;
pub mod yaml;

use std::fmt::Write as _;
use std::path::Path;

use crate::settings::{self, Checks, Mistake};

use around::Around;
use block::Block;
use inherited::Inherited;
use nginx::directives::Directive;
use nginx::{Place, Unreadable, files};
use note::{Note, Weight};
use page_cache::Bypass;
use shared::Shared;

/// What was made of a configuration.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The settings file.
    pub yaml: String,
    /// What it does not say, and what is done in another way.
    pub notes: Vec<Note>,
    /// Names of directives that need nothing.
    pub idle: Vec<String>,
    /// What the settings' own reader says of the file; empty, or a fault of this room.
    pub refused: Vec<Mistake>,
}

impl Imported {
    /// Whether something that matters was left out.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        !self.refused.is_empty() || self.notes.iter().any(|note| note.weight == Weight::LeftOut)
    }

    /// What is told beside the file.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut text = String::new();
        let of = |weight| self.notes.iter().filter(move |note| note.weight == weight);
        for note in of(Weight::LeftOut).chain(of(Weight::Note)) {
            let _ = writeln!(text, "{note}");
        }
        for mistake in &self.refused {
            let _ = writeln!(text, "left out: the file is not taken as it is: {mistake}");
        }
        if !self.idle.is_empty() {
            let _ = writeln!(text, "needs nothing: {}", self.idle.join(", "));
        }
        let _ = write!(
            text,
            "{} left out, {} noted",
            of(Weight::LeftOut).count(),
            of(Weight::Note).count()
        );
        text
    }
}

/// Reads `file` and what it includes; with `site`, only the site of this host or root.
///
/// # Errors
/// A file that cannot be read or parsed, or in which nothing is served.
pub fn import(file: &Path, site: Option<&str>) -> Result<Imported, Unreadable> {
    let tree = files::read(file)?;
    of_tree(&tree, site).ok_or_else(|| Unreadable {
        place: Place {
            file: file.to_string_lossy().into(),
            line: 0,
        },
        reason: match site {
            Some(site) => format!("no server block that serves {site:?}"),
            None => "no server block that serves files, PHP or an origin".to_owned(),
        },
    })
}

/// What a tree means.
#[must_use]
pub fn of_tree(tree: &[Directive], site: Option<&str>) -> Option<Imported> {
    let mut shared = Shared::default();
    let mut http = Inherited::default();
    let mut bypass = Bypass::default();
    let mut around = Around::of(tree);
    let mut servers = Vec::new();
    // A site's own file has no `http` around its blocks.
    let outer = tree
        .iter()
        .flat_map(|directive| match directive.name.as_str() {
            "http" => directive.children(),
            _ => std::slice::from_ref(directive),
        });
    for directive in outer {
        match directive.name.as_str() {
            "server" => servers.push(directive),
            "upstream" => {}
            "allow" | "deny" | "auth_request" | "auth_jwt" => around.access.push(directive),
            "limit_conn" if shared.connections(directive, &around.zones) => {}
            "client_max_body_size" => shared.max_body(directive),
            _ if http.take(directive) || shared.take(directive) => {}
            _ if bypass.take(directive, &mut shared.notes) => {}
            "map" if is_done_here(directive) => shared.notes.idle(directive),
            _ => location::told(directive, "", &mut shared.notes),
        }
    }
    http.unused(&mut shared.notes);
    let (serving, others): (Vec<_>, Vec<_>) = servers.into_iter().partition(|block| serves(block));
    let serving: Vec<_> = serving
        .into_iter()
        .map(|block| Block::read(block, &http, true))
        .collect();
    around.hsts = same_hsts(&serving);
    let found = serving
        .into_iter()
        .map(|block| server::read(block, &http, &bypass, &around, &mut shared))
        .collect();
    let others = others
        .into_iter()
        .map(|block| Block::read(block, &http, false))
        .collect();
    let (entries, notes, idle) = sites::joined(found, others, &around, shared, site)?;
    let yaml = format!("{HEAD}{}", yaml::write(&entries));
    let refused = settings::parse("nostat.yaml", yaml.as_bytes(), Checks::TextOnly).err();
    Some(Imported {
        yaml,
        notes,
        idle,
        refused: refused.unwrap_or_default(),
    })
}

/// Whether a block serves anything, and not only redirects or refuses.
fn serves(block: &Directive) -> bool {
    fn any(block: &Directive, names: &[&str]) -> bool {
        let mut children = block.children().iter();
        children.any(|d| {
            names.contains(&d.name.as_str())
                || (d.name == "location"
                    && !d.arg(d.args.len().saturating_sub(1)).contains("well-known")
                    && any(d, names))
        })
    }
    let returns = block.children().iter().any(|d| {
        d.name == "return"
            || (d.name == "rewrite" && d.arg(1).contains("://") && fate::means_all(d.arg(0)))
    });
    let moves_all = block.children().iter().any(|d| {
        d.name == "location"
            && d.arg(0) == "/"
            && d.children().iter().any(|inner| inner.name == "return")
    });
    let answers = any(block, &["fastcgi_pass", "proxy_pass", "try_files"]);
    !returns && (answers || (!moves_all && any(block, &["root", "index"])))
}

/// What all blocks with TLS say of how long browsers keep to https, if it is one lifetime and nothing else.
fn same_hsts(serving: &[Block<'_>]) -> Option<u64> {
    let mut said = serving
        .iter()
        .filter(|block| block.reached.has_tls())
        .map(|block| block.hsts);
    let first = said.next()??;
    said.all(|other| other == Some(first)).then_some(first)
}

/// Variables for WebSocket, for what the server in front says of the scheme, and for the files of networks.
fn is_done_here(map: &Directive) -> bool {
    let of_network = ["upgrade", "blogid", "blogname", "blog_id"];
    map.arg(0).contains("x_forwarded") || of_network.iter().any(|word| map.arg(1).contains(word))
}

const HEAD: &str = "\
# Made by nostat import. What was left out stands as a comment where it belongs; nostat check --config FILE checks it.
";

#[cfg(test)]
mod tests;
