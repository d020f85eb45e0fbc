//! What an entry is found by: the root's generation, the kind of look and the whole path.
//!
//! The hash is taken once per lookup, by a keyed hash since clients choose the paths, and serves to choose the shard
//! and within the shard's table. It never stands for the path: equal means equal bytes.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::Arc;

use super::found::Want;

/// An owned key; clones share the path.
#[derive(Clone, Debug)]
pub struct Key {
    hash: u64,
    generation: u64,
    want: Want,
    path: Arc<[u8]>,
}

impl Key {
    /// The generation of the root that the path stands below.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The kind of look.
    pub fn want(&self) -> Want {
        self.want
    }

    /// The path below the root.
    pub fn path(&self) -> &[u8] {
        &self.path
    }
}

/// A key that borrows its path, to look up without allocating.
#[derive(Copy, Clone, Debug)]
pub struct Probe<'a> {
    hash: u64,
    generation: u64,
    want: Want,
    path: &'a [u8],
}

impl Probe<'_> {
    /// The kind of look.
    pub fn want(&self) -> Want {
        self.want
    }

    /// Bits of the hash that choose a shard; the shard's table uses others.
    pub fn shard_bits(&self) -> usize {
        usize::from(u16::try_from((self.hash >> 40) & 0xFFFF).unwrap_or(0))
    }

    /// The key of the same parts.
    pub fn to_key(self) -> Key {
        Key {
            hash: self.hash,
            generation: self.generation,
            want: self.want,
            path: self.path.into(),
        }
    }
}

/// Makes keys; its secret differs in each process.
#[derive(Debug, Default)]
pub struct Hashing(RandomState);

impl Hashing {
    /// The key of these parts. Facts and content of a path are one entry.
    pub fn probe<'a>(&self, generation: u64, want: Want, path: &'a [u8]) -> Probe<'a> {
        let want = match want {
            Want::Facts | Want::Content => Want::Content,
            Want::Script => Want::Script,
        };
        let mut state = self.0.build_hasher();
        // One write per part would pad each of them; the generation and the want fit one word.
        state.write_u64((generation << 1) | u64::from(want == Want::Script));
        state.write(path);
        Probe {
            hash: state.finish(),
            generation,
            want,
            path,
        }
    }
}

/// What [`Key`] and [`Probe`] have in common; the table is asked by `&dyn KeyView`.
pub trait KeyView {
    /// The parts, borrowed.
    fn view(&self) -> Probe<'_>;
}

impl KeyView for Key {
    fn view(&self) -> Probe<'_> {
        Probe {
            hash: self.hash,
            generation: self.generation,
            want: self.want,
            path: &self.path,
        }
    }
}

impl KeyView for Probe<'_> {
    fn view(&self) -> Probe<'_> {
        *self
    }
}

impl<'a> Borrow<dyn KeyView + 'a> for Key {
    fn borrow(&self) -> &(dyn KeyView + 'a) {
        self
    }
}

impl PartialEq for Probe<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
            && self.generation == other.generation
            && self.want == other.want
            && self.path == other.path
    }
}

impl PartialEq for dyn KeyView + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.view() == other.view()
    }
}

impl Eq for dyn KeyView + '_ {}

impl Hash for dyn KeyView + '_ {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.view().hash);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.view() == other.view()
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// Passes on the hash that the key brings.
#[derive(Clone, Debug, Default)]
pub struct Prehashed;

impl BuildHasher for Prehashed {
    type Hasher = PrehashedHasher;

    fn build_hasher(&self) -> PrehashedHasher {
        PrehashedHasher::default()
    }
}

/// The hasher of [`Prehashed`].
#[derive(Debug, Default)]
pub struct PrehashedHasher(u64);

impl Hasher for PrehashedHasher {
    fn write(&mut self, bytes: &[u8]) {
        // Keys write one word; anything else still has to hash to something sound.
        for &byte in bytes {
            self.0 = (self.0.rotate_left(5) ^ u64::from(byte)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_tells_keys_apart() {
        let hashing = Hashing::default();
        let key = hashing.probe(1, Want::Content, b"a/b").to_key();
        assert_eq!(key, hashing.probe(1, Want::Content, b"a/b").to_key());
        for other in [
            hashing.probe(2, Want::Content, b"a/b"),
            hashing.probe(1, Want::Script, b"a/b"),
            hashing.probe(1, Want::Content, b"a/c"),
            hashing.probe(1, Want::Content, b""),
        ] {
            assert_ne!(key, other.to_key());
            assert!(<Key as Borrow<dyn KeyView>>::borrow(&key) != &other as &dyn KeyView);
        }
    }

    #[test]
    fn equal_hashes_do_not_make_equal_keys() {
        let one = Probe {
            hash: 7,
            generation: 1,
            want: Want::Content,
            path: b"a",
        };
        assert_ne!(one.to_key(), Probe { path: b"b", ..one }.to_key());
    }
}
