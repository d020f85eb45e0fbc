//! `nostat import`: an nginx configuration in, settings on standard output, what they do not say on standard error.

use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use crate::support::document_root::DocumentRoot;
use crate::support::eventually;
use crate::support::nostat::{BINARY, Config, Nostat};

/// Exit status, standard output and standard error of an import.
fn import(words: &[&str], file: &Path) -> (Option<i32>, String, String) {
    let output = Command::new(BINARY)
        .arg("import")
        .args(words)
        .arg(file)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// Writes files below a folder.
fn write(folder: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

#[test]
fn a_configuration_of_several_files_is_served_as_it_says() {
    let root = DocumentRoot::wordpress();
    let folder = root.outside();
    let site = format!(
        "server {{ listen 80; server_name a.example; root {}; include snippets/php.conf;\n\
         location / {{ try_files $uri $uri/ /index.php?$args; }} }}",
        root.path().display()
    );
    let files = [
        (
            "nginx.conf",
            "events { }\nhttp { include sites-enabled/*; include none/*.conf; }",
        ),
        ("sites-enabled/a", &site),
        (
            "snippets/php.conf",
            "location ~ \\.php$ { fastcgi_pass unix:/run/php.sock; }",
        ),
    ];
    write(folder, &files);
    let (code, yaml, said) = import(&[], &folder.join("nginx.conf"));
    assert_eq!(code, Some(0), "{said}");
    for line in ["  - hosts: [\"a.example\"]", "    php: unix:/run/php.sock"] {
        assert!(yaml.contains(line), "{yaml}");
    }
    let settings = folder.join("nostat.yaml");
    fs::write(&settings, &yaml).unwrap();
    let check = Command::new(BINARY)
        .args(["check", "--config"])
        .arg(&settings)
        .output()
        .unwrap();
    assert!(check.status.success(), "{yaml}");
    let (code, by_itself, _) = import(&["--site", "a.example"], &folder.join("sites-enabled/a"));
    assert_eq!(code, Some(0));
    assert!(by_itself.contains("/run/php.sock"), "{by_itself}");
}

#[test]
fn what_is_left_out_is_status_2_and_named_with_its_line() {
    let root = DocumentRoot::wordpress();
    let file = root.outside().join("n.conf");
    fs::write(
        &file,
        "server { root /srv/a;\n listen 80;\n rewrite ^/a$ /b permanent;\n rewrite ^/c\\d$ /d permanent; }",
    )
    .unwrap();
    let (code, yaml, said) = import(&[], &file);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("n.conf:4: rewrite ^/c\\d$ /d permanent: no row of redirects sends"),
        "{said}"
    );
    assert!(yaml.contains("# left out: "), "{yaml}");
    assert!(yaml.contains("- {from: \"/a\", to: \"/b\"}"), "{yaml}");
    assert!(yaml.contains("root: /srv/a"), "{yaml}");
}

#[test]
fn what_cannot_be_read_is_status_1() {
    let root = DocumentRoot::wordpress();
    let file = root.outside().join("n.conf");
    for (text, needle) in [
        (
            "server {\n root /a;\n",
            "n.conf:3: the file ends within a block",
        ),
        ("events { }", "no server block"),
        ("", "no server block"),
    ] {
        fs::write(&file, text).unwrap();
        let (code, yaml, said) = import(&[], &file);
        assert_eq!((code, yaml.as_str()), (Some(1), ""), "{said}");
        assert!(said.contains(needle), "{said}");
    }
    let (code, _, said) = import(&[], Path::new("/nonexistent/nginx.conf"));
    assert_eq!(code, Some(1));
    assert!(
        said.contains("/nonexistent/nginx.conf: cannot be read"),
        "{said}"
    );
}

/// What nginx answers to these is written beside each, as its documentation says and its source does.
#[test]
fn what_is_imported_is_answered_as_nginx_does() {
    let root = DocumentRoot::empty();
    root.folder("staff");
    for file in ["staff/a.txt", "closed.txt", "a.txt"] {
        root.write(file, b"here");
    }
    let users = root.outside().join("users");
    fs::write(&users, "ann:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n").unwrap();
    let server = Nostat::start(&Config::static_files(&root));
    let file = root.outside().join("n.conf");
    let text = format!(
        "http {{ set_real_ip_from 127.0.0.1; server {{ listen 127.0.0.1:{}; server_name a.example www.a.example; root {};\n\
         if ($host = www.a.example) {{ return 301 $scheme://a.example$request_uri; }}\n\
         rewrite ^/moved/(.*)$ /to/$1 permanent;\n\
         rewrite ^/page$ https://b.example/page redirect;\n\
         location = /here {{ return 301 /there; }}\n\
         location ~ ^/kept/?$ {{ return 308 /there$is_args$args; }}\n\
         location ^~ /gone/ {{ return 410; }}\n\
         location ^~ /staff/ {{ auth_basic Staff; auth_basic_user_file {}; }}\n\
         location = /closed.txt {{ auth_basic Closed; auth_basic_user_file {}; satisfy any; allow 10.0.0.1; deny all; }}\n\
         location / {{ try_files $uri =404; }} }} }}",
        server.port(),
        root.path().display(),
        users.display(),
        users.display(),
    );
    fs::write(&file, text).unwrap();
    let (code, yaml, said) = import(&[], &file);
    assert_eq!(code, Some(2), "{said}");
    let admin_off = format!("{yaml}admin: off\n");
    server.rewrite_text(&admin_off);
    server.signal(Signal::HUP);
    let get = |host: &str, path: &str, fields: &[(&str, &str)]| {
        let fields: Vec<_> = std::iter::once(("Host", host))
            .chain(fields.iter().copied())
            .collect();
        let answer = server.get_with(path, &fields);
        let location = answer.field("location").unwrap_or("-").to_owned();
        (answer.status, location)
    };
    eventually("the imported settings", || {
        (get("a.example", "/gone/x", &[]).0 == 410).then_some(())
    });
    let port = server.port();
    for (host, path, status, location) in [
        ("a.example", "/a.txt", 200, "-".to_owned()),
        (
            "a.example",
            "/moved/x%20y?a=b",
            301,
            "/to/x%20y?a=b".to_owned(),
        ),
        (
            "a.example",
            "/page?a=b",
            302,
            "https://b.example/page?a=b".to_owned(),
        ),
        ("a.example", "/pages", 404, "-".to_owned()),
        ("a.example", "/here?a=b", 301, "/there".to_owned()),
        ("a.example", "/here", 301, "/there".to_owned()),
        ("a.example", "/kept/?a=b", 308, "/there?a=b".to_owned()),
        ("a.example", "/kept", 308, "/there".to_owned()),
        ("a.example", "/gone/", 410, "-".to_owned()),
        ("a.example", "/closed.txt", 403, "-".to_owned()),
        ("a.example", "/staff/a.txt", 401, "-".to_owned()),
        ("a.example", "/%73taff//a.txt", 401, "-".to_owned()),
        (
            "www.a.example",
            "/here?a=b",
            301,
            format!("http://a.example:{port}/here?a=b"),
        ),
        ("other.example", "/a.txt", 421, "-".to_owned()),
    ] {
        assert_eq!(
            get(host, path, &[]),
            (status, location),
            "{host} {path}\n{yaml}"
        );
    }
    let ann = [("Authorization", "Basic YW5uOnBhc3N3b3Jk")];
    assert_eq!(get("a.example", "/staff/a.txt", &ann).0, 200);
    assert_eq!(get("a.example", "/closed.txt", &ann).0, 403);
}
