//! Values: what each key takes, what it refuses, and how it says so.

use std::path::Path;

use super::*;

/// Mistakes of whole files, by key: the text after [`SITE`], and what is said of it.
const TOP: &[(&str, &str)] = &[
    (
        "workers: many\n",
        "4:10: workers: \"many\" is not a whole number; expected 1 to 1024, or auto",
    ),
    (
        "workers: 1025\n",
        "4:10: workers: 1025 is out of range; expected 1 to 1024, or auto",
    ),
    ("workers:\n", "4:8: workers: nothing is not a whole number"),
    (
        "admin: {listen: localhost}\n",
        "4:17: admin.listen: \"localhost\" is not an address",
    ),
    (
        "admin: {token_file: /nonexistent/token}\n",
        "4:21: admin.token_file",
    ),
    ("watch_config: maybe\n", "4:15: watch_config"),
    (
        "admin: {socket: admin.sock}\n",
        "4:17: admin.socket: \"admin.sock\" is not an absolute path",
    ),
    ("listen: []\n", "4:9: listen: the list is empty"),
    (
        "listen: 8080\n",
        "4:9: listen: \"8080\" is not an address to listen on; expected \"0.0.0.0:8080\", or \"[::]:8080\" for IPv6",
    ),
    (
        "listen: [\":80\"]\n",
        "4:10: listen[0]: \":80\" is not an address to listen on; expected \"0.0.0.0:80\"",
    ),
    (
        "listen: [\"localhost:80\"]\n",
        "4:10: listen[0]: \"localhost:80\" is not an address to listen on; expected \"127.0.0.1:80\"",
    ),
    (
        "listen: [\"0.0.0.0:65536\"]\n",
        "4:10: listen[0]: \"0.0.0.0:65536\" is not an address",
    ),
    (
        "listen: [\"[::]:80\", \"[::]:80\"]\n",
        "4:21: listen[1]: [::]:80 is listed twice",
    ),
    (
        "listen: [{}]\n",
        "4:10: listen[0]: the key address is missing",
    ),
    (
        "user: 33\n",
        "4:7: user: 33 is not text; write it in quotes: \"33\"",
    ),
    (
        "limits: 3\n",
        "4:9: limits: 3 is not a mapping; expected keys of request_head",
    ),
    (
        "limits: {body: 5 sec}\n",
        "4:16: limits.body: \"5 sec\" is not a duration; expected e.g. 5s, 200ms, 1m",
    ),
    (
        "limits: {headers: 257}\n",
        "4:19: limits.headers: 257 is out of range; expected 1 to 256",
    ),
    (
        "limits: {head_size: 512B}\n",
        "4:21: limits.head_size: 512B is out of range; expected 1KiB to 1MiB",
    ),
    (
        "limits: {url: 64KiB}\n",
        "4:15: limits.url: url (64KiB) is larger than head_size (32KiB)",
    ),
    (
        "limits: {head_size: 4KiB}\n",
        "4:21: limits.head_size: url (8KiB) is larger than head_size (4KiB)",
    ),
    (
        "limits: {max_body: 3GiB}\n",
        "4:20: limits.max_body: 3GiB is larger than spool.total (2GiB)",
    ),
    (
        "limits: {max_body: 64M}\n",
        "4:20: limits.max_body: \"64M\" is not a size; did you mean 64MiB?",
    ),
    (
        "open_file_cache: {errors: yes}\n",
        "4:27: open_file_cache.errors: \"yes\" is not known here; expected on, off",
    ),
    (
        "open_file_cache: {errors_max: 101%}\n",
        "4:31: open_file_cache.errors_max: \"101%\" is not a share",
    ),
    (
        "open_file_cache: {min_uses: 0}\n",
        "4:29: open_file_cache.min_uses: 0 is out of range",
    ),
    (
        "open_file_cache: {content: 1KiB}\n",
        "4:28: open_file_cache.content: larger than open_file_cache.content",
    ),
    (
        "access_log: {path: access.log}\n",
        "4:20: access_log.path: \"access.log\" is not an absolute path",
    ),
    (
        "access_log: {format: main}\n",
        "4:22: access_log.format: \"main\" is not known here; expected combined, json, off",
    ),
    (
        "trusted_proxies: [10.0.0.5/8]\n",
        "4:19: trusted_proxies[0]: \"10.0.0.5/8\" has address bits beyond its prefix; expected 10.0.0.0/8, or 10.0.0.5 alone",
    ),
    (
        "trusted_proxies: nginx\n",
        "4:18: trusted_proxies: \"nginx\" is not a network",
    ),
    (
        "spool: {dir: spool}\n",
        "4:14: spool.dir: \"spool\" is not an absolute path",
    ),
    (
        "spool: {memory: 3GiB, total: 2GiB}\n",
        "4:17: spool.memory: 3GiB is out of range",
    ),
    (
        "spool: {memory: 1GiB, total: 512MiB}\n",
        "4:17: spool.memory: memory, which is for one body",
    ),
];

/// Mistakes of one line of a site of the static preset.
const SITE_LINES: &[(&str, &str)] = &[
    (
        "compression: zstd",
        "3:18: sites[0].compression: \"zstd\" is not known here; expected auto, off",
    ),
    (
        "compression: {level: 3}",
        "3:19: sites[0].compression.level: the key \"level\" is not known here; expected one of files, dynamic, min_size, types",
    ),
    (
        "compression: {dynamic: always}",
        "3:28: sites[0].compression.dynamic: \"always\" is not known here; expected auto, off",
    ),
    (
        "compression: {min_size: 2GiB}",
        "3:29: sites[0].compression.min_size: 2GiB is out of range",
    ),
    (
        "compression: {types: [html]}",
        "3:27: sites[0].compression.types[0]: \"html\" is not a media type; expected e.g. text/html, or text/*",
    ),
    (
        "compression: {types: [\"*/*\"]}",
        "3:27: sites[0].compression.types[0]: \"*/*\" is not a media type",
    ),
    (
        "compression: {types: [\"text/html; charset=utf-8\"]}",
        "3:27: sites[0].compression.types[0]: \"text/html; charset=utf-8\" is not a media type",
    ),
    (
        "php: \"127.0.0.1:9000\"",
        "3:5: sites[0].php: the preset static runs no PHP",
    ),
    ("hosts: []", "3:12: sites[0].hosts: the list is empty"),
    (
        "hosts: [\"*\"]",
        "3:13: sites[0].hosts[0]: \"*\" is no host; leave hosts out",
    ),
    (
        "hosts: [\"http://a.example\"]",
        "3:13: sites[0].hosts[0]: \"http://a.example\" is not a host; expected the host alone",
    ),
    (
        "hosts: [\"a.example:80\"]",
        "3:13: sites[0].hosts[0]: \"a.example:80\" is not a host; expected the host without its port",
    ),
    (
        "hosts: [\"müller.example\"]",
        "3:13: sites[0].hosts[0]: \"müller.example\" is not a host; expected the name as it is sent",
    ),
    (
        "hosts: [a.example, A.EXAMPLE.]",
        "3:24: sites[0].hosts[1]: \"a.example\" is already at sites[0].hosts[0]",
    ),
    (
        "hosts: {a: b}",
        "3:12: sites[0].hosts: a mapping is not a list",
    ),
    (
        "aliases: [a.example]",
        "3:5: sites[0].aliases: aliases without hosts",
    ),
    (
        "sendfile: 64KiB",
        "3:15: sites[0].sendfile: \"64KiB\" is not known here; expected auto, on, off",
    ),
    (
        "etag: md5",
        "3:11: sites[0].etag: \"md5\" is not known here; expected mtime, content, nginx",
    ),
    (
        "link_targets: on",
        "3:19: sites[0].link_targets: \"on\" is not known here; expected auto, or a list",
    ),
    (
        "link_targets: [/]",
        "3:20: sites[0].link_targets[0]: / is the whole machine",
    ),
    (
        "content_dir: [a/b]",
        "3:19: sites[0].content_dir[0]: \"a/b\" is not the name of a folder",
    ),
    (
        "deny: [xmlrpc.php]",
        "3:12: sites[0].deny[0]: \"xmlrpc.php\" is not a pattern for paths; expected / or * first, e.g. \"/xmlrpc.php\"",
    ),
    (
        "client_ip_header: \"a b\"",
        "3:23: sites[0].client_ip_header: \"a b\" is not the name of a field",
    ),
    (
        "cache_control: [{match: /a}]",
        "3:21: sites[0].cache_control[0]: the key value is missing",
    ),
    (
        "cache_control: [{match: /a, value: \"a\\r\\nb\"}]",
        "3:40: sites[0].cache_control[0].value: \"a\\r\\nb\" has a control character",
    ),
    (
        "headers: [{match: /, set: {\"X Y\": a}}]",
        "3:32: sites[0].headers[0].set.\"X Y\": \"X Y\" is not the name of a field",
    ),
    (
        "headers: [{match: /, set: {X-Y: \"a\\nb\"}}]",
        "3:37: sites[0].headers[0].set.X-Y: \"a\\nb\" has a control character",
    ),
    (
        "headers: [{match: /, set: {Content-Length: 3}}]",
        "3:32: sites[0].headers[0].set.Content-Length: the field Content-Length is written by Nostat itself",
    ),
    (
        "headers: [{match: /, set: {A: b, a: c}}]",
        "3:38: sites[0].headers[0].set.a: the field a is set twice",
    ),
    (
        "origin: [\"http://a:1\"]",
        "3:14: sites[0].origin[0]: \"http://a:1\" is a URL",
    ),
    (
        "origin: [\"10.0.0.5\"]",
        "3:14: sites[0].origin[0]: \"10.0.0.5\" is not a peer",
    ),
    ("origin: []", "3:13: sites[0].origin: the list is empty"),
    (
        "origin: [\"a:1\", \"b:1\", \"a:1\"]",
        "3:28: sites[0].origin[2]: the peer \"a:1\" stands here twice",
    ),
    (
        "origin: {peers: [\"a:1\"], balance: least}",
        "3:39: sites[0].origin.balance: \"least\" is not known here",
    ),
    (
        "origin: {peers: [\"a:1\"], health: {path: up}}",
        "3:45: sites[0].origin.health.path: \"up\" is not a path",
    ),
    (
        "origin: {peers: [\"a:1\"], health: {evry: 5s}}",
        "3:39: sites[0].origin.health.evry: the key \"evry\" is not known here",
    ),
    (
        "origin: {peers: [\"a:1\"], health: {unhealthy: 0}}",
        "3:50: sites[0].origin.health.unhealthy: 0 is out of range",
    ),
    (
        "origin: {peers: [\"a:1\"], health: /up}",
        "3:38: sites[0].origin.health: \"/up\" is no health check",
    ),
    (
        "max_body: 4GiB",
        "3:15: sites[0].max_body: 4GiB is larger than spool.total (2GiB)",
    ),
    (
        "root: relative",
        "3:5: sites[0].root: the key \"root\" stands here a second time",
    ),
];

#[test]
fn wrong_values_are_told_with_place_and_remedy() {
    for (extra, expected) in TOP {
        let mistakes = mistakes_of(extra);
        let expected = format!("nostat.yaml:{expected}");
        assert!(
            mistakes[0].starts_with(&expected),
            "{extra}{mistakes:#?}\n{expected}"
        );
        assert_eq!(mistakes.len(), 1, "{extra}{mistakes:#?}");
    }
    for (line, expected) in SITE_LINES {
        let mistakes = mistakes_of_site(line);
        let expected = format!("nostat.yaml:{expected}");
        assert!(
            mistakes[0].starts_with(&expected),
            "{line}\n{mistakes:#?}\n{expected}"
        );
        assert_eq!(mistakes.len(), 1, "{line}{mistakes:#?}");
    }
}

#[test]
fn all_mistakes_are_told_in_one_run_by_line() {
    let text = "\
limits:
  body: 30
sites:
  - hosts: [a.example]
    php: {wait: 5 sec, queue: -1}
  - hosts: [b.example, a.example]
    root: relative
    php: /run/php.sock
    origin: [\"a:1\"]
  - root: /srv
  - root: /srv
    php: \"nowhere\"
workers: 0
";
    let mistakes = mistakes(text);
    let expected = [
        "2:9: limits.body: 30 has no unit",
        "4:5: sites[0]: the key root is missing",
        "5:10: sites[0].php: the key address is missing",
        "5:17: sites[0].php.wait: \"5 sec\" is not a duration",
        "5:31: sites[0].php.queue: -1 is out of range",
        "6:24: sites[1].hosts[1]: \"a.example\" is already at sites[0].hosts[0]",
        "7:11: sites[1].root: \"relative\" is not an absolute path",
        "9:5: sites[1].origin: php and origin exclude each other",
        "10:5: sites[2]: neither php nor origin is given",
        "11:5: sites[3]: a second site without hosts, after sites[2]",
        "12:10: sites[3].php: \"nowhere\" is no address of PHP-FPM",
        "13:10: workers: 0 is out of range",
    ];
    assert_eq!(mistakes.len(), expected.len(), "{mistakes:#?}");
    for (mistake, expected) in mistakes.iter().zip(expected) {
        assert!(
            mistake.starts_with(&format!("nostat.yaml:{expected}")),
            "{mistake}\n{expected}"
        );
    }
}

#[test]
fn short_forms_are_told_by_the_kind_of_the_value() {
    let short = read(
        "listen: \"[::]:80\"\naccess_log: off\nsites: [{hosts: a.example, root: /srv, origin: \"b:1\"}]",
    );
    let long = read(
        "listen: [{address: \"[::]:80\"}]\naccess_log: {format: off}\n\
         sites: [{hosts: [a.example], root: /srv, origin: {peers: [\"b:1\"]}}]",
    );
    assert_eq!(short, long);
    let short = read("sites: [{root: /srv, php: \"unix:/run/a\"}]");
    let long = read("sites: [{root: /srv, php: {address: \"unix:/run/a\"}}]");
    assert_eq!(short, long);
}

#[test]
fn the_budget_of_errors_follows_max() {
    let errors_max = |text: &str| {
        read(&format!("{SITE}open_file_cache: {text}\n"))
            .cache
            .errors_max
    };
    assert_eq!(errors_max("{max: 5000}"), 500);
    assert_eq!(errors_max("{max: 5000, errors_max: 20%}"), 1_000);
    assert_eq!(errors_max("{max: 5000, errors_max: 7}"), 7);
    assert_eq!(errors_max("{max: 1, errors_max: 1%}"), 1);
}

#[test]
fn hosts_are_kept_as_requests_name_them() {
    let settings = read(
        "sites: [{root: /srv, preset: static, \
         hosts: [Example.COM., \"*.a.example\", \"2001:DB8::1\", \"[::1]\", 192.0.2.1, under_score]}]",
    );
    let expected = [
        "example.com",
        "*.a.example",
        "[2001:db8::1]",
        "[::1]",
        "192.0.2.1",
        "under_score",
    ];
    assert_eq!(settings.sites[0].hosts, expected);
}

#[test]
fn networks_are_addresses_prefixes_and_private() {
    let settings = read(&format!(
        "{SITE}trusted_proxies: [192.0.2.7, 10.0.0.0/8, \"::1\", private]\n"
    ));
    let trusts = |address: &str| {
        let address: IpAddr = address.parse().unwrap();
        settings
            .trusted_proxies
            .iter()
            .any(|network| network.contains(&address))
    };
    for address in [
        "192.0.2.7",
        "10.9.9.9",
        "::1",
        "172.31.0.1",
        "192.168.0.1",
        "127.0.0.1",
        "fd00::1",
    ] {
        assert!(trusts(address), "{address}");
    }
    assert!(!trusts("192.0.2.8") && !trusts("8.8.8.8") && !trusts("2001:db8::1"));
}

#[test]
fn content_folders_are_where_links_are_adopted() {
    use crate::descriptor_cache::LinkTargets;

    let settings = read("sites: [{root: /srv, preset: static, content_dir: [/inhalt/, app]}]");
    let folders = ["inhalt".to_owned(), "app".to_owned()].to_vec();
    assert_eq!(settings.sites[0].content_dir, folders);
    let expected = LinkTargets::Auto {
        content_dirs: folders,
    };
    assert_eq!(settings.sites[0].links.targets, expected);
}

#[test]
fn the_machine_is_asked_for_what_the_file_names() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().to_str().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let text = format!(
        "user: no-such-user\ngroup: no-such-group\nsites:\n  - {{root: {root}/none, preset: static}}\n  \
         - {{hosts: a, root: {root}/file, preset: static}}\n  - {{hosts: b, root: {root}, preset: static, \
         link_targets: [{root}/none]}}\naccess_log: {{path: {root}/none/log}}\nspool: {{dir: {root}/none}}\n"
    );
    let mistakes = parse("x", text.as_bytes(), Checks::Machine).unwrap_err();
    let paths: Vec<_> = mistakes
        .iter()
        .map(|mistake| mistake.path.as_str())
        .collect();
    let expected = [
        "user",
        "group",
        "sites[0].root",
        "sites[1].root",
        "sites[2].link_targets[0]",
        "access_log.path",
        "spool.dir",
    ];
    assert_eq!(paths, expected, "{mistakes:#?}");
    let text =
        format!("sites: [{{root: {root}, preset: static}}]\nspool: {{dir: {root}}}\nuser: root\n");
    let settings = parse("x", text.as_bytes(), Checks::Machine).unwrap();
    assert_eq!(settings.spool.dir, Path::new(root));
}

#[test]
fn a_spool_that_is_not_named_is_where_files_can_be_written() {
    let text = "sites: [{root: /usr, preset: static}]";
    let settings = parse("x", text.as_bytes(), Checks::Machine).unwrap();
    assert!(settings.spool.dir.is_dir());
}
