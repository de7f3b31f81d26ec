//! The race's tests, in one program; the one that counts bytes has its own.

mod heats;
mod plugins;
