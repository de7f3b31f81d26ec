//! Workloads that are made in Rust: those of well-known programs, and random ones.

pub mod builder;
pub mod counter;
pub mod draw;
pub mod ffmpeg;
pub mod hackbench;
pub mod lat_ctx;
pub mod lrzip;
pub mod random;
mod random_changes;
