//! No request target leads out of the document root.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nostat::request::head::Method;
use nostat::request::target::Target;

fuzz_target!(|raw: &[u8]| {
    for method in [Method::Get, Method::Options] {
        let Ok(target) = Target::parse(&method, raw) else {
            continue;
        };
        assert!(target.path.starts_with(b"/"));
        assert!(!target.path.iter().any(u8::is_ascii_control));
        let mut pieces = target.path.split(|byte| matches!(byte, b'/' | b'\\'));
        assert!(pieces.all(|piece| piece != b".."));
        assert_eq!(target.tree_path().is_none(), target.separator_in_segment);
        let _ = target.origin_form();
    }
});
