//! The files of machines and workloads, read and written.

mod cgroups;
mod changes;
pub mod machine;
mod program;
pub mod workload;
pub mod writing;
