//! The tests of what a policy must do, in one program, which is linked once.

mod mutants;
mod searches;
mod strict;
