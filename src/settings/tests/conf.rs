//! The files in `conf/`: they load, and the one with every key says the defaults.

use std::time::Duration;

use crate::fastcgi::Address;

use super::super::acme;
use super::*;

const NOSTAT: &str = include_str!("../../../conf/nostat.yaml");
const STATIC: &str = include_str!("../../../conf/static.yaml");
const WORDPRESS: &str = include_str!("../../../conf/wordpress.yaml");

#[test]
fn every_file_loads_on_a_machine_that_has_its_root() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("nostat.yaml");
    for text in [NOSTAT, STATIC, WORDPRESS] {
        let root = root.path().to_str().unwrap();
        let text = text
            .replace("/var/www/wordpress", root)
            .replace("/var/www/html", root)
            .replace("user: www-data", "user: root");
        std::fs::write(&file, text).unwrap();
        let settings = load(&file).unwrap();
        assert_eq!(settings.sites[0].root, Path::new(root));
    }
}

#[test]
fn what_the_file_with_every_key_says_is_the_default() {
    let said = read(NOSTAT);
    let mut default = read(
        "sites: [{hosts: [example.com, \"*.example.com\"], aliases: [example.org], \
         root: /var/www/wordpress, php: \"unix:/run/php/php8.2-fpm.sock\"}]",
    );
    assert_eq!(said, default);
    default.sites[0].hosts.clear();
    default.sites[0].aliases.clear();
    let php = Address::Unix(PathBuf::from("/run/php/php8.2-fpm.sock"));
    let listen = Some("0.0.0.0:80".parse().unwrap());
    let root = Settings::for_root(PathBuf::from("/var/www/wordpress"), Some(php), listen);
    assert_eq!(
        root,
        Settings {
            spool: root.spool.clone(),
            ..default
        }
    );
}

#[test]
fn every_known_key_is_in_the_file_with_every_key() {
    let keys = [
        KEYS.known,
        site::KEYS.known,
        limits::KEYS.known,
        rate_limits::KEYS.known,
        open_file_cache::KEYS.known,
        php::KEYS.known,
        origin::KEYS.known,
        origin::HEALTH_KEYS.known,
        access_log::KEYS.known,
        spool::KEYS.known,
        listen::KEYS.known,
        tls::KEYS.known,
        tls::CERTIFICATE_KEYS.known,
        acme::KEYS.known,
        acme::STORE_KEYS.known,
        admin::KEYS.known,
        page_cache::KEYS.known,
        page_cache::PURGE_KEYS.known,
        page_cache::STORE_KEYS.known,
    ];
    for key in keys.into_iter().flatten() {
        let mentioned = NOSTAT.contains(&format!("{key}:"));
        assert!(mentioned, "{key}");
    }
}

#[test]
fn commented_out_keys_load_too() {
    let text: String = NOSTAT
        .lines()
        .filter(|line| !line.trim_start().starts_with("php:"))
        .map(|line| {
            let key = line.trim_start().strip_prefix("# ").filter(|key| {
                ["user:", "group:", "max_body:", "client_ip_header:", "dir:"]
                    .iter()
                    .any(|name| key.starts_with(name))
            });
            let indentation = line.len() - line.trim_start().len();
            let line = key.map_or(line.to_owned(), |key| " ".repeat(indentation) + key);
            line + "\n"
        })
        .collect();
    // Without `php:` its keys belong to the site, which does not know them: put it back.
    let text = text.replace("      address:", "    php:\n      address:");
    let settings = read(&text);
    assert_eq!(settings.user.as_deref(), Some("www-data"));
    assert_eq!(settings.group.as_deref(), Some("www-data"));
    assert_eq!(
        settings.sites[0].client_ip_header.as_deref(),
        Some("cf-connecting-ip")
    );
    assert_eq!(settings.sites[0].max_body, Some(64 << 20));
    assert_eq!(settings.spool.dir, Path::new("/var/lib/nostat/spool"));
}

#[test]
fn a_root_alone_is_wordpress_on_loopback() {
    let settings = Settings::for_root(PathBuf::from("/srv"), None, None);
    assert_eq!(
        settings.listen[0].address,
        "127.0.0.1:8080".parse().unwrap()
    );
    assert_eq!(settings.sites[0].preset, Preset::Wordpress);
    assert_eq!(settings.sites[0].backend, Backend::None);
    assert!(settings.spool.dir.is_dir());
}

#[test]
fn the_static_file_says_what_it_says() {
    let settings = read(STATIC);
    assert_eq!(settings.sites[0].preset, Preset::Static);
    assert_eq!(settings.sites[0].cache_control.len(), 2);
    assert_eq!(settings.cache.valid, Duration::from_secs(30));
}
