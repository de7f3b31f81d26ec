//! Does a policy do what every policy must, and what it promises beyond that?
//!
//! Three kinds of trials, all in the simulator: scenarios made to ask one question each
//! ([`directed`]), random ones that nobody thought of ([`swarm`]), and small ones in every order
//! in which simultaneous events can happen ([`explore`]). A failing scenario is made as small as it
//! can be while it fails in the same way ([`shrink`]), and written as files ([`replay`]). The made
//! and the small scenarios are in [`scenarios`].
//!
//! What is asked is in [`promises`]; what was seen is measured in `facts`, from the simulator's
//! observations and not from what the policy says.

pub mod directed;
pub mod explore;
mod facts;
mod problem;
pub mod promises;
pub mod replay;
pub mod scenarios;
pub mod shrink;
pub mod swarm;
mod trial;
mod verdict;

pub use problem::{Problem, ProblemKind};
pub use promises::{PromiseError, Promises};
pub use scenarios::Scenario;
pub use trial::{Outcome, Subject};
pub use verdict::{Row, Verdict};
