//! The policies' tests, in one program, which is linked once.

mod compile;
mod layout;
mod load;
mod sets;
mod workshop;
