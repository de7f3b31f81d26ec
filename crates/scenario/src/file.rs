//! The files of machines and workloads, read and written.

mod cgroups;
mod changes;
pub mod costs;
mod disturbances;
pub mod machine;
mod memory;
mod program;
mod sourced;
pub mod workload;
pub mod writing;
