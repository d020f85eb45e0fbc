#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a panic fails the test"
)]

use std::fs;

use super::*;

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn limit(root: &Path, address: &str) -> Option<usize> {
    max_children_in(root, &address.parse().unwrap())
}

#[test]
fn the_pool_that_listens_there_is_found_among_versions() {
    let root = tempfile::tempdir().unwrap();
    for (version, count) in [("8.2", 5), ("8.3", 12)] {
        let text = format!(
            "; comment\n[www]\nuser = www-data\n;listen = 127.0.0.1:9000\n\
             listen = /run/php/php{version}-fpm.sock ; here\npm.max_children = {count}\n"
        );
        write(
            root.path(),
            &format!("etc/php/{version}/fpm/pool.d/www.conf"),
            &text,
        );
    }
    assert_eq!(
        limit(root.path(), "unix:/run/php/php8.3-fpm.sock"),
        Some(12)
    );
    assert_eq!(limit(root.path(), "unix:/run/php/php8.2-fpm.sock"), Some(5));
    assert_eq!(limit(root.path(), "unix:/run/php/php7.4-fpm.sock"), None);
    assert_eq!(limit(root.path(), "127.0.0.1:9000"), None);
}

#[test]
fn a_later_file_corrects_a_pool() {
    let root = tempfile::tempdir().unwrap();
    let folder = "usr/local/etc/php-fpm.d";
    write(
        root.path(),
        &format!("{folder}/www.conf"),
        "[www]\nlisten = 127.0.0.1:9000\npm.max_children = 5\n",
    );
    write(
        root.path(),
        &format!("{folder}/zz-docker.conf"),
        "[www]\nlisten = 9001\n",
    );
    write(
        root.path(),
        &format!("{folder}/www.conf.default"),
        "[www]\npm.max_children = 1\n",
    );
    assert_eq!(limit(root.path(), "127.0.0.1:9001"), Some(5));
    assert_eq!(limit(root.path(), "127.0.0.1:9000"), None);
    assert_eq!(limit(root.path(), "[::1]:9001"), Some(5));
    // Another machine's port is not this machine's pool.
    assert_eq!(limit(root.path(), "10.0.0.5:9001"), None);
}

#[test]
fn pools_of_one_file_are_told_apart_and_dollar_pool_is_the_name() {
    let root = tempfile::tempdir().unwrap();
    write(
        root.path(),
        "etc/php-fpm.d/all.conf",
        "[a]\nlisten = /run/$pool.sock\npm.max_children = \"7\"\n\
         [b]\nlisten = /run/$pool.sock\npm.max_children = 9\n\
         [c]\nlisten = /run/$pool.sock\npm.max_children = ${COUNT}\n",
    );
    assert_eq!(limit(root.path(), "unix:/run/a.sock"), Some(7));
    assert_eq!(limit(root.path(), "unix:/run/b.sock"), Some(9));
    assert_eq!(limit(root.path(), "unix:/run/c.sock"), None);
}

#[test]
fn a_socket_is_known_by_a_link_to_it() {
    let root = tempfile::tempdir().unwrap();
    let socket = root.path().join("php8.2.sock");
    fs::write(&socket, b"").unwrap();
    let link = root.path().join("php.sock");
    std::os::unix::fs::symlink(&socket, &link).unwrap();
    let text = format!(
        "[www]\nlisten = {}\npm.max_children = 3\n",
        socket.display()
    );
    write(root.path(), "etc/php82/php-fpm.d/www.conf", &text);
    assert_eq!(max_children_in(root.path(), &Address::Unix(link)), Some(3));
}

#[test]
fn addresses_with_hosts() {
    let tcp = |text: &str| Address::Tcp(text.parse().unwrap());
    for (listen, address, is_it) in [
        ("9000", "127.0.0.1:9000", true),
        ("*:9000", "127.0.0.1:9000", true),
        ("localhost:9000", "127.0.0.1:9000", true),
        ("0.0.0.0:9000", "127.0.0.1:9000", true),
        ("[::]:9000", "[::1]:9000", true),
        ("[::1]:9000", "[::1]:9000", true),
        ("10.0.0.5:9000", "10.0.0.5:9000", true),
        ("10.0.0.5:9000", "127.0.0.1:9000", false),
        ("fpm.internal:9000", "127.0.0.1:9000", false),
        ("/run/a.sock", "127.0.0.1:9000", false),
        ("", "127.0.0.1:9000", false),
    ] {
        assert_eq!(
            is_address(listen, &tcp(address)),
            is_it,
            "{listen} {address}"
        );
    }
}
