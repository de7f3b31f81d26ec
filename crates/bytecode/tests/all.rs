//! One program for all tests of the crate, so that it is linked once.

mod agreement;
mod arenas;
mod closed_ways;
mod faults;
mod hostile;
mod instructions;
mod oracle;
mod shipped;
mod stack;
mod strict;
mod support;
mod wide;
