//! An `.htaccess` file: any bytes are rules, and a file that denies all stays denied whatever stands before.

use nostat::site::htaccess::{Rules, Verdict, evaluate};

/// One input: the file, and behind its last empty byte the name of a file that it is asked of.
pub fn run(bytes: &[u8]) {
    let cut = bytes
        .iter()
        .rposition(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    let (text, name) = bytes.split_at(cut);
    let name = name.get(1..).unwrap_or(b"style.css");
    let rules = Rules::parse(text);
    let alone = evaluate([&rules].into_iter(), name);
    let deny = Rules::deny_all();
    // What lies deeper has the last word, but for sections for files, which come last wherever they stand.
    assert_ne!(evaluate([&rules, &deny].into_iter(), name), Verdict::Unsaid);
    let below = evaluate([&deny, &rules].into_iter(), name);
    assert_eq!(
        below,
        if alone == Verdict::Unsaid {
            Verdict::Denied
        } else {
            alone
        }
    );
}
