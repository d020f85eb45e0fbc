use std::net::IpAddr;
use std::num::NonZeroU32;

use crate::clock::ManualClock;

use super::*;

type Lines = Vec<(&'static str, String)>;

struct Made {
    limits: RateLimits,
    counting: Arc<Counting>,
    hand: ManualClock,
}

fn rule(matches: &str, count: u32, seconds: u64, burst: u32) -> Rule {
    Rule {
        matches: match matches {
            rule::MISSING => Match::Missing,
            pattern => Match::Path(pattern.to_owned()),
        },
        rate: Rate {
            count: NonZeroU32::new(count).expect("not 0"),
            per: Duration::from_secs(seconds),
        },
        burst: NonZeroU32::new(burst).expect("not 0"),
    }
}

fn made(rules: &[Rule]) -> Made {
    let (clock, hand) = Clock::manual();
    let counting = Arc::new(Counting::new(clock));
    Made {
        limits: RateLimits::new(rules, &counting).expect("patterns"),
        counting,
        hand,
    }
}

fn client(address: &str) -> Client {
    Client {
        address: address.parse().expect("an address"),
        port: 0,
        https: false,
        server_port: None,
        trusted_peer: false,
    }
}

fn asks(made: &Made, path: &str, script: &str, address: &str) -> Result<(), TooMany> {
    let client = client(address);
    let asker = || Asker {
        client: &client,
        peer: client.address,
    };
    let (path, script) = (path.as_bytes(), Some(script.as_bytes()));
    made.limits.application(path, script, &none(), asker)?;
    made.limits.start(asker)
}

fn none() -> Lines {
    Vec::new()
}

impl Fields for Lines {
    fn lines<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> + 'a {
        self.iter()
            .filter(move |(other, _)| *other == name)
            .map(|(_, value)| value.as_bytes())
    }
}

#[test]
fn a_burst_then_the_rate_then_the_burst_again() {
    let made = made(&[rule("/login", 10, 60, 3)]);
    let ask = || asks(&made, "/login", "/index.php", "192.0.2.1");
    for _ in 0..3 {
        assert_eq!(ask(), Ok(()));
    }
    assert_eq!(ask(), Err(TooMany(Duration::from_secs(6))));
    made.hand.advance(Duration::from_secs(6));
    assert_eq!(ask(), Ok(()));
    assert!(ask().is_err());
    made.hand.advance(Duration::from_secs(60));
    for _ in 0..3 {
        assert_eq!(ask(), Ok(()));
    }
    assert!(ask().is_err());
    assert_eq!(
        made.counting
            .all()
            .iter()
            .map(|it| it.refused())
            .sum::<u64>(),
        3
    );
}

#[test]
fn each_client_has_a_bucket_of_its_own_and_an_ipv6_network_is_one() {
    let made = made(&[rule("/login", 1, 60, 1)]);
    let ask = |address| asks(&made, "/login", "/index.php", address);
    assert_eq!(ask("192.0.2.1"), Ok(()));
    assert_eq!(ask("192.0.2.2"), Ok(()));
    assert_eq!(ask("2001:db8::1"), Ok(()));
    assert!(ask("2001:db8::2").is_err());
    assert_eq!(ask("2001:db8:0:1::2"), Ok(()));
}

#[test]
fn no_way_of_asking_for_a_script_passes_by_its_rule() {
    for (path, script) in [
        ("/wp-login.php", "/wp-login.php"),
        ("/wp-login.php/x.css", "/wp-login.php"),
        ("/site-2/wp-login.php", "/wp-login.php"),
        ("/blog/wp-login.php", "/blog/wp-login.php"),
        ("/blog/wp-login.php/a/b.php", "?"),
    ] {
        let made = made(&Rule::defaults());
        let mut asked = 0;
        while asks(&made, path, script, "192.0.2.1").is_ok() {
            asked += 1;
            assert!(asked <= 10, "{path}");
        }
        assert_eq!(asked, 10, "{path}");
        assert_eq!(
            asks(&made, "/hello/", "/index.php", "192.0.2.1"),
            Ok(()),
            "{path}"
        );
    }
}

#[test]
fn who_asks_for_too_much_that_is_missing_waits_before_php_is_started() {
    let made = made(&[rule("missing", 1, 1, 5)]);
    let client = client("192.0.2.1");
    let asker = || Asker {
        client: &client,
        peer: client.address,
    };
    for _ in 0..5 {
        assert_eq!(asks(&made, "/never/", "/index.php", "192.0.2.1"), Ok(()));
        assert_eq!(made.limits.missing(&none(), asker), Ok(()));
    }
    assert!(made.limits.missing(&none(), asker).is_err());
    assert!(asks(&made, "/never/", "/index.php", "192.0.2.1").is_err());
    assert_eq!(asks(&made, "/never/", "/index.php", "192.0.2.2"), Ok(()));
    made.hand.advance(Duration::from_secs(1));
    // Looking takes nothing.
    for _ in 0..5 {
        assert_eq!(asks(&made, "/page/", "/index.php", "192.0.2.1"), Ok(()));
    }
}

#[test]
fn a_file_meets_only_rules_that_can_mean_files() {
    let made = made(&[rule("/wp-login.php", 1, 60, 1), rule("/big/", 1, 60, 1)]);
    let client = client("192.0.2.1");
    let asker = || Asker {
        client: &client,
        peer: client.address,
    };
    let ask = |path: &str| made.limits.file(path.as_bytes(), &none(), asker);
    assert_eq!(ask("/big/a.zip"), Ok(()));
    assert!(ask("/big/b.zip").is_err());
    for _ in 0..5 {
        assert_eq!(ask("/style.css"), Ok(()));
        assert_eq!(ask("/wp-login.php"), Ok(()));
    }
}

#[test]
fn a_peer_that_speaks_for_many_has_wider_limits_and_no_more_than_that() {
    let made = made(&[rule("/login", 1, 3600, 1)]);
    let peer: IpAddr = "192.0.2.1".parse().expect("an address");
    let client = client("192.0.2.1");
    let ask = |number: u32| {
        let fields: Lines = vec![("x-forwarded-for", format!("198.51.100.{number}"))];
        let asker = || Asker {
            client: &client,
            peer,
        };
        made.limits.application(b"/login", None, &fields, asker)
    };
    let first = (0..20).filter(|number| ask(*number).is_ok()).count();
    assert_eq!(first, 1, "so far it may be one client");
    let then = (20..200).filter(|number| ask(*number).is_ok()).count();
    assert_eq!(then, 32);
}

#[test]
fn rules_that_stay_keep_their_buckets_over_a_reload() {
    let login = rule("/login", 1, 60, 1);
    let made = made(std::slice::from_ref(&login));
    assert_eq!(asks(&made, "/login", "/index.php", "192.0.2.1"), Ok(()));
    let both = [rule("/other", 1, 60, 1), login];
    let limits = RateLimits::new(&both, &made.counting).expect("patterns");
    let again = Made { limits, ..made };
    assert!(asks(&again, "/login", "/index.php", "192.0.2.1").is_err());
    assert_eq!(again.counting.all().len(), 2);
}
