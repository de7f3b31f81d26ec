//! The run queues' tests, in one program; those that count allocations have their own.

mod exact_order;
mod gavl_height;
mod inexact_order;
mod wake_ups;
