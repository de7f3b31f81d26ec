//! Machines and workloads: what they are, and what they must satisfy.

pub mod check;
mod digest;
pub mod duration;
pub(crate) mod error;
pub(crate) mod fit;
pub mod machine;
pub(crate) mod place;
pub(crate) mod text;
pub mod workload;
