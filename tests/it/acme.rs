//! Certificates that are ordered: what is shown until they come, what the authority may do wrong, and what is kept. With a real one:
//! `tests/nightly/acme`.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use rustix::process::Signal;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::admin::{ask, sample, with_socket};
use crate::support::client::Connection;
use crate::support::document_root::{DocumentRoot, STYLE_BYTES, STYLE_PATH};
use crate::support::eventually;
use crate::support::fake_authority::{self, FakeAuthority};
use crate::support::nostat::{Config, Nostat, free_port};
use crate::tls::{BOTH, client};

/// A WordPress whose certificates are ordered where nobody listens.
struct Ordering {
    root: DocumentRoot,
    config: Config,
    socket: PathBuf,
    address: SocketAddr,
    /// Where nobody listens.
    authority: u16,
}

impl Ordering {
    fn of(hosts: &str) -> Ordering {
        let root = DocumentRoot::wordpress();
        let (address, authority) = (SocketAddr::from(([127, 0, 0, 1], free_port())), free_port());
        let ca = rcgen::generate_simple_self_signed(["ca.test".to_owned()]).unwrap();
        fs::write(root.outside().join("ca.pem"), ca.cert.pem()).unwrap();
        let mut ordering = Ordering {
            config: Config::wordpress_alone(&root),
            root,
            socket: PathBuf::new(),
            address,
            authority,
        };
        ordering.config = ordering.listening(&ordering.acme(hosts));
        (ordering.config, ordering.socket) = with_socket(&ordering.root, ordering.config);
        ordering
    }

    fn acme(&self, hosts: &str) -> String {
        let (outside, authority) = (self.root.outside().display(), self.authority);
        format!(
            "{{acme: {{directory: \"https://127.0.0.1:{authority}/dir\", ca: \"{outside}/ca.pem\", hosts: [{hosts}]}}}}"
        )
    }

    /// The same at this authority, from where requests at the tests' own address are sent to https.
    fn at(&mut self, authority: SocketAddr, hosts: &str) -> &Config {
        self.authority = authority.port();
        self.config = self.listening(&self.acme(hosts));
        &self.config
    }

    /// The same with another `tls`.
    fn listening(&self, tls: &str) -> Config {
        let outside = self.root.outside();
        let config = Config::wordpress_alone(&self.root)
            .top(
                "acme_store",
                &format!("{{dir: \"{}/acme\"}}", outside.display()),
            )
            .listen(&format!("{{address: \"{}\", tls: {tls}}}", self.address));
        with_socket(&self.root, config).0
    }

    fn folder(&self) -> PathBuf {
        let name = format!("acme/127.0.0.1%3A{}%2Fdir", self.authority);
        self.root.outside().join(name)
    }

    /// Keeps a certificate of this name for a host, as an order does; its bytes.
    fn keep(&self, host: &str, name: &str) -> Vec<u8> {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        self.put(host, &(made.signing_key.serialize_pem() + &made.cert.pem()));
        made.cert.der().to_vec()
    }

    fn put(&self, host: &str, text: &str) {
        fs::create_dir_all(self.folder()).unwrap();
        let new = self.folder().join("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.folder().join(format!("{host}.pem"))).unwrap();
    }

    /// The same with one that is to be renewed by now, but will last until this year.
    fn keep_until(&self, host: &str, year: i32) -> Vec<u8> {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut wanted = rcgen::CertificateParams::new(vec![host.to_owned()]).unwrap();
        // Two thirds of its life are long over.
        wanted.not_before = rcgen::date_time_ymd(1900, 1, 1);
        wanted.not_after = rcgen::date_time_ymd(year, 1, 1);
        let made = wanted.self_signed(&key).unwrap();
        self.put(host, &(key.serialize_pem() + &made.pem()));
        made.der().to_vec()
    }

    fn shown(&self, host: &str) -> Vec<u8> {
        let mut connection = Connection::open_tls(self.address, client(host, BOTH));
        connection.get(STYLE_PATH).assert(200, STYLE_BYTES);
        connection.tls().peer_certificates().unwrap()[0].to_vec()
    }

    fn metric(&self, name: &str) -> Option<u64> {
        sample(&ask(&self.socket, "GET", "/metrics").1, name)
    }
}

const UNREACHABLE: &str = "nostat_acme_orders_total{result=\"unreachable\"}";

#[test]
fn an_authority_that_is_not_there_is_in_nobodys_way() {
    let ordering = Ordering::of("a.test, b.test");
    let path = "/.well-known/acme-challenge/of-certbot";
    ordering.root.write(&path[1..], b"proof");
    let server = Nostat::start(&ordering.config);
    let first = ordering.shown("a.test");
    assert_eq!(first, ordering.shown("b.test"), "one that was made here");
    server.get(STYLE_PATH).assert(200, STYLE_BYTES);
    // What another client has put there is the site's.
    server.get(path).assert(200, b"proof");
    let missing = server.get("/.well-known/acme-challenge/nobodys");
    assert_ne!(missing.status, 200);
    let said = server.wait_for_log(0, "cannot be ordered of");
    assert!(
        said.contains("refused") && said.contains("tried again on"),
        "{said}"
    );
    let counted = eventually("it is counted", || {
        ordering.metric(UNREACHABLE).filter(|count| *count > 0)
    });
    assert!(counted < 3, "{counted}");
    let labels = format!(
        "{{directory=\"https://127.0.0.1:{}/dir\",host=\"a.test\"}}",
        ordering.authority
    );
    let next = ordering.metric(&format!("nostat_acme_next_attempt_seconds{labels}"));
    assert!(next.is_some_and(|next| next > 1_700_000_000), "{next:?}");
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(ordering.folder()), 0o700);
    assert_eq!(mode(ordering.folder().join("_setback.json")), 0o600);
    assert_eq!(
        ordering.shown("a.test"),
        first,
        "who has let it pass is not asked again"
    );
    assert!(server.stop().status.success());
}

#[test]
fn what_is_kept_is_shown_and_nothing_worse_in_its_place() {
    let ordering = Ordering::of("a.test, b.test");
    let kept = ordering.keep("a.test", "a.test");
    let server = Nostat::start(&ordering.config);
    assert_eq!(ordering.shown("a.test"), kept);
    let stand_in = ordering.shown("b.test");
    assert_ne!(stand_in, kept);
    let renewed = ordering.keep("a.test", "a.test");
    eventually("the renewed one is shown", || {
        (ordering.shown("a.test") == renewed).then_some(())
    });
    let other = ordering.keep("b.test", "b.test");
    eventually("the other one has come", || {
        (ordering.shown("b.test") == other).then_some(())
    });
    let from = server.log().len();
    ordering.put("a.test", "-----BEGIN CERTIFICATE-----\n");
    server.wait_for_log(from, "an ordered certificate cannot be used");
    assert_eq!(ordering.shown("a.test"), renewed);
    let from = server.log().len();
    ordering.keep("a.test", "c.test");
    server.wait_for_log(from, "is for another host");
    assert_eq!(ordering.shown("a.test"), renewed);
}

#[test]
fn what_was_shown_before_a_reload_stays_until_there_is_a_better_one() {
    let ordering = Ordering::of("a.test, b.test");
    let made = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
    let outside = ordering.root.outside();
    fs::write(outside.join("a.crt"), made.cert.pem()).unwrap();
    fs::write(outside.join("a.key"), made.signing_key.serialize_pem()).unwrap();
    let folder = outside.display();
    let listed = ordering.listening(&format!(
        "{{certificates: [{{certificate: \"{folder}/a.crt\", key: \"{folder}/a.key\"}}]}}"
    ));
    let server = Nostat::start(&listed);
    let mine = ordering.shown("a.test");
    let reload = |config: &Config| {
        let from = server.log().len();
        server.rewrite(config);
        server.signal(Signal::HUP);
        server.wait_for_log(from, "reloaded");
    };
    reload(&ordering.config);
    assert_eq!(ordering.shown("a.test"), mine);
    assert_ne!(ordering.shown("b.test"), mine);
    let ordered = ordering.keep("a.test", "a.test");
    eventually("the ordered one is shown", || {
        (ordering.shown("a.test") == ordered).then_some(())
    });
    // And back.
    reload(&listed);
    assert_eq!(ordering.shown("a.test"), mine);
    assert_eq!(ordering.metric(UNREACHABLE), None);
}

const ISSUED: &str = "nostat_acme_orders_total{result=\"issued\"}";
const REFUSED: &str = "nostat_acme_orders_total{result=\"refused\"}";

#[test]
fn a_certificate_comes_and_is_not_ordered_again() {
    let mut ordering = Ordering::of("x.test");
    let plain = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let authority = FakeAuthority::start(plain, &ordering.root.outside().join("ca.pem"));
    // The proof is asked for where all else is sent to https, and by a host that no site has.
    let config = ordering.at(authority.address(), "a.test, b.test").clone();
    // Two addresses with the same names share their certificates.
    let second = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let tls = ordering.acme("a.test, b.test");
    let config = config
        .site("hosts", "[example.com]")
        .listen(&format!("{{address: \"{second}\", tls: {tls}}}"))
        .listen(&format!("{{address: \"{plain}\", redirect: https}}"));
    let server = Nostat::start(&config);
    eventually("both have come", || {
        (ordering.metric(ISSUED) == Some(2)).then_some(())
    });
    let files = ["a.test", "b.test"].map(|host| ordering.folder().join(format!("{host}.pem")));
    for path in files
        .iter()
        .chain([&ordering.folder().join("_account.json")])
    {
        let mode = fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", path.display());
    }
    let leaf = |path: &PathBuf| {
        let text = fs::read(path).unwrap();
        CertificateDer::from_pem_slice(&text).unwrap().to_vec()
    };
    let expected = [leaf(&files[0]), leaf(&files[1])];
    assert_ne!(expected[0], expected[1]);
    let shown_at = |address, host: &str| {
        let mut connection = Connection::open_tls(address, client(host, BOTH));
        let answer = connection.get_with(STYLE_PATH, &[("Host", "example.com")]);
        answer.assert(200, STYLE_BYTES);
        connection.tls().peer_certificates().unwrap()[0].to_vec()
    };
    let shown = |host: &str| shown_at(ordering.address, host);
    eventually("they are shown", || {
        let at_second = |host: &str| shown_at(second, host);
        let all = [shown("a.test"), at_second("b.test")];
        (all == expected).then_some(())
    });
    assert_eq!(ordering.metric(REFUSED), Some(0));
    assert!(server.stop().status.success());

    let server = Nostat::start(&config);
    assert_eq!(["a.test", "b.test"].map(shown), expected);
    let labels = format!(
        "{{directory=\"https://{}/dir\",host=\"b.test\"}}",
        authority.address()
    );
    eventually("they have been looked at", || {
        ordering.metric(&format!("nostat_acme_next_attempt_seconds{labels}"))
    });
    assert_eq!(ordering.metric(ISSUED), Some(0));
    assert_eq!(authority.ordered(), ["a.test", "b.test"]);
    assert_eq!(authority.accounts(), 1);
    drop(server);
}

#[test]
fn whatever_an_authority_does_wrong_the_one_in_use_stays() {
    use fake_authority::{
        ANOTHER_KEY, ANOTHER_NAME, BUSY, BUSY_SECONDS, ENDED, ENDLESS, NO_CERTIFICATE, ODD_TOKEN,
        SOON, SOONER,
    };
    let wrongs = [
        (ANOTHER_NAME, "is for evil.test, not for another-name.test"),
        (ENDED, "has ended already"),
        (ANOTHER_KEY, "do not belong together"),
        (SOONER, "ends sooner than the one in use"),
        (NO_CERTIFICATE, "holds no certificate"),
        (ENDLESS, "length limit exceeded"),
        (BUSY, "too many"),
        (ODD_TOKEN, "the token of a challenge is none"),
    ];
    let hosts = wrongs.map(|(host, _)| host);
    let mut ordering = Ordering::of("x.test");
    let plain = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let authority = FakeAuthority::start(plain, &ordering.root.outside().join("ca.pem"));
    let config = ordering.at(authority.address(), &hosts.join(", ")).clone();
    let kept = hosts.map(|host| ordering.keep_until(host, SOON + 1 - i32::from(host != SOONER)));
    let server = Nostat::start(&config.listen(&format!("\"{plain}\"")));
    let shown = || hosts.map(|host| ordering.shown(host));
    assert_eq!(shown(), kept);
    for (host, said) in wrongs {
        let line = server.wait_for_log(0, &format!("{host}: no certificate of"));
        assert!(line.contains(said), "{line}");
        assert!(line.contains("the one in use ends on"), "{line}");
    }
    eventually("all are counted", || {
        (ordering.metric(REFUSED) == Some(hosts.len() as u64)).then_some(())
    });
    assert_eq!(ordering.metric(ISSUED), Some(0));
    assert_eq!(shown(), kept);
    let (_, overview) = ask(&ordering.socket, "GET", "/overview");
    assert!(
        overview.contains("No certificate could be had for busy.test"),
        "{overview}"
    );
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs();
    for host in hosts {
        let labels = format!(
            "{{directory=\"https://{}/dir\",host=\"{host}\"}}",
            authority.address()
        );
        let next = ordering
            .metric(&format!("nostat_acme_next_attempt_seconds{labels}"))
            .unwrap();
        let least = if host == BUSY { BUSY_SECONDS } else { 300 };
        // An order and the log take a moment, the test's deadline at most for each.
        assert!(next + 20 * 8 > now + least, "{host}: {}", next - now);
    }
    let mut ordered = authority.ordered();
    ordered.sort();
    let mut expected = hosts.to_vec();
    expected.sort_unstable();
    assert_eq!(ordered, expected, "each once");
}

#[test]
fn an_authority_that_says_nothing_holds_up_nobody() {
    let mut ordering = Ordering::of("x.test");
    let authority = FakeAuthority::silent(&ordering.root.outside().join("ca.pem"));
    let config = ordering.at(authority.address(), "a.test").clone();
    let server = Nostat::start(&config);
    ordering.shown("a.test");
    eventually("it is asked", || {
        (authority.connections() > 0).then_some(())
    });
    // An order is under way, and neither of these waits for it.
    let from = server.log().len();
    server.signal(Signal::HUP);
    server.wait_for_log(from, "reloaded");
    server.get(STYLE_PATH).assert(200, STYLE_BYTES);
    assert_eq!(ordering.metric(UNREACHABLE), Some(0));
    // The harness waits less long than the order would be waited for.
    assert!(server.stop().status.success());
}
