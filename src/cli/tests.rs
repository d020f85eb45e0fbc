#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use clap::error::ErrorKind;

use super::*;

fn command(words: &str) -> Result<Command, clap::Error> {
    Command::from_words(["nostat"].into_iter().chain(words.split_whitespace()))
}

#[test]
fn the_declaration_is_consistent() {
    Words::command().debug_assert();
}

#[test]
fn a_settings_file_is_served_with_and_without_the_verb() {
    let expected = Command::Serve(
        Source::Config(PathBuf::from("a.yaml")),
        logging::Format::Text,
    );
    assert_eq!(command("serve --config a.yaml").unwrap(), expected);
    assert_eq!(command("--config a.yaml").unwrap(), expected);
    assert_eq!(command("--config=a.yaml").unwrap(), expected);
}

#[test]
fn a_root_is_served_without_a_file() {
    let expected = Command::Serve(
        Source::Root {
            root: PathBuf::from("/srv/w"),
            php: None,
            listen: None,
        },
        logging::Format::Text,
    );
    assert_eq!(command("serve --root /srv/w").unwrap(), expected);
    let words = "serve --root /srv/w --php unix:/run/php.sock --listen [::1]:81";
    let expected = Command::Serve(
        Source::Root {
            root: PathBuf::from("/srv/w"),
            php: Some(Address::Unix(PathBuf::from("/run/php.sock"))),
            listen: Some("[::1]:81".parse().unwrap()),
        },
        logging::Format::Text,
    );
    assert_eq!(command(words).unwrap(), expected);
}

#[test]
fn the_log_may_be_json() {
    for words in [
        "serve --config a.yaml --log-format json",
        "--config a.yaml --log-format json",
    ] {
        let source = Source::Config(PathBuf::from("a.yaml"));
        assert_eq!(
            command(words).unwrap(),
            Command::Serve(source, logging::Format::Json)
        );
    }
    assert!(command("serve --config a.yaml --log-format xml").is_err());
}

#[test]
fn a_file_is_checked() {
    let expected = Command::Check(PathBuf::from("a.yaml"));
    assert_eq!(command("check --config a.yaml").unwrap(), expected);
}

#[test]
fn a_machine_is_examined() {
    let expected = |json, compare: Option<&str>| {
        Command::Doctor(Examination {
            config: PathBuf::from("a.yaml"),
            json,
            compare: compare.map(str::to_owned),
        })
    };
    assert_eq!(
        command("doctor --config a.yaml").unwrap(),
        expected(false, None)
    );
    assert_eq!(
        command("doctor --config a.yaml --json --compare http://127.0.0.1/").unwrap(),
        expected(true, Some("http://127.0.0.1/"))
    );
}

#[test]
fn an_nginx_configuration_is_imported() {
    let import = |site: Option<&str>| Command::Import {
        file: PathBuf::from("nginx.conf"),
        site: site.map(str::to_owned),
    };
    assert_eq!(command("import nginx.conf").unwrap(), import(None));
    let named = command("import --site a.example nginx.conf").unwrap();
    assert_eq!(named, import(Some("a.example")));
    assert!(command("import").is_err());
}

#[test]
fn a_running_server_is_asked_about_its_caches() {
    let asking = |question, site: Option<&str>, json| {
        Command::Ask(Asking {
            question,
            socket: PathBuf::from("/run/nostat/admin.sock"),
            site: site.map(str::to_owned),
            json,
        })
    };
    for (words, expected) in [
        (
            "cache ls",
            asking(Question::List("/".into(), 1000), None, false),
        ),
        (
            "cache ls /wp-content/ --limit 5 --site a.example --json",
            asking(
                Question::List("/wp-content/".into(), 5),
                Some("a.example"),
                true,
            ),
        ),
        (
            "cache show /x",
            asking(Question::Show("/x".into()), None, false),
        ),
        (
            "cache purge /x",
            asking(Question::Purge(Forget::Path("/x".into())), None, false),
        ),
        (
            "cache purge --prefix /x",
            asking(Question::Purge(Forget::Prefix("/x".into())), None, false),
        ),
        (
            "cache purge --tag x",
            asking(Question::Purge(Forget::Tag("x".into())), None, false),
        ),
        (
            "cache purge --all",
            asking(Question::Purge(Forget::All), None, false),
        ),
        (
            "cache warm *.css",
            asking(Question::Warm("*.css".into()), None, false),
        ),
    ] {
        assert_eq!(command(words).unwrap(), expected, "{words}");
    }
    for words in ["cache", "cache purge", "cache purge /x --all", "cache show"] {
        assert!(command(words).is_err(), "{words}");
    }
}

#[test]
fn words_that_do_not_go_together_are_refused() {
    for words in [
        "serve",
        "check",
        "serve --config a --root b",
        "serve --php 127.0.0.1:9000",
        "serve --config a --php 127.0.0.1:9000",
        "serve --config a --listen 127.0.0.1:80",
        "serve --root a --php nowhere",
        "serve --root a --listen 8080",
        "--config a serve --root b",
        "doctor",
        "help",
    ] {
        let error = command(words).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{words}");
    }
}

#[test]
fn a_port_alone_gets_an_address_to_copy() {
    let error = command("serve --root a --listen 8080")
        .unwrap_err()
        .to_string();
    assert!(error.contains("\"0.0.0.0:8080\""), "{error}");
}

#[test]
fn help_is_the_first_screen_of_a_manual() {
    for words in ["--help", "-h", ""] {
        let help = command(words).unwrap_err();
        let text = help.to_string();
        for part in [
            "Usage:\n  nostat serve --config FILE\n",
            "nostat serve --root DIR [--php ADDR] [--listen ADDR]",
            "root: /var/www/wordpress",
            "SIGHUP",
            "/run/php",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
    }
    assert_eq!(
        command("--version").unwrap_err().kind(),
        ErrorKind::DisplayVersion
    );
}
