//! How large what a policy sees is, and what a reader calls it.

use crate::abi;
use bytecode::Size;
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

impl Part {
    /// A value of this type.
    pub const fn of<T>(offset: usize, name: &'static str) -> Part {
        Part { offset, bytes: size_of::<T>(), name }
    }
}

/// A type whose values can be placed where the policy sees them.
pub trait Shown: Copy {
    /// What the policy has addresses of.
    const PARTS: &'static [Part];
}

macro_rules! shown {
    ($($of:ty: $name:literal),* $(,)?) => {
        $(impl Shown for $of {
            const PARTS: &'static [Part] = &[Part::of::<$of>(0, $name)];
        })*
    };
}

shown! {
    abi::DispatchQueueView: "a dispatch queue",
    abi::AddressSpace: "a struct mm_struct",
    abi::InitTaskArgs: "a struct scx_init_task_args",
    abi::EnableArgs: "a struct scx_enable_args",
    abi::ExitTaskArgs: "a struct scx_exit_task_args",
    abi::RunQueue: "a run queue",
    abi::GroupInit: "a struct scx_cgroup_init_args",
    abi::ExitInfo: "the struct scx_exit_info",
    abi::DumpContext: "the struct scx_dump_ctx",
    u32: "the timer's key",
    abi::Key: "the key of an entry",
}

impl Shown for abi::GroupView {
    const PARTS: &'static [Part] = &[
        Part::of::<abi::Group>(offset_of!(abi::GroupView, group), "a cgroup"),
        Part::of::<abi::GroupNode>(offset_of!(abi::GroupView, node), "a struct kernfs_node"),
    ];
}

/// The fields of a task that a policy may write (Linux kernel/sched/ext.c,
/// `bpf_scx_btf_struct_access`), the first two of them only where operations take CPUs
/// (`bpf_scx_cid_btf_struct_access`).
pub fn written_fields(takes_cids: bool) -> &'static [(usize, Size)] {
    const FIELDS: [(usize, Size); 3] = [
        (offset_of!(abi::Task, scx.slice), Size::Double),
        (offset_of!(abi::Task, scx.dsq_vtime), Size::Double),
        (offset_of!(abi::Task, disallow), Size::Byte),
    ];
    if takes_cids { &FIELDS[2..] } else { &FIELDS }
}
