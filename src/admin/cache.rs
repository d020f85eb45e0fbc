//! What the caches hold, why a path is answered as it is, and forgetting and taking in: `/cache` and what is below it.
//!
//! Names in a query are those of the command line: `site`, `path`, `prefix`, `tag`, `all`, `kind`, `limit`.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hyper::StatusCode;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use crate::descriptor_cache::inspect::Row;
use crate::page_cache::key::plain_path;
use crate::page_cache::purge::What;
use crate::page_cache::{Page, Purge};
use crate::request::head::Method;
use crate::request::pattern::Pattern;
use crate::request::target::Target;
use crate::site::StaticSite;
use crate::site::warm::warm_patterns;
use crate::snapshot::{Snapshot, State};

/// An answer: its status, and what it says.
pub type Told = (StatusCode, Value);

/// The names and values of a query.
pub struct Query(Vec<(String, Vec<u8>)>);

impl Query {
    /// Reads a query.
    pub fn parse(text: Option<&str>) -> Query {
        let decode = |text: &str| percent_decode_str(&text.replace('+', " ")).collect::<Vec<u8>>();
        let pairs = text
            .unwrap_or_default()
            .split('&')
            .filter(|pair| !pair.is_empty());
        Query(
            pairs
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
                .map(|(name, value)| (name.to_owned(), decode(value)))
                .collect(),
        )
    }

    fn get(&self, name: &str) -> Option<&[u8]> {
        let pair = self.0.iter().find(|(known, _)| known == name);
        pair.map(|(_, value)| &value[..])
    }

    fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The sites meant: the one that is named, or all.
    fn sites<'s>(&self, snapshot: &'s Snapshot) -> Result<Vec<&'s Arc<StaticSite>>, Told> {
        let all = snapshot.sites.all();
        let Some(name) = self.get("site") else {
            return Ok(all.iter().collect());
        };
        let name = String::from_utf8_lossy(name);
        let named: Vec<_> = all
            .iter()
            .filter(|site| site.settings().name() == name)
            .collect();
        if named.is_empty() {
            let names: Vec<String> = all.iter().map(|site| site.settings().name()).collect();
            let why = format!(
                "no site of the name {name}; there are: {}",
                names.join(", ")
            );
            return Err((StatusCode::NOT_FOUND, json!({ "error": why })));
        }
        Ok(named)
    }
}

/// `GET /cache`: what is held below a prefix.
pub fn list(state: &State, query: &Query) -> Result<Told, Told> {
    let snapshot = state.snapshot.load();
    let prefix = query.get("prefix").unwrap_or(b"/");
    let limit = query
        .get("limit")
        .and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
    let limit: usize = limit.unwrap_or(DEFAULT_LIMIT).min(MOST_LISTED);
    let wants = |kind: &[u8]| query.get("kind").is_none_or(|wanted| wanted == kind);
    let (mut files, mut is_cut) = (Vec::new(), false);
    let below = prefix.strip_prefix(b"/").unwrap_or(prefix);
    if wants(b"file") {
        // Sites may share a root.
        let mut seen = Vec::new();
        for site in query.sites(&snapshot)? {
            let generation = site.root().current().id();
            if !seen.contains(&generation) {
                seen.push(generation);
                let (rows, more) = state.cache.list(generation, below, limit);
                is_cut |= more;
                let name = site.settings().name();
                files.extend(rows.iter().map(|row| file(&name, row)));
            }
        }
    }
    let mut pages = Vec::new();
    if wants(b"page") {
        let names: Vec<String> = query
            .sites(&snapshot)?
            .iter()
            .map(|site| site.settings().name())
            .collect();
        let now = state.clock.unix().system();
        let mut meant: Vec<Arc<Page>> = state
            .pages
            .all()
            .filter(|page| names.iter().any(|name| **name == *page.place.site))
            .filter(|page| page.place.path.starts_with(prefix))
            .collect();
        meant.sort_by(|a, b| a.key.cmp(&b.key));
        is_cut |= meant.len() > limit;
        pages.extend(meant.iter().take(limit).map(|kept| page(kept, now)));
    }
    is_cut |= files.len() > limit;
    files.truncate(limit);
    Ok((
        StatusCode::OK,
        json!({ "files": files, "pages": pages, "cut": is_cut }),
    ))
}

/// `GET /cache/entry`: why a path is answered as it is.
pub async fn entry(state: &State, query: &Query) -> Result<Told, Told> {
    let snapshot = state.snapshot.load_full();
    let raw = query.get("path").ok_or_else(|| wrong("expected path=/…"))?;
    let target =
        Target::parse(&Method::Get, raw).map_err(|_| wrong("path is no path of a request"))?;
    let now = state.clock.unix();
    let mut told = Vec::new();
    for site in query.sites(&snapshot)? {
        let explained = site.explain(&target, now).await;
        let generation = site.root().current();
        let name = site.settings().name();
        let asked = target
            .path
            .strip_prefix(b"/")
            .unwrap_or(&target.path)
            .to_vec();
        let of = explained.path.clone().unwrap_or(asked);
        let (rows, _) = state.cache.list(generation.id(), &of, MOST_LISTED);
        let rows: Vec<Value> = rows
            .iter()
            .filter(|row| row.path == of)
            .map(|row| file(&name, row))
            .collect();
        let plain = plain_path(&target.path);
        let is_page = |page: &Arc<Page>| *page.place.site == *name && *page.place.path == *plain;
        let system = now.system();
        let pages: Vec<Value> = state
            .pages
            .all()
            .filter(is_page)
            .map(|kept| page(&kept, system))
            .collect();
        let head = explained.answer.as_ref().map(|answer| text(&answer.head));
        told.push(json!({
            "site": name,
            "root": generation.resolved().display().to_string(),
            "kind": explained.kind,
            "why": explained.why,
            "file": explained.path.as_deref().map(text),
            "status": explained.answer.as_ref().map(|answer| answer.status),
            "answered_by": match explained.answer {
                Some(_) => "nostat",
                None => "application",
            },
            "head": head.map(|head| head.lines().map(str::to_owned).collect::<Vec<_>>()),
            "entries": rows,
            "pages": pages,
        }));
    }
    Ok((StatusCode::OK, json!({ "sites": told })))
}

/// `POST /cache/purge`: forgets files and pages of a path, a prefix, a tag, or all.
pub async fn purge(state: &Arc<State>, query: &Query) -> Result<Told, Told> {
    let snapshot = state.snapshot.load_full();
    let is_all = query.has("all");
    let (path, prefix, tag) = (query.get("path"), query.get("prefix"), query.get("tag"));
    if [is_all, path.is_some(), prefix.is_some(), tag.is_some()]
        .iter()
        .filter(|named| **named)
        .count()
        != 1
    {
        return Err(wrong("expected one of path=/…, prefix=/…, tag=WORD, all"));
    }
    let (mut files, mut pages) = (0, 0);
    for site in query.sites(&snapshot)? {
        let what = match (path, prefix, tag) {
            (Some(path), ..) => What::Path(plain_path(path).into()),
            (_, Some(prefix), _) => What::Prefix(prefix.into()),
            (.., Some(tag)) => What::Tags(vec![tag.into()]),
            _ => What::All,
        };
        let purge = Purge {
            site: Some(site.settings().name().into()),
            host: None,
            what,
        };
        pages += state.pages.purge(purge).await;
        if tag.is_some() {
            continue;
        }
        let generation = site.root().current().id();
        let below = |text: &[u8]| text.strip_prefix(b"/").unwrap_or(text).to_vec();
        let (path, prefix) = (path.map(below), prefix.map(below));
        let state = state.clone();
        let forgotten = tokio::task::spawn_blocking(move || {
            state
                .cache
                .forget(generation, |known| match (&path, &prefix) {
                    (Some(path), _) => known == path.strip_suffix(b"/").unwrap_or(path),
                    (None, Some(prefix)) => known.starts_with(prefix),
                    (None, None) => true,
                })
        });
        files += forgotten.await.unwrap_or(0);
    }
    Ok((StatusCode::OK, json!({ "files": files, "pages": pages })))
}

/// `POST /cache/warm`: takes files into the descriptor cache, by patterns as of the key `warm`.
pub async fn warm(state: &State, query: &Query) -> Result<Told, Told> {
    let snapshot = state.snapshot.load_full();
    let patterns: Vec<Pattern> = query
        .0
        .iter()
        .filter(|(name, _)| name == "path")
        .map(|(_, text)| Pattern::parse(&String::from_utf8_lossy(text)))
        .collect::<Result<_, _>>()
        .map_err(|error| wrong(&error.to_string()))?;
    if patterns.is_empty() {
        return Err(wrong("expected path=PATTERN, e.g. path=/wp-includes/js/"));
    }
    let (mut files, mut is_cut) = (0, false);
    for site in query.sites(&snapshot)? {
        let warmed = warm_patterns(site, &patterns).await;
        files += warmed.files;
        is_cut |= warmed.is_cut;
    }
    Ok((StatusCode::OK, json!({ "files": files, "cut": is_cut })))
}

fn file(site: &str, row: &Row) -> Value {
    json!({
        "site": site,
        "path": format!("/{}", text(&row.path)),
        "kind": if row.is_script { "script" } else { row.kind },
        "state": if row.is_script && row.kind != "file" { Some(row.kind) } else { None },
        "size": row.size,
        "modified": row.modified.map(|time| time.seconds),
        "tier": row.tier,
        "vouched_by": row.vouched_by,
        "uses": row.uses,
        "age": seconds(row.age),
        "idle": seconds(row.idle),
        "next_look": seconds(row.next_look),
    })
}

fn page(page: &Page, now: SystemTime) -> Value {
    let since = |time: SystemTime| now.duration_since(time).unwrap_or_default();
    let left = page.fresh_until.duration_since(now).ok();
    let stale = left.is_none().then(|| since(page.fresh_until));
    json!({
        "site": &*page.place.site,
        "host": text(&page.place.host),
        "path": text(&page.place.path),
        "status": page.header.status.as_u16(),
        "size": page.body.len(),
        "coded": page.is_coded(),
        "age": seconds(since(page.born)),
        "fresh_for": left.map(seconds),
        "stale_for": stale.map(seconds),
        "tags": page.place.tags.iter().map(|tag| text(tag)).collect::<Vec<_>>(),
    })
}

fn wrong(why: &str) -> Told {
    (StatusCode::BAD_REQUEST, json!({ "error": why }))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// To the tenth.
fn seconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 10.0).round() / 10.0
}

const DEFAULT_LIMIT: usize = 1000;
const MOST_LISTED: usize = 100_000;
