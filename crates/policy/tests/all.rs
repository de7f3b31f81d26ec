//! The policies' tests, in one program, which is linked once.

mod compile;
mod load;
mod loader;
mod sets;
mod table;
mod workshop;
