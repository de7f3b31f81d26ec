//! What a simulation runs: a machine and a workload, and the files they are read from.
//!
//! `model` says what they are, `reading` takes values and parameters from TOML, `made` makes
//! workloads in Rust, `file` reads and writes whole files. Each may use those before it.

mod file;
mod made;
mod model;
mod reading;

pub use file::costs::COST_NS_MAX;
pub use file::machine::{HZ_MAX, load_machine, parse_machine};
pub use file::workload::{load_workload, parse_workload, workload_parameters};
pub use file::writing::{Irregular, machine_text, workload_text};
pub use made::counter::Counter;
pub use made::draw::Random;
pub use made::ffmpeg::Ffmpeg;
pub use made::hackbench::Hackbench;
pub use made::lat_ctx::LatCtx;
pub use made::lrzip::Lrzip;
pub use made::random::random_scenario;
pub use made::{builder, draw, hackbench, random};
pub use model::error::ScenarioError;
pub use model::place::Origin;
pub use model::{check, duration, machine, workload};
pub use reading::parameters::Parameter;
