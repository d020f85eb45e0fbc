//! Which content codings a client takes (RFC 9110 §12.5.3).

use super::fields::{Fields, members, weighed};

/// A content coding that files are stored in.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Coding {
    /// None.
    Identity,
    /// `gzip` (RFC 1952).
    Gzip,
    /// `br` (RFC 7932).
    Brotli,
    /// `zstd` (RFC 8878).
    Zstd,
}

impl Coding {
    /// The coding's name, as Content-Encoding has it; none for identity.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Coding::Identity => None,
            Coding::Gzip => Some("gzip"),
            Coding::Brotli => Some("br"),
            Coding::Zstd => Some("zstd"),
        }
    }
}

impl Coding {
    /// The entity-tag of this form of a content whose own is `tag`: each form has one of its own (RFC 9110 §8.8.3.3).
    pub fn tag(self, tag: &[u8]) -> Vec<u8> {
        match (self.name(), tag.strip_suffix(b"\"")) {
            (Some(name), Some(start)) => [start, b"-", name.as_bytes(), b"\""].concat(),
            _ => tag.to_vec(),
        }
    }
}

/// The codings that a client takes, the ones it likes best first; among those it likes alike the smaller ones first.
///
/// A field without a word on a coding refuses it, but identity, which must be refused by name or by `*;q=0`. No field
/// asks for nothing, and gets identity: few clients without the field can decode anything.
pub fn acceptable<F: Fields + ?Sized>(fields: &F) -> impl Iterator<Item = Coding> + use<F> {
    let mut told = [None; CODINGS.len()];
    let mut any = None;
    for member in fields.lines("accept-encoding").flat_map(members) {
        let (name, quality) = weighed(member);
        let place = match name {
            name if name.eq_ignore_ascii_case(b"br") => Some(0),
            name if name.eq_ignore_ascii_case(b"zstd") => Some(1),
            name if name.eq_ignore_ascii_case(b"gzip") || name.eq_ignore_ascii_case(b"x-gzip") => {
                Some(2)
            }
            name if name.eq_ignore_ascii_case(b"identity") => Some(3),
            b"*" => {
                any = Some(quality);
                None
            }
            _ => None,
        };
        if let Some(told) = place.and_then(|place| told.get_mut(place)) {
            *told = Some(quality);
        }
    }
    let mut ranked = CODINGS.map(|coding| (coding, 0));
    for ((coding, quality), told) in ranked.iter_mut().zip(told) {
        // Identity is the last resort unless it is named.
        let unnamed = match coding {
            Coding::Identity => any.map_or(1, |any| any.min(1)),
            Coding::Gzip | Coding::Brotli | Coding::Zstd => any.unwrap_or(0),
        };
        *quality = told.unwrap_or(unnamed);
    }
    ranked.sort_by_key(|(_, quality)| std::cmp::Reverse(*quality));
    ranked
        .into_iter()
        .filter(|(_, quality)| *quality > 0)
        .map(|(coding, _)| coding)
}

/// The smaller ones first.
const CODINGS: [Coding; 4] = [Coding::Brotli, Coding::Zstd, Coding::Gzip, Coding::Identity];

#[cfg(test)]
mod tests {
    use super::Coding::{Brotli, Gzip, Identity, Zstd};
    use super::*;

    fn of(lines: &[&str]) -> Vec<Coding> {
        let fields: Vec<(Vec<u8>, Vec<u8>)> = lines
            .iter()
            .map(|line| (b"Accept-Encoding".to_vec(), line.as_bytes().to_vec()))
            .collect();
        acceptable(&fields[..]).collect()
    }

    #[test]
    fn what_is_named_is_taken_in_the_clients_order() {
        assert_eq!(of(&["gzip, deflate, br"]), [Brotli, Gzip, Identity]);
        assert_eq!(of(&["br;q=0.5, gzip"]), [Gzip, Brotli, Identity]);
        assert_eq!(of(&["gzip", "br;q=0.001"]), [Gzip, Brotli, Identity]);
        assert_eq!(of(&["x-gzip"]), [Gzip, Identity]);
        assert_eq!(of(&["GZIP;Q=1.0"]), [Gzip, Identity]);
        assert_eq!(of(&["identity, gzip;q=0.9"]), [Identity, Gzip]);
        assert_eq!(of(&["zstd, deflate"]), [Zstd, Identity]);
        assert_eq!(
            of(&["gzip, deflate, br, zstd"]),
            [Brotli, Zstd, Gzip, Identity]
        );
    }

    #[test]
    fn nothing_asked_for_is_identity() {
        assert_eq!(of(&[]), [Identity]);
        assert_eq!(of(&[""]), [Identity]);
    }

    #[test]
    fn a_weight_of_nothing_refuses() {
        assert_eq!(of(&["gzip;q=0, br"]), [Brotli, Identity]);
        assert_eq!(of(&["*;q=0"]), []);
        assert_eq!(of(&["identity;q=0, gzip"]), [Gzip]);
        assert_eq!(of(&["gzip, *;q=0"]), [Gzip]);
        assert_eq!(of(&["*"]), [Brotli, Zstd, Gzip, Identity]);
        assert_eq!(of(&["*;q=0.5, br;q=0"]), [Zstd, Gzip, Identity]);
    }

    #[test]
    fn a_weight_that_is_none_refuses() {
        for weight in ["2", "1.001", "0.1234", "-1", "", ".5", "1.x", "0,5"] {
            assert_eq!(of(&[&format!("gzip;q={weight}")]), [Identity], "{weight}");
        }
    }
}
