//! Text files without a compressed one beside them are compressed here, aside.

use std::io::Read;

use crate::admin::{ask, sample, with_socket};
use crate::support::client::Response;
use crate::support::document_root::DocumentRoot;
use crate::support::eventually;
use crate::support::mode::in_each_mode;
use crate::support::nostat::{Config, Nostat};
use crate::support::numbers::Numbers;

const PATH: &str = "/wp-content/script.js";

fn script(version: u32) -> Vec<u8> {
    let line = |number: u32| format!("function f{number}() {{ return {version} + {number}; }}\n");
    (0..2000).map(line).collect::<String>().into_bytes()
}

/// What no coding makes smaller.
fn noise() -> Vec<u8> {
    let mut numbers = Numbers(1);
    (0..50_000).map(|_| numbers.below(256) as u8).collect()
}

fn decoded(answer: &Response) -> Vec<u8> {
    let mut plain = Vec::new();
    match answer.field("content-encoding") {
        Some("br") => brotli::Decompressor::new(&*answer.body, 4096).read_to_end(&mut plain),
        Some("zstd") => {
            zstd::Decoder::new(&*answer.body).and_then(|mut it| it.read_to_end(&mut plain))
        }
        Some("gzip") => flate2::read::GzDecoder::new(&*answer.body).read_to_end(&mut plain),
        None => answer.body.as_slice().read_to_end(&mut plain),
        other => panic!("{other:?}"),
    }
    .expect("whole");
    plain
}

fn asked(server: &Nostat, path: &str, coding: &str) -> Response {
    server.get_with(path, &[("Accept-Encoding", coding)])
}

/// The first answer in this coding; all before it are right, too.
fn coded(server: &Nostat, coding: &str, content: &[u8]) -> Response {
    eventually("it is compressed", || {
        let answer = asked(server, PATH, coding);
        assert_eq!(answer.status, 200);
        assert!(decoded(&answer) == content, "another content");
        answer.field("content-encoding").is_some().then_some(answer)
    })
}

#[test]
fn a_file_that_is_asked_for_again_is_compressed_and_changes_are_seen() {
    in_each_mode(|mode| {
        let root = DocumentRoot::wordpress();
        root.write(&PATH[1..], &script(1));
        let config = mode.config(Config::wordpress_alone(&root));
        let (config, socket) = with_socket(&root, config);
        let server = Nostat::start(&config);
        let plain = server.settled(PATH);
        let br = coded(&server, "gzip, br", &script(1));
        assert_eq!(br.field("content-encoding"), Some("br"));
        assert!(br.body.len() * 3 < script(1).len(), "{}", br.body.len());
        assert_eq!(br.field("vary"), Some("Accept-Encoding"));
        assert_eq!(br.field("content-type"), plain.field("content-type"));
        let gzip = coded(&server, "gzip", &script(1));
        assert_eq!(gzip.field("content-encoding"), Some("gzip"));
        let zstd = coded(&server, "gzip, zstd", &script(1));
        assert_eq!(zstd.field("content-encoding"), Some("zstd"));
        assert!(zstd.etag() != gzip.etag() && br.etag() != zstd.etag());
        assert!(br.etag() != gzip.etag() && br.etag() != plain.etag());
        let conditional = |coding: &str, tag: &str| {
            let fields = [("Accept-Encoding", coding), ("If-None-Match", tag)];
            server.get_with(PATH, &fields).status
        };
        assert_eq!(conditional("br", br.etag()), 304);
        assert_eq!(conditional("br", gzip.etag()), 200);
        assert_eq!(conditional("br", plain.etag()), 200);
        let ranged = [
            ("Accept-Encoding", "br"),
            ("Range", "bytes=10-19"),
            ("If-Range", br.etag()),
        ];
        server.get_with(PATH, &ranged).assert(206, &br.body[10..20]);
        assert_eq!(asked(&server, PATH, "identity").body, script(1));
        assert_eq!(server.get(PATH).body, script(1));
        let metrics = ask(&socket, "GET", "/metrics").1;
        let bytes = sample(&metrics, "nostat_compressed_bytes").unwrap() as usize;
        assert_eq!(bytes, br.body.len() + gzip.body.len() + zstd.body.len());

        root.replace(&PATH[1..], &script(2));
        mode.soon("the new content is sent", || {
            decoded(&asked(&server, PATH, "br")) == script(2)
        });
        let later = coded(&server, "br", &script(2));
        assert_ne!(later.etag(), br.etag());
        // One beside it is preferred.
        root.replace(&format!("{}.br", &PATH[1..]), b"by a tool");
        mode.soon("the tool's is sent", || {
            asked(&server, PATH, "br").body == b"by a tool"
        });
    });
}

#[test]
fn what_is_small_or_no_text_or_asked_for_plain_is_not_compressed() {
    let root = DocumentRoot::wordpress();
    root.write("small.js", &script(1)[..900]);
    root.write("image.jpg", &script(1));
    root.write("noise.js", &noise());
    root.write(&PATH[1..], &script(1));
    let server = Nostat::start(&Config::wordpress_alone(&root));
    coded(&server, "br", &script(1));
    for _ in 0..20 {
        for path in ["/small.js", "/image.jpg", "/noise.js"] {
            assert_eq!(
                asked(&server, path, "br, gzip").field("content-encoding"),
                None,
                "{path}"
            );
        }
        assert_eq!(
            asked(&server, PATH, "br;q=0, gzip;q=0").field("content-encoding"),
            None
        );
    }
    let off = Nostat::start(&Config::wordpress_alone(&root).site("compression", "off"));
    for _ in 0..20 {
        assert_eq!(asked(&off, PATH, "br").field("content-encoding"), None);
    }
}
