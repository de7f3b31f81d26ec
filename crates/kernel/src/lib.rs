//! Policies in a real Linux kernel.
//!
//! A policy's BPF object is loaded through sched_ext, on this machine or in a virtual machine
//! that is booted for it; what happens comes back as [`records`], whichever of the two it was.
//! Only the feature `bpf` needs libelf; without it everything but the loader is there.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub(crate) use child::sink;

pub mod initramfs;
pub mod job;
pub mod kernels;
pub mod records;
pub mod trace;
pub mod vm;
mod ways_out;

#[cfg(feature = "bpf")]
pub mod guest;
#[cfg(feature = "bpf")]
pub mod loader;

pub use ways_out::way_out;
