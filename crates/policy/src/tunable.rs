//! A number in a policy that a user may set.

/// A `const volatile` integer that a user may set before the policy starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunable {
    /// The variable's name in C, unit included: `slice_ns`.
    pub name: String,
    /// Its type as the source names it: `u64`, `bool`.
    pub type_name: String,
    /// Its size in bytes, 1 to 8.
    pub size: usize,
    /// Whether it can be negative.
    pub signed: bool,
    /// Whether only 0 and 1 are values.
    pub boolean: bool,
    /// Its value in the source.
    pub default: i128,
    /// What it is for: the comment at its definition, empty where there is none.
    pub doc: String,
    pub(crate) image_offset: usize,
}

impl Tunable {
    /// Smallest and largest value that its type can hold.
    pub fn range(&self) -> (i128, i128) {
        let bits = 8 * self.size as u32;
        match (self.boolean, self.signed) {
            (true, _) => (0, 1),
            (false, true) => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
            (false, false) => (0, (1 << bits) - 1),
        }
    }
}
