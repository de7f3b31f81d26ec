//! Does a policy do what every policy must, and what it promises beyond that?
//!
//! Three kinds of trials, all in the simulator: scenarios made to ask one question each
//! ([`directed`]), random ones that nobody thought of ([`swarm`]), and small ones in every order
//! in which simultaneous events can happen ([`explore`]). A failing scenario is made as small as it
//! can be while it fails in the same way ([`shrink`]), and written as files ([`replay`]).
//!
//! What is asked is in [`promises`]; what was seen is measured in `facts`, from the simulator's
//! observations and not from what the policy says.

pub mod directed;
pub mod explore;
mod facts;
pub mod promises;
pub mod replay;
pub mod shrink;
pub mod swarm;
mod trial;
mod verdict;

pub use promises::{PromiseError, Promises};
pub use trial::{Outcome, Problem, ProblemKind, Scenario, Subject};
pub use verdict::{Row, Verdict};
