//! BPF objects, read, linked and run. Nothing here knows what scheduling is.
//!
//! [`Object::read`] takes apart what clang built. [`Program::link`] joins it with a [`World`]: its
//! structures, its calls, its variables. A [`Machine`] runs its functions in a [`Memory`], beyond
//! which no program reaches: what it does wrong is a [`Fault`] with file and line. A machine that
//! watches also ends it where a pointer leads out of the object that it was derived from.

// Some is for translations alone.
#![cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(dead_code))]

mod arena;
mod btf;
mod compute;
mod error;
mod fault;
mod instruction;
mod kernel_names;
mod link;
mod mapping;
mod maps;
mod memory;
mod notes;
mod object_file;
mod paths;
mod program;
mod reader;
mod room;
mod run;
mod stack;
mod structures;
mod values;
mod ways;
mod wide;

pub use arena::{Arena, PAGE_BYTES, Reserved};
pub use btf::{Btf, BtfError, Member, Qualifier, SectionVariable, Type, TypeId, essential_name};
pub use error::{LinkError, ObjectError, Place};
pub use fault::{Beyond, Fault, FaultKind, Stop};
pub use instruction::{
    Arithmetic, AtomicKind, ByteOrder, Callee, Condition, Instruction, NoInstruction, Operand,
    Register, SLOT_BYTES, Size, Width,
};
pub use kernel_names::{kernel_call_name, kernel_calls, map_kind_name};
pub use link::{Addresses, World};
pub use mapping::NoAddresses;
pub use maps::{
    KEY_BYTES_MAX, Key, LOCKS_MAX, MapView, Maps, STORAGES_BEGIN, TimerCall, UnknownMap, arena_of,
    array_token, errno, kind, tokens,
};
pub use memory::{FRAME_BYTES, FRAMES_MAX, Full, Layout, MEMORY_BEGIN, Memory};
pub use notes::{FieldRelocation, Line, Notes, Question};
pub use object_file::{
    Code, Data, Extern, Function, MapDefinition, Object, Reference, Table, Variable,
};
pub use paths::{PathError, Spot, Step, read_path};
pub use program::{
    Elements, FUNCTIONS_BEGIN, Holding, Lock, Locks, Program, Rows, Shortcut, Walks,
};
pub use room::{Room, Shift};
pub use run::{Executed, Host, Machine, Run, Touch, Words};
pub use structures::{Field, Shape, Structure, Structures};
pub use values::NameOf;
pub use ways::Constant;
