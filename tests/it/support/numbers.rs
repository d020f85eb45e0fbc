//! Numbers that look random and are the same for the same seed.

pub struct Numbers(pub u64);

impl Numbers {
    /// The next one, below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound.max(1)
    }

    pub fn one_of<'a>(&mut self, all: &[&'a [u8]]) -> &'a [u8] {
        all[self.below(all.len())]
    }

    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}
