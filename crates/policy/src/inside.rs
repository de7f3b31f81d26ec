//! What a policy has inside, for whoever looks at it while it runs: numbers by expressions, and
//! its variables and maps as text, by the types that its object describes.
//!
//! Where the bytes are its reader knows: a simulator has them in its memory, a kernel is asked.

mod number;
mod state;

pub use number::{Number, Place, find_number};
pub use state::{Entry, LISTED_MAX, Label, Values, dsq_name, heading, more, state_lines};
