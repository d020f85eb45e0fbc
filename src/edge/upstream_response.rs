//! What of an origin's answer is for the connection it came on, and stays there.

use http::header::{CONNECTION, HeaderName, TRANSFER_ENCODING, UPGRADE};
use pingora_core::{Error, ErrorType, Result};
use pingora_http::ResponseHeader;

use crate::edge::handed::Handed;
use crate::request::fields::members;

/// Takes out the fields of the connection (RFC 9110 §7.6.1): those that Connection names, and those that always are. What
/// Pingora frames the answer by it takes out itself.
pub fn of_origin(response: &mut ResponseHeader) {
    let lines = response.headers.get_all(CONNECTION).into_iter();
    let named: Vec<HeaderName> = lines
        .flat_map(|line| members(line.as_bytes()))
        .filter_map(|name| HeaderName::from_bytes(name).ok())
        .filter(|name| ![TRANSFER_ENCODING, CONNECTION].contains(name))
        .collect();
    let switches = response.status == http::StatusCode::SWITCHING_PROTOCOLS;
    for name in named.iter().filter(|name| !(switches && **name == UPGRADE)) {
        response.remove_header(name);
    }
    for name in OF_A_CONNECTION {
        response.remove_header(name);
    }
    if !switches {
        response.remove_header(&UPGRADE);
    }
}

/// Takes an answer for the origin's word on a tunnel, where one was asked for.
///
/// # Errors
/// It is 101, and no tunnel was asked for or the answer names another protocol.
pub fn judge_switch(handed: &Handed, response: &ResponseHeader) -> Result<()> {
    if response.status != http::StatusCode::SWITCHING_PROTOCOLS {
        if let Some(grant) = &handed.tunnel
            && !response.status.is_informational()
        {
            grant.refuse();
        }
        return Ok(());
    }
    let mut to = response.headers.get_all(UPGRADE).iter();
    let switches = response.version == http::Version::HTTP_11
        && to
            .next()
            .is_some_and(|to| to.as_bytes().eq_ignore_ascii_case(b"websocket"))
        && to.next().is_none();
    match &handed.tunnel {
        Some(grant) if switches => {
            grant.give();
            Ok(())
        }
        _ => {
            let why = "101 that was not asked for";
            Err(Error::explain(ErrorType::InvalidHTTPHeader, why).into_up())
        }
    }
}

const OF_A_CONNECTION: [&str; 4] = ["keep-alive", "proxy-connection", "te", "trailer"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_connection_stay_on_it() {
        let mut response = ResponseHeader::build(200, None).expect("a head");
        for (name, value) in [
            ("Connection", "close, X-Hop, transfer-encoding"),
            ("Keep-Alive", "timeout=5"),
            ("X-Hop", "1"),
            ("Upgrade", "h2c"),
            ("TE", "x"),
            ("Transfer-Encoding", "chunked"),
            ("X-Stays", "1"),
        ] {
            response.append_header(name, value).expect("a field");
        }
        of_origin(&mut response);
        let mut names: Vec<&str> = response.headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["connection", "transfer-encoding", "x-stays"]);
    }

    #[test]
    fn a_switch_of_protocols_keeps_what_it_switches_to() {
        let mut response = ResponseHeader::build(101, None).expect("a head");
        response
            .append_header("Connection", "Upgrade")
            .expect("a field");
        response
            .append_header("Upgrade", "websocket")
            .expect("a field");
        of_origin(&mut response);
        assert!(response.headers.contains_key("upgrade"));
    }
}
