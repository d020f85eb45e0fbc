//! A `server` block before it is a site: its addresses, its names, and what becomes of what comes.

use std::net::SocketAddr;

use super::fate::{self, Fate, Scheme, SentOn};
use super::inherited::Inherited;
use super::listen::{Does, Door, Reached};
use super::nginx::directives::Directive;
use super::note::Notes;
use super::tls;

/// A block.
#[derive(Clone, Debug)]
pub struct Block<'t> {
    /// The block itself.
    pub directive: &'t Directive,
    /// What becomes of what comes.
    pub fate: Fate,
    /// What a block that serves sends on before.
    pub sent: SentOn<'t>,
    /// How it is reached.
    pub reached: Reached,
    /// What `Strict-Transport-Security` says there, where that is a lifetime alone.
    pub hsts: Option<u64>,
    /// What is said of its addresses and names.
    pub notes: Notes,
}

impl<'t> Block<'t> {
    /// Reads a block; `serves`: there is something to be had of it.
    #[must_use]
    pub fn read(directive: &'t Directive, http: &Inherited, serves: bool) -> Block<'t> {
        let mut scope = http.within();
        let mut reached = Reached::default();
        let mut notes = Notes::default();
        for child in directive.children() {
            match child.name.as_str() {
                "listen" => reached.listen(child, &mut notes),
                "server_name" => reached.names(child, &mut notes),
                _ => {
                    scope.take(child);
                }
            }
        }
        if !directive
            .children()
            .iter()
            .any(|child| child.name == "listen")
        {
            reached.doors.push(Door {
                address: SocketAddr::from(([0, 0, 0, 0], 80)),
                ssl: false,
                http2: false,
                proxy_protocol: false,
                is_default: false,
                tls: None,
                does: Does::Answer,
                directive: directive.clone(),
            });
        }
        let all_ssl = scope.get("ssl").is_some_and(|ssl| ssl.arg(0) == "on");
        let only_plain = !all_ssl && !reached.doors.iter().any(|door| door.ssl);
        let (fate, sent) = match serves {
            true => (Fate::Serves, fate::of_serving(directive, &reached.hosts)),
            false => (
                fate::of_other(directive, &reached.hosts, only_plain),
                SentOn::default(),
            ),
        };
        let tls = (!only_plain).then(|| tls::read(&scope, &mut notes));
        for door in &mut reached.doors {
            door.tls = tls.clone().filter(|_| door.ssl || all_ssl);
            door.does = match &fate {
                Fate::Serves
                    if door.tls.is_none()
                        && !only_plain
                        && sent
                            .to_https
                            .is_some_and(|(_, only_80)| !only_80 || door.address.port() == 80) =>
                {
                    Does::SendToHttps
                }
                Fate::Serves => Does::Answer,
                Fate::ToHttps | Fate::ToHost(Scheme::Https, _) if door.tls.is_none() => {
                    Does::SendToHttps
                }
                Fate::ToHost(..) => Does::SendOn,
                _ => Does::Nothing,
            };
        }
        Block {
            directive,
            fate,
            sent,
            hsts: tls::hsts(&scope),
            reached,
            notes,
        }
    }
}
