//! The structures schedulers queue tasks in. They know nothing of scheduling: they hold
//! numbers, in an order.

mod fifo;
mod ordered;

pub use fifo::Fifo;
pub use ordered::{Key, Ordered};
