//! What a simulation runs: a machine and a workload, and the files they are read from.

pub mod builder;
mod changes;
pub mod check;
mod counter;
mod digest;
pub mod draw;
pub mod duration;
mod error;
mod ffmpeg;
mod fit;
pub mod hackbench;
mod lat_ctx;
mod lrzip;
pub mod machine;
mod machine_file;
mod parameters;
mod program_file;
pub mod random;
mod random_changes;
mod reading;
pub mod workload;
mod workload_file;
mod writing;

pub use counter::Counter;
pub use draw::Random;
pub use error::ScenarioError;
pub use ffmpeg::Ffmpeg;
pub use fit::Origin;
pub use hackbench::Hackbench;
pub use lat_ctx::LatCtx;
pub use lrzip::Lrzip;
pub use machine_file::{COST_NS_MAX, HZ_MAX, load_machine, parse_machine};
pub use parameters::Parameter;
pub use random::random_scenario;
pub use workload_file::{load_workload, parse_workload, workload_parameters};
pub use writing::{Irregular, machine_text, workload_text};
