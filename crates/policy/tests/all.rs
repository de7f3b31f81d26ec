//! The policies' tests, in one program, which is linked once.

mod compile;
mod load;
mod sets;
mod table;
mod workshop;
