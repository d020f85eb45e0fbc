#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use proptest::prelude::*;

use super::*;

const PROXY: &str = "10.0.0.1:5000";

fn trusted() -> TrustedProxies {
    TrustedProxies::new(vec![
        "10.0.0.0/8".parse().unwrap(),
        "2001:db8:1::/48".parse().unwrap(),
    ])
}

fn fields(lines: &[(&str, &str)]) -> Vec<(Vec<u8>, Vec<u8>)> {
    lines
        .iter()
        .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
        .collect()
}

fn from(peer: &str, lines: &[(&str, &str)], client_ip_header: Option<&str>) -> Client {
    identify(
        peer.parse().unwrap(),
        false,
        &fields(lines)[..],
        &trusted(),
        client_ip_header,
    )
}

fn address(lines: &[&str]) -> String {
    let lines: Vec<_> = lines.iter().map(|it| ("X-Forwarded-For", *it)).collect();
    from(PROXY, &lines, None).address.to_string()
}

#[test]
fn without_fields_the_client_is_the_peer() {
    let client = from("192.0.2.7:1234", &[], None);
    assert_eq!(
        client,
        Client {
            address: "192.0.2.7".parse().unwrap(),
            port: 1234,
            https: false,
            server_port: None,
            trusted_peer: false
        }
    );
    let client = from(PROXY, &[], None);
    assert!(client.trusted_peer);
    assert_eq!(
        (client.address.to_string().as_str(), client.port),
        ("10.0.0.1", 5000)
    );
}

#[test]
fn nothing_counts_from_a_peer_that_is_not_trusted() {
    let lines = [
        ("X-Forwarded-For", "198.51.100.1"),
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Port", "443"),
        ("X-Client", "198.51.100.2"),
    ];
    let client = from("192.0.2.7:1234", &lines, Some("x-client"));
    assert_eq!(client, from("192.0.2.7:1234", &[], None));
    let over_tls = identify(
        "192.0.2.7:1".parse().unwrap(),
        true,
        &fields(&[("X-Forwarded-Proto", "http")])[..],
        &trusted(),
        None,
    );
    assert!(over_tls.https);
}

#[test]
fn the_right_most_address_that_is_not_trusted_counts() {
    assert_eq!(address(&["198.51.100.1"]), "198.51.100.1");
    assert_eq!(address(&["203.0.113.9, 198.51.100.1"]), "198.51.100.1");
    assert_eq!(
        address(&["203.0.113.9, 198.51.100.1, 10.1.1.1 , 10.2.2.2"]),
        "198.51.100.1"
    );
    assert_eq!(
        address(&["203.0.113.9", "198.51.100.1,10.1.1.1", "10.2.2.2"]),
        "198.51.100.1"
    );
    assert_eq!(address(&["10.3.3.3, 10.2.2.2"]), "10.3.3.3");
    assert_eq!(address(&["", " , "]), "10.0.0.1");
}

#[test]
fn an_entry_that_is_no_address_ends_the_walk() {
    assert_eq!(address(&["198.51.100.1, unknown, 10.2.2.2"]), "10.2.2.2");
    assert_eq!(address(&["198.51.100.1, <script>"]), "10.0.0.1");
    assert_eq!(address(&["unknown, 198.51.100.1"]), "198.51.100.1");
    assert_eq!(
        address(&["198.51.100.1", "x", "10.2.2.2, 10.3.3.3"]),
        "10.2.2.2"
    );
    assert_eq!(address(&["198.51.100.1, 999.1.1.1"]), "10.0.0.1");
    assert_eq!(address(&["198.51.100.1, [fe80::1%1]:80"]), "10.0.0.1");
}

#[test]
fn entries_may_carry_ports_brackets_and_quotes() {
    for (entry, expected, port) in [
        ("198.51.100.1:99", "198.51.100.1", 99),
        ("\"198.51.100.1\"", "198.51.100.1", 0),
        ("2001:db8::7", "2001:db8::7", 0),
        ("[2001:db8::7]", "2001:db8::7", 0),
        ("[2001:db8::7]:443", "2001:db8::7", 443),
        ("\"[2001:db8::7]:443\"", "2001:db8::7", 443),
        ("::ffff:198.51.100.1", "198.51.100.1", 0),
    ] {
        let client = from(PROXY, &[("x-forwarded-for", entry)], None);
        assert_eq!(client.address.to_string(), expected, "{entry}");
        assert_eq!(client.port, port, "{entry}");
    }
}

#[test]
fn ipv4_written_in_ipv6_is_ipv4() {
    let client = from(
        "[::ffff:10.0.0.1]:5000",
        &[("X-Forwarded-For", "198.51.100.1")],
        None,
    );
    assert!(client.trusted_peer);
    assert_eq!(client.address.to_string(), "198.51.100.1");
    let client = from("[::ffff:192.0.2.7]:5000", &[], None);
    assert_eq!(client.address.to_string(), "192.0.2.7");
    let mapped = TrustedProxies::new(vec!["::ffff:10.0.0.0/104".parse().unwrap()]);
    assert!(mapped.contains("10.9.9.9".parse().unwrap()));
    assert!(!mapped.contains("11.0.0.1".parse().unwrap()));
}

#[test]
fn a_header_of_its_own_is_the_only_one_believed() {
    let with = |value: &str| {
        let lines = [
            ("X-Forwarded-For", "198.51.100.1"),
            ("CF-Connecting-IP", value),
        ];
        from(PROXY, &lines, Some("CF-Connecting-IP"))
            .address
            .to_string()
    };
    assert_eq!(with("203.0.113.5"), "203.0.113.5");
    assert_eq!(with("2001:db8::9"), "2001:db8::9");
    assert_eq!(with("203.0.113.5, 203.0.113.6"), "10.0.0.1");
    assert_eq!(with("nobody"), "10.0.0.1");
    let twice = [("X-Client", "203.0.113.5"), ("X-Client", "203.0.113.6")];
    assert_eq!(
        from(PROXY, &twice, Some("x-client")).address.to_string(),
        "10.0.0.1"
    );
}

#[test]
fn scheme_and_port_follow_the_last_value_of_a_trusted_proxy() {
    let https = |lines: &[(&str, &str)]| from(PROXY, lines, None).https;
    assert!(!https(&[]));
    assert!(https(&[("X-Forwarded-Proto", "HTTPS")]));
    assert!(https(&[("X-Forwarded-Proto", "http, https")]));
    assert!(!https(&[
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Proto", "http")
    ]));
    assert!(!https(&[("X-Forwarded-Proto", "httpsx")]));

    let port = |value: &str| from(PROXY, &[("X-Forwarded-Port", value)], None).server_port;
    assert_eq!(port("8443"), Some(8443));
    assert_eq!(port("80, 443"), Some(443));
    for value in ["", "0", "65536", "-1", "x", "443x"] {
        assert_eq!(port(value), None, "{value}");
    }
}

#[test]
fn private_networks_hold_no_public_address() {
    let private = TrustedProxies::new(Networks::private());
    for inside in [
        "10.255.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "127.0.0.1",
        "100.64.0.1",
        "169.254.1.1",
        "::1",
        "fd00::1",
        "fe80::1",
        "::ffff:10.0.0.1",
    ] {
        assert!(private.contains(inside.parse().unwrap()), "{inside}");
    }
    for outside in [
        "172.32.0.1",
        "192.169.0.1",
        "100.128.0.1",
        "8.8.8.8",
        "::2",
        "2001:db8::1",
        "ff02::1",
    ] {
        assert!(!private.contains(outside.parse().unwrap()), "{outside}");
    }
    assert!(!TrustedProxies::default().contains("127.0.0.1".parse().unwrap()));
}

/// The rule as it is told: from the right, one entry after the other.
fn walked(entries: &[&str]) -> String {
    let mut found = "10.0.0.1".to_owned();
    for entry in entries.iter().rev() {
        let Ok(address) = entry.parse::<IpAddr>() else {
            break;
        };
        found = address.to_string();
        if !trusted().contains(address) {
            break;
        }
    }
    found
}

proptest! {
    #[test]
    fn any_list_gives_what_a_walk_from_the_right_gives(
        entries in proptest::collection::vec(
            prop_oneof![Just("10.1.1.1"), Just("10.2.2.2"), Just("198.51.100.1"), Just("203.0.113.9"), Just("unknown")],
            0..8,
        ),
    ) {
        prop_assert_eq!(address(&[&entries.join(", ")]), walked(&entries));
        prop_assert_eq!(address(&entries), walked(&entries));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(value in proptest::collection::vec(any::<u8>(), 0..60)) {
        let lines = [
            (b"x-forwarded-for".to_vec(), value.clone()),
            (b"x-forwarded-proto".to_vec(), value.clone()),
            (b"x-forwarded-port".to_vec(), value),
        ];
        let _ = identify(PROXY.parse().unwrap(), false, &lines[..], &trusted(), Some("x-forwarded-port"));
    }
}

fn by_forwarded(lines: &[(&str, &str)]) -> (String, u16, bool) {
    let client = from(PROXY, lines, Some("forwarded"));
    assert_eq!(client.server_port, None);
    (client.address.to_string(), client.port, client.https)
}

#[test]
fn forwarded_tells_the_right_most_client_that_is_not_trusted_and_its_scheme() {
    let told = |line: &str| by_forwarded(&[("Forwarded", line)]);
    let client = |address: &str, port, https| (address.to_owned(), port, https);
    assert_eq!(
        told("for=192.0.2.7;proto=https"),
        client("192.0.2.7", 0, true)
    );
    assert_eq!(
        told("for=\"192.0.2.7:47011\""),
        client("192.0.2.7", 47011, false)
    );
    assert_eq!(
        told("for=\"[2001:db8::7]:443\";proto=HTTPS"),
        client("2001:db8::7", 443, true)
    );
    assert_eq!(
        told("for=\"[2001:db8::7]:_x1\""),
        client("2001:db8::7", 0, false)
    );
    let chain = "for=203.0.113.9;proto=http, for=192.0.2.7;proto=https, for=10.0.0.9;proto=http";
    assert_eq!(told(chain), client("192.0.2.7", 0, true));
    // What hides its address ends the walk: what stands left of it anybody may have written.
    for hidden in ["unknown", "_proxy", "\"\"", "\"[fe80::1%eth0]\"", "1.2.3"] {
        let line = format!("for=203.0.113.9;proto=https, for={hidden}, for=10.0.0.9");
        assert_eq!(told(&line), client("10.0.0.9", 0, false), "{line}");
        let alone = format!("for=203.0.113.9;proto=https, for={hidden}");
        assert_eq!(told(&alone), client("10.0.0.1", 5000, false), "{alone}");
    }
    let lines = [
        ("Forwarded", "for=203.0.113.9"),
        ("forwarded", "for=192.0.2.7"),
    ];
    assert_eq!(by_forwarded(&lines), client("192.0.2.7", 0, false));
}

#[test]
fn with_forwarded_the_other_fields_do_not_count_and_without_it_it_does_not() {
    let others = [
        ("X-Forwarded-For", "203.0.113.9"),
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Port", "8443"),
    ];
    assert_eq!(by_forwarded(&others), ("10.0.0.1".to_owned(), 5000, false));
    let line = [("Forwarded", "for=192.0.2.7;proto=https")];
    assert_eq!(from(PROXY, &line, None).address.to_string(), "10.0.0.1");
    let stranger = from("198.51.100.1:1", &line, Some("forwarded"));
    assert_eq!(stranger.address.to_string(), "198.51.100.1");
    assert!(!stranger.https);
}

proptest! {
    #[test]
    fn what_a_client_writes_before_the_proxys_element_changes_nothing(own in "[ -!#-~]{0,40}") {
        let line = format!("{own}, for=192.0.2.7;proto=https");
        let told = by_forwarded(&[("Forwarded", &line)]);
        prop_assert_eq!(told, ("192.0.2.7".to_owned(), 0, true));
    }

    #[test]
    fn rendered_clients_are_read_again(address: IpAddr, https: bool) {
        let value = forwarded::rendered(address.to_canonical(), https);
        let lines = [(b"forwarded".to_vec(), value)];
        let peer = PROXY.parse().unwrap();
        let client = identify(peer, false, &lines[..], &TrustedProxies::default(), Some("forwarded"));
        prop_assert!(!client.trusted_peer);
        let trusting = TrustedProxies::new(vec!["10.0.0.1/32".parse().unwrap()]);
        let client = identify(peer, false, &lines[..], &trusting, Some("forwarded"));
        prop_assert!(client.address == address.to_canonical() || address == peer.ip());
        prop_assert_eq!(client.https, https);
    }
}
