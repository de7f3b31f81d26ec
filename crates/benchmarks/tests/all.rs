//! The benchmarks' tests, in one program, which is linked once.

mod measures;
mod plays;
