//! The exact time ring with lanes that are settled by its type, so that the forms can be raced
//! and tested beside each other.

use super::{ExactTimeRing, Lanes};
use crate::RunQueue;

macro_rules! form {
    ($(#[$doc:meta])* $name:ident, $lanes:expr, $title:literal) => {
        $(#[$doc])*
        ///
        /// # Panics
        /// When it is made, if the processor does not have the lanes: ask `is_here`.
        #[derive(Clone, Debug)]
        pub struct $name(ExactTimeRing);

        impl RunQueue for $name {
            const NAME: &'static str = $title;

            fn is_here() -> bool {
                $lanes.is_here()
            }

            fn with_capacity(capacity: usize) -> Self {
                $name(ExactTimeRing::new(capacity, $lanes))
            }

            #[inline(always)]
            fn push(&mut self, item: u32, key: u64) {
                self.0.push(item, key);
            }

            #[inline(always)]
            fn pop(&mut self) -> Option<u32> {
                self.0.pop()
            }

            fn peek(&mut self) -> Option<u32> {
                self.0.peek()
            }

            #[inline(always)]
            fn remove(&mut self, item: u32) {
                self.0.remove(item);
            }

            #[inline(always)]
            fn key(&self, item: u32) -> u64 {
                self.0.key(item)
            }

            fn contains(&self, item: u32) -> bool {
                self.0.contains(item)
            }

            fn len(&self) -> usize {
                self.0.len()
            }

            fn for_each(&mut self, visit: &mut dyn FnMut(u32, u64)) {
                self.0.for_each(visit);
            }

            fn memory_bytes(&self) -> usize {
                self.0.memory_bytes()
            }
        }
    };
}

form! {
    /// In plain Rust.
    ExactTimeRingScalar, Lanes::Scalar, "exact_time_ring_scalar"
}
form! {
    /// With 256-bit vectors.
    ExactTimeRingAvx2, Lanes::Avx2, "exact_time_ring_avx2"
}
form! {
    /// With 512-bit vectors.
    ExactTimeRingAvx512, Lanes::Avx512, "exact_time_ring_avx512"
}
