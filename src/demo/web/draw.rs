//! Chance that is no chance: every draw is a function of the seed and of what it is for.

/// Spreads the bits of `value` so that neighbours have nothing in common.
fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// What a draw is for; draws for different purposes are independent.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    Size = 1,
    Host,
    Kind,
    Path,
    Wire,
    Links,
    Dress,
    Filler,
    Mirror,
    Redirect,
}

/// The draw for `purpose` at (`a`, `b`).
pub(super) fn draw(seed: u64, purpose: Purpose, a: u32, b: u32) -> u64 {
    let place = (u64::from(a) << 32) | u64::from(b);
    mix(mix(seed ^ (purpose as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)) ^ place)
}

/// A row of draws.
pub(super) struct Dice(u64);

impl Dice {
    /// The row for `purpose` at (`a`, `b`).
    pub(super) fn new(seed: u64, purpose: Purpose, a: u32, b: u32) -> Self {
        Dice(draw(seed, purpose, a, b))
    }

    /// The next draw.
    pub(super) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// The next draw, below `bound`, which must not be 0.
    pub(super) fn below(&mut self, bound: u32) -> u32 {
        // The upper half of a 32 × 32 bit product is below `bound`.
        (((self.roll() >> 32) * u64::from(bound)) >> 32) as u32
    }

    /// True once in `times`.
    pub(super) fn one_in(&mut self, times: u32) -> bool {
        self.below(times) == 0
    }
}
