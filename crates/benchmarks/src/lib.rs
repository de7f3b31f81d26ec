//! Workloads and benchmarks for real tasks, on whatever scheduler the kernel runs.
//!
//! [`play`] takes the same [`scenario::workload::Workload`] as the simulator and lets real
//! processes and threads do what its programs say. It needs neither root nor a particular
//! kernel; whoever wants another policy loads it first.
//!
//! [`measure`] has the benchmarks that schedulers have been compared by, hackbench and others; the
//! program `schedlab-bench` runs them.
//!
//! To read on: `player` watches over a play; `player::conductor` starts and ends its tasks;
//! `player::task` is what a task does; `player::stage` is the memory that they share.

pub mod costs;
pub mod limit;
pub mod measure;
mod player;
mod system;

pub use player::distribution::Distribution;
pub use player::error::{PlayError, Step, Who};
pub use player::requests::PlayedRequests;
pub use player::score::{Played, PlayedGroup, PlayedTask, Status};
pub use player::{Beside, Class, Options, Pace, Playing, check_playable, play, play_beside};
