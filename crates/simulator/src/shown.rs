//! How large what a policy sees is, and what a reader calls it.

use crate::kernel::Masks;
use crate::linked::ARGUMENTS_MAX;
use crate::visible::{Facts, WALKS_MAX};
use crate::world::ExitInfo;
use policy::abi;
use std::mem::offset_of;

/// Something of which the policy has the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where it begins in what was placed.
    pub offset: usize,
    /// Its size.
    pub bytes: usize,
    /// What a reader calls it.
    pub name: &'static str,
}

const fn part<T>(offset: usize, name: &'static str) -> Part {
    Part { offset, bytes: size_of::<T>(), name }
}

/// A type whose values can be placed where the policy sees them.
pub trait Shown: Copy {
    /// What the policy has addresses of.
    const PARTS: &'static [Part];
}

macro_rules! shown {
    ($($of:ty: [$($part:expr),* $(,)?]),* $(,)?) => {
        $(impl Shown for $of { const PARTS: &'static [Part] = &[$($part),*]; })*
    };
}

const MASK: &str = "a cpumask";
/// A task's own mask, wherever the task is.
pub const TASK_MASK: Part = part::<abi::CpuMask>(offset_of!(abi::Task, cpus_mask), MASK);

shown! {
    Facts: [part::<u64>(offset_of!(Facts, hz), "CONFIG_HZ")],
    // A policy has only their numbers.
    [abi::DsqIterator; WALKS_MAX]: [],
    Masks: [
        part::<abi::CpuMask>(offset_of!(Masks, idle_cpus), "the mask of idle CPUs"),
        part::<abi::CpuMask>(offset_of!(Masks, idle_cores), "the mask of idle cores"),
        part::<abi::CpuMask>(offset_of!(Masks, online), "the mask of online CPUs"),
        part::<abi::CpuMask>(offset_of!(Masks, possible), "the mask of all CPUs"),
    ],
    abi::CpuMask: [part::<abi::CpuMask>(0, MASK)],
    abi::Task: [part::<abi::Task>(0, "an idle task"), TASK_MASK],
    abi::DispatchQueueView: [part::<abi::DispatchQueueView>(0, "a dispatch queue")],
    abi::AddressSpace: [part::<abi::AddressSpace>(0, "an mm_struct")],
    abi::InitTaskArgs: [part::<abi::InitTaskArgs>(0, "the arguments of init_task")],
    abi::ExitTaskArgs: [part::<abi::ExitTaskArgs>(0, "the arguments of exit_task")],
    ExitInfo: [part::<ExitInfo>(0, "the scx_exit_info")],
    [u64; ARGUMENTS_MAX]: [part::<[u64; ARGUMENTS_MAX]>(0, "the operation's arguments")],
    // The key of a timer.
    u32: [part::<u32>(0, "the timer's key")],
    // What a run queue is.
    u64: [part::<u64>(0, "a run queue")],
}
