//! The files of machines and workloads, read and written.

mod cgroups;
mod changes;
mod disturbances;
pub mod machine;
mod program;
mod sourced;
pub mod workload;
pub mod writing;
