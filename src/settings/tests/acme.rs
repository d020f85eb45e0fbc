//! `acme` in `tls`, and what it takes from the rest of the file.

use crate::tls::settings::Acme;

use super::*;

const HOSTS: &str = "sites:\n  - {root: /srv, preset: static, hosts: [b.example, \"*.b.example\", 192.0.2.1, localhost], \
                     aliases: [a.example], redirect_hosts: [www.b.example, b_c.example]}\n";

fn ordered(tls: &str) -> Acme {
    let text =
        format!("listen: [\"[::]:80\", {{address: \"[::]:443\", tls: {{acme: {tls}}}}}]\n{HOSTS}");
    let settings = read(&text);
    let tls = settings.listen[1].tls.clone().unwrap();
    assert!(!tls.self_signed && tls.certificates.is_empty());
    tls.acme.unwrap()
}

#[test]
fn an_address_is_enough() {
    let acme = ordered("you@example.com");
    let expected = Acme {
        contact: Some("you@example.com".to_owned()),
        directory: "https://acme-v02.api.letsencrypt.org/directory".to_owned(),
        ca: None,
        // What HTTP-01 can prove to an authority of the Internet.
        hosts: ["a.example", "b.example", "www.b.example"]
            .map(String::from)
            .to_vec(),
        dir: "/var/lib/nostat/acme".into(),
    };
    assert_eq!(acme, expected);
    assert_eq!(ordered("{contact: you@example.com}"), expected);
}

#[test]
fn every_key_counts() {
    let acme = ordered("{directory: staging, hosts: [Z.example., intranet, z.example]}");
    assert!(acme.directory.contains("staging"), "{}", acme.directory);
    assert_eq!(acme.hosts, ["intranet", "z.example"]);
    assert_eq!(acme.contact, None);
    let url = "https://localhost:14000/dir";
    assert_eq!(ordered(&format!("{{directory: \"{url}\"}}")).directory, url);
    let text = format!(
        "listen: [\"[::]:80\", {{address: \"[::]:443\", tls: {{acme: {{}}}}}}]\nacme_store: {{dir: /srv/acme}}\n{HOSTS}"
    );
    let tls = read(&text).listen[1].tls.clone().unwrap();
    assert_eq!(tls.acme.unwrap().dir, Path::new("/srv/acme"));
}

#[test]
fn what_cannot_be_ordered_is_refused_where_it_stands() {
    for (tls, said) in [
        (
            "acme: you",
            "1:55: listen[1].tls.acme: \"you\" is no e-mail address",
        ),
        (
            "acme: \"a@b.example,c@d.example\"",
            "1:55: listen[1].tls.acme: \"a@b.example,c@d.example\" is no e-mail address",
        ),
        (
            "acme: \"a@b.example?cc=c\"",
            "1:55: listen[1].tls.acme: \"a@b.example?cc=c\" is no e-mail address",
        ),
        ("acme: on", "1:55: listen[1].tls.acme: \"on\" is no e-mail"),
        (
            "acme: {contat: a@b.example}",
            "1:56: listen[1].tls.acme.contat: the key \"contat\" is not known here; did you mean contact?",
        ),
        (
            "acme: {directory: \"http://ca.example\"}",
            "1:67: listen[1].tls.acme.directory: \"http://ca.example\" is no directory of an authority; expected production or staging",
        ),
        (
            "acme: {hosts: [\"*.example.com\"]}",
            "1:64: listen[1].tls.acme.hosts[0]: no certificate can be ordered for \"*.example.com\"; expected names one by one",
        ),
        (
            "acme: {hosts: [192.0.2.1]}",
            "1:64: listen[1].tls.acme.hosts[0]: no certificate can be ordered for \"192.0.2.1\"; expected a name",
        ),
        (
            "acme: {hosts: [\"[2001:db8::1]\"]}",
            "1:64: listen[1].tls.acme.hosts[0]: no certificate can be ordered for",
        ),
        (
            "acme: {hosts: [\"../a\"]}",
            "1:64: listen[1].tls.acme.hosts[0]: no certificate can be ordered for \"../a\"",
        ),
        (
            "acme: {hosts: []}",
            "1:63: listen[1].tls.acme.hosts: the list is empty",
        ),
        (
            "acme: {ca: ca.pem}",
            "1:60: listen[1].tls.acme.ca: \"ca.pem\" is not an absolute path",
        ),
        (
            "acme: a@b.example, self_signed: on",
            "1:48: listen[1].tls: certificates, acme and self_signed exclude each other",
        ),
        (
            "acme: a@b.example, certificates: [{certificate: /a, key: /a}]",
            "1:48: listen[1].tls: certificates, acme and self_signed exclude each other",
        ),
    ] {
        let text =
            format!("listen: [\"[::]:80\", {{address: \"[::]:443\", tls: {{{tls}}}}}]\n{HOSTS}");
        let found = mistakes(&text);
        let expected = format!("nostat.yaml:{said}");
        assert!(found[0].starts_with(&expected), "{tls}: {found:#?}");
        assert_eq!(found.len(), 1, "{found:#?}");
    }
}

#[test]
fn an_authority_needs_a_name_and_a_way_to_ask() {
    let found = mistakes(format!(
        "listen: {{address: \"[::]:443\", tls: {{acme: a@b.example}}}}\n{HOSTS}"
    ));
    let expected = "nostat.yaml:1:43: listen.tls.acme: the authority asks without TLS";
    assert!(found[0].starts_with(expected), "{found:#?}");
    let found = mistakes(
        "listen: [\"[::]:80\", {address: \"[::]:443\", tls: {acme: a@b.example}}]\n\
         sites: [{root: /srv, preset: static, hosts: [\"*.example\", localhost]}]\n",
    );
    let expected = "nostat.yaml:1:55: listen[1].tls.acme: no site has a host name";
    assert!(found[0].starts_with(expected), "{found:#?}");
    assert_eq!(found.len(), 1, "{found:#?}");
}

#[test]
fn the_machine_is_asked_for_the_store_and_the_authorities() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().display();
    std::fs::write(folder.path().join("none.pem"), "").unwrap();
    let text = |ca: &str, dir: &str| {
        format!(
            "listen: [\"[::]:80\", {{address: \"[::]:443\", tls: {{acme: {{ca: {root}/{ca}}}}}}}]\n\
             acme_store: {{dir: {dir}}}\nsites: [{{root: {root}, preset: static, hosts: a.example}}]\n"
        )
    };
    let found = |text: String| {
        let found = parse("x", text.as_bytes(), Checks::Machine).unwrap_err();
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let missing = found(text("gone.pem", &format!("{root}/acme")));
    assert!(missing[0].contains("acme.ca: "), "{missing:#?}");
    assert_eq!(missing.len(), 1, "{missing:#?}");
    let empty = found(text("none.pem", "/proc/acme"));
    assert!(
        empty
            .iter()
            .any(|said| said.contains("holds no certificate")),
        "{empty:#?}"
    );
}
