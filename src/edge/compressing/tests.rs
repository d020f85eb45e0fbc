use parking_lot::Mutex;
use proptest::prelude::*;

use super::*;

/// All tests of this process share the encoders that there may be.
static ALONE: Mutex<()> = Mutex::new(());

fn begun(coding: Coding) -> (Option<Compressor>, ResponseHeader) {
    let mut response = ResponseHeader::build(200, None).expect("a head");
    let typed = response.insert_header("content-type", "text/html");
    typed.expect("a field");
    let settings = CompressionSettings::default();
    let compressor = Compressor::begin(&settings, Some(coding), false, &mut response);
    (compressor.expect("begun"), response)
}

#[test]
fn there_is_an_end_to_what_slow_clients_take_of_memory() {
    let _alone = ALONE.lock();
    let all = (0..MOST_IN_USE).map(|place| match place % 2 {
        0 => begun(Coding::Gzip).0,
        _ => begun(Coding::Zstd).0,
    });
    let mut all: Vec<_> = all.map(|one| one.expect("a place")).collect();
    let (none, plain) = begun(Coding::Zstd);
    assert!(none.is_none() && !plain.headers.contains_key(CONTENT_ENCODING));
    assert_eq!(plain.headers.first("vary"), Some(&b"Accept-Encoding"[..]));
    // What has ended is for the client to take, and has no place any more.
    let ended = all.last_mut().expect("one");
    let mut piece = Some(Bytes::from_static(b"all of it"));
    ended.next(&mut piece, true).expect("compressed");
    let plain = zstd::decode_all(&*piece.expect("bytes")).expect("whole");
    assert_eq!(plain, b"all of it");
    let another = begun(Coding::Gzip).0.expect("a place");
    assert!(begun(Coding::Gzip).0.is_none());
    drop(another);
    assert!(begun(Coding::Gzip).0.is_some());
}

fn unmarked(sent: &[u8]) -> (Vec<u8>, Option<Coding>) {
    let mut request = RequestHeader::build("GET", b"/", None).expect("a head");
    request
        .insert_header(IF_NONE_MATCH, sent)
        .expect("a value that came in a head");
    let coding = unmark_tags(&mut request).expect("a value");
    let value = request.headers.get(IF_NONE_MATCH).expect("still there");
    (value.as_bytes().to_vec(), coding)
}

proptest! {
    #[test]
    fn a_tag_comes_back_as_it_was(tag in "[!#-~]{0,40}", is_gzip: bool) {
        let coding = if is_gzip { Coding::Gzip } else { Coding::Zstd };
        let tag = format!("\"{tag}\"");
        let mut response = ResponseHeader::build(200, None).expect("a head");
        response.insert_header("ETag", &*tag).expect("a tag");
        mark_tag(&mut response, coding).expect("a tag");
        let marked = response.headers.get(ETAG).expect("a tag").as_bytes().to_vec();
        prop_assert!(marked != tag.as_bytes());
        prop_assert_eq!(unmarked(&marked), (tag.into_bytes(), Some(coding)));
    }

    #[test]
    fn what_was_not_marked_stays(sent in "[ -~]{0,60}") {
        let is_marked = sent.contains("-gzip\"") || sent.contains("-zstd\"");
        prop_assume!(!is_marked);
        prop_assert_eq!(unmarked(sent.as_bytes()), (sent.into_bytes(), None));
    }

    #[test]
    fn any_answer_comes_out_whole(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 0..8),
        is_gzip: bool,
        ends_with_a_piece: bool,
    ) {
        let coding = if is_gzip { Coding::Gzip } else { Coding::Zstd };
        let _alone = ALONE.lock();
        let mut compressor = begun(coding).0.expect("a place");
        let mut sent = Vec::new();
        for (number, content) in pieces.iter().enumerate() {
            let end = ends_with_a_piece && number + 1 == pieces.len();
            let mut piece = Some(Bytes::from(content.clone()));
            compressor.next(&mut piece, end).expect("no length was said");
            sent.extend_from_slice(&piece.unwrap_or_default());
        }
        let mut last = None;
        compressor.next(&mut last, true).expect("no length was said");
        sent.extend_from_slice(&last.unwrap_or_default());
        let mut plain = Vec::new();
        match is_gzip {
            true => {
                std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&sent[..]), &mut plain)
                    .expect("whole");
            }
            false => plain = zstd::decode_all(&sent[..]).expect("whole"),
        }
        prop_assert_eq!(plain, pieces.concat());
    }
}
