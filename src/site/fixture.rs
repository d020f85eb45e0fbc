//! A small WordPress on disk, and a site on it that can be asked (tests only).

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests fail by panicking, and make the trees they ask for"
)]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;

use crate::clock::{Clock, ManualClock};
use crate::descriptor_cache::{self, DescriptorCache, Watch};
use crate::fastcgi;
use crate::request::head::Method;
use crate::request::target::Target;
use crate::site::{
    AccelTarget, Answer, Backend, Body, Decision, Part, Preset, Request, Script, SiteSettings,
    StaticSite,
};

/// Seconds of 2024-01-02 03:04:05.5 UTC, the time of every file.
pub(crate) const MODIFIED: u64 = 1_704_164_645;

pub(crate) struct Fixture {
    pub(crate) root: PathBuf,
    pub(crate) clock: Clock,
    pub(crate) hand: ManualClock,
    pub(crate) cache: Arc<DescriptorCache>,
    _directory: tempfile::TempDir,
}

impl Fixture {
    /// The tree of the cases, its root below a hidden folder.
    pub(crate) fn wordpress() -> Fixture {
        let fixture = Fixture::empty();
        for (path, content) in TREE {
            fixture.write(path, content);
        }
        fixture
    }

    pub(crate) fn empty() -> Fixture {
        // What a test changes is seen when it moves the clock.
        Self::with(Watch::Off)
    }

    /// What a test changes is told by the kernel.
    pub(crate) fn watched() -> Fixture {
        Self::with(Watch::Auto)
    }

    fn with(watch: Watch) -> Fixture {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join(".data/site");
        fs::create_dir_all(&root).unwrap();
        let (clock, hand) = Clock::manual();
        // What was written a moment ago is settled by the fixture's time.
        hand.advance(Duration::from_secs(60));
        let settings = descriptor_cache::Settings {
            watch,
            ..descriptor_cache::Settings::default()
        };
        Fixture {
            root: root.canonicalize().unwrap(),
            cache: DescriptorCache::new(settings, clock.clone()),
            clock,
            hand,
            _directory: directory,
        }
    }

    pub(crate) fn write(&self, path: &str, content: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        touch(&path, MODIFIED);
    }

    pub(crate) fn touch(&self, path: &str, seconds: u64) {
        touch(&self.root.join(path), seconds);
    }

    /// Settings of a site with PHP.
    pub(crate) fn settings(&self, preset: Preset) -> SiteSettings {
        let mut settings = SiteSettings::new(self.root.clone(), preset);
        if preset != Preset::Static {
            let address = fastcgi::Address::Unix(PathBuf::from("/run/php.sock"));
            settings.backend = Backend::Php(fastcgi::Settings::new(address));
        }
        settings
    }

    pub(crate) fn site(&self, settings: &SiteSettings) -> Asked {
        Asked {
            site: StaticSite::new(settings, self.cache.clone()).unwrap(),
            clock: self.clock.clone(),
        }
    }

    pub(crate) fn of(&self, preset: Preset) -> Asked {
        self.site(&self.settings(preset))
    }
}

fn touch(path: &Path, seconds: u64) {
    let time = UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_millis(500);
    File::options()
        .write(true)
        .open(path)
        .unwrap()
        .set_modified(time)
        .unwrap();
}

/// A site that can be asked.
pub(crate) struct Asked {
    pub(crate) site: StaticSite,
    clock: Clock,
}

impl Asked {
    /// The decision in one line: `200 <content>`, `404`, `301 <location>`, `php <script>[ + <info>][ ? <query>]`, `origin`.
    pub(crate) async fn ask(&self, method: &str, target: &str) -> String {
        match self.decide(method, target.as_bytes(), &[]).await {
            Decision::Answer(answer) => told(&answer).await,
            Decision::Script(script) => named(&script),
            Decision::Origin => "origin".to_owned(),
        }
    }

    pub(crate) async fn get(&self, target: &str) -> String {
        self.ask("GET", target).await
    }

    pub(crate) async fn answer(
        &self,
        method: &str,
        target: &str,
        fields: &[(&str, &str)],
    ) -> Answer {
        match self.decide(method, target.as_bytes(), fields).await {
            Decision::Answer(answer) => answer,
            other => panic!("{target}: {other:?}"),
        }
    }

    pub(crate) async fn decide(
        &self,
        method: &str,
        target: &[u8],
        fields: &[(&str, &str)],
    ) -> Decision {
        let method = Method::from_token(method);
        let target = Target::parse(&method, target).unwrap();
        let fields = owned(fields);
        self.site
            .decide(&self.request(method, &target, &fields))
            .await
    }

    /// The page of a cache plugin in PHP's stead.
    pub(crate) async fn page(
        &self,
        method: &str,
        target: &str,
        host: &str,
        https: bool,
        fields: &[(&str, &str)],
    ) -> Option<Answer> {
        let Decision::Script(script) = self.decide(method, target.as_bytes(), fields).await else {
            return None;
        };
        let method = Method::from_token(method);
        let target = Target::parse(&method, target.as_bytes()).unwrap();
        let fields = owned(fields);
        let request = self.request(method, &target, &fields);
        let host = host.as_bytes();
        self.site.page(&request, &script, host, https).await
    }

    pub(crate) async fn accel(
        &self,
        target: AccelTarget<'_>,
        method: &str,
        fields: &[(&str, &str)],
        kept: &[(&str, &str)],
    ) -> Answer {
        let method = Method::from_token(method);
        let asked = Target::parse(&method, b"/download?id=1").unwrap();
        let fields = owned(fields);
        let generation = self.site.root().current();
        self.site
            .accel(
                &self.request(method, &asked, &fields),
                &generation,
                target,
                &owned(kept),
            )
            .await
    }

    fn request<'a>(
        &self,
        method: Method<'a>,
        target: &'a Target<'a>,
        fields: &'a [(Vec<u8>, Vec<u8>)],
    ) -> Request<'a, [(Vec<u8>, Vec<u8>)]> {
        Request {
            method,
            target,
            fields,
            conditional: !fields.is_empty(),
            now: self.clock.unix(),
        }
    }
}

fn owned(fields: &[(&str, &str)]) -> Vec<(Vec<u8>, Vec<u8>)> {
    fields
        .iter()
        .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
        .collect()
}

fn named(script: &Script) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut line = format!("php {}", text(&script.script_name));
    if !script.path_info.is_empty() {
        line += &format!(" + {}", text(&script.path_info));
    }
    if let Some(query) = &script.query {
        line += &format!(" ? {}", text(query));
    }
    line
}

async fn told(answer: &Answer) -> String {
    match answer.status {
        200 => format!("200 {}", String::from_utf8_lossy(&content(answer).await)),
        301 | 308 => format!("{} {}", answer.status, field(answer, "Location").unwrap()),
        status => status.to_string(),
    }
}

/// The value of the only line of a field.
pub(crate) fn field(answer: &Answer, name: &str) -> Option<String> {
    let head = String::from_utf8(answer.head.to_vec()).unwrap();
    let mut values = head.split("\r\n").skip(1).filter_map(|line| {
        let (other, value) = line.split_once(": ")?;
        other.eq_ignore_ascii_case(name).then(|| value.to_owned())
    });
    let value = values.next()?;
    assert_eq!(values.next(), None, "{name} stands twice");
    Some(value)
}

/// The whole content; its length is what the body and, if there is one, the head say.
pub(crate) async fn content(answer: &Answer) -> Bytes {
    let parts = match answer.body.clone() {
        Body::Empty => Vec::new(),
        Body::Memory(bytes) => vec![Part::Memory(bytes)],
        Body::File(span) => vec![Part::File(span)],
        Body::Parts(parts) => parts,
    };
    let mut content = Vec::new();
    for part in parts {
        match part {
            Part::Memory(bytes) => content.extend_from_slice(&bytes),
            Part::File(span) => {
                let length = usize::try_from(span.length).unwrap();
                content.extend_from_slice(&span.file.read_at(span.first, length).await.unwrap());
            }
        }
    }
    assert_eq!(content.len() as u64, answer.body.length());
    Bytes::from(content)
}

/// Runs a test's future to its end.
pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

const TREE: [(&str, &str); 47] = [
    ("index.php", "<?php front"),
    ("wp-config.php", "<?php DB_PASSWORD"),
    ("wp-config.php~", "<?php DB_PASSWORD"),
    ("wp-config.php.bak", "<?php DB_PASSWORD"),
    ("wp-login.php", "<?php login"),
    ("xmlrpc.php", "<?php xmlrpc"),
    ("shout.PHP", "<?php shout"),
    ("lib.inc", "<?php lib"),
    ("page.phtml", "<?php page"),
    ("old.php5", "<?php old"),
    ("index.html", "<p>root"),
    ("readme.html", "version"),
    ("license.txt", "gpl"),
    ("backup.zip", "zip"),
    ("dump.sql", "sql"),
    (".env", "secret"),
    (".git/config", "secret"),
    (".well-known/acme-challenge/t", "token"),
    (".well-known/x.php", "<?php known"),
    ("a/b.css", "ab"),
    ("style.css", "root style"),
    ("docs/index.html", "docs"),
    ("bare/x.txt", "bare"),
    ("100%.txt", "percent"),
    ("wp-admin/index.php", "<?php admin"),
    ("wp-admin/css/x.css", "admin css"),
    ("wp-includes/js/a.js", "js"),
    ("wp-includes/ms-files.php", "<?php ms"),
    ("wp-content/index.php", "<?php silence"),
    ("wp-content/.htaccess", "# nothing"),
    ("wp-content/debug.log", "secret"),
    ("wp-content/error_log", "secret"),
    ("wp-content/themes/t/style.css", "0123456789"),
    ("wp-content/plugins/p/p.php", "<?php plugin"),
    ("wp-content/plugins/p/cache/c.php", "<?php plugin cache"),
    ("wp-content/cache/c.php", "<?php cache"),
    ("wp-content/upgrade/u/u.php", "<?php upgrade"),
    ("wp-content/updraft/backup.txt", "secret"),
    ("wp-content/uploads/a b.css", "blank"),
    ("wp-content/uploads/a+b.css", "plus"),
    ("wp-content/uploads/café.jpg", "coffee"),
    ("wp-content/uploads/evil.php", "<?php evil"),
    ("wp-content/uploads/evil.jpg", "<?php evil"),
    ("wp-content/uploads/index.php", "<?php silence"),
    ("wp-content/uploads/noext", "<p>no"),
    ("wp-content/uploads/wc-logs/l.txt", "secret"),
    (
        "wp-content/uploads/woocommerce_uploads/.htaccess",
        "deny from all",
    ),
];
