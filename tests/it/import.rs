//! `nostat import`: an nginx configuration in, settings on standard output, what they do not say on standard error.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::document_root::DocumentRoot;
use crate::support::nostat::BINARY;

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
