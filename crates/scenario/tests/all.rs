//! The scenarios' tests, in one program, which is linked once.

mod digests;
mod meaning;
mod messages;
mod random;
mod reference;
mod shipped;
mod writing;
