//! A folder to write small policies in, build them, and throw all away afterwards.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use policy::{Compiler, Loaded, Native, Policy, PolicyError};

/// A policy with one of everything: kinds of tunables, arrays, maps, counters of its own.
pub const EVERYTHING: &str = r#"/* SPDX-License-Identifier: MIT */
/* everything - one of each thing that a loader meets.
 *
 * Not a scheduler: its operations only count.
 */
#include <scx/common.bpf.h>
#include <scx/topology.bpf.h>

char _license[] SEC("license") = "GPL";
UEI_DEFINE(uei);

enum mode { CALM, EAGER = 7 };

/* How long a turn lasts. */
const volatile u64 slice_ns = 3 * NSEC_PER_MSEC;
/* Added to each count; may
 * be negative. */
const volatile s32 bias = -5;
const volatile bool fair = true; /* Whether weights count. */
const volatile u8 small;
const volatile enum mode mode = EAGER;
const volatile u64 forever_ns = SCX_SLICE_INF;
static const volatile u32 private_constant = 1;
const u32 plain_constant = 2;

struct task_ctx {
	u64 vruntime;
	u32 queue;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} task_ctxs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 3);
	__type(key, u32);
	__type(value, u64[5]);
} per_cpu SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(key_size, 4);
	__uint(value_size, 12);
	__uint(max_entries, 64);
} table SEC(".maps");

u64 nr_calls;
s32 seen_bias;
u64 seen_core;

s32 BPF_STRUCT_OPS_SLEEPABLE(everything_init)
{
	u32 key = 0;

	nr_calls += private_constant;
	seen_bias = bias + small;
	seen_core = topology_core[1];
	return bpf_map_lookup_elem(&per_cpu, &key) ? 0 : -ENOENT;
}

void BPF_STRUCT_OPS(everything_enqueue, struct task_struct *p, u64 enq_flags)
{
	nr_calls += plain_constant;
	scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, slice_ns, enq_flags);
}

SCX_OPS_DEFINE(everything_ops,
	       .enqueue = (void *)everything_enqueue,
	       .init = (void *)everything_init,
	       .name = "everything");
"#;

/// A policy that counts in its own global how often it was initialised.
pub const COUNTING: &str = r#"/* counting - counts. */
#include <scx/common.bpf.h>
char _license[] SEC("license") = "GPL";

const volatile u32 step = 1;
u64 count;

s32 BPF_STRUCT_OPS_SLEEPABLE(counting_init)
{
	count += step;
	return (s32)count;
}

SCX_OPS_DEFINE(counting_ops, .init = (void *)counting_init, .name = "counting");
"#;

pub struct Workshop {
    pub folder: tempfile::TempDir,
    compiler: Compiler,
}

impl Workshop {
    /// A new folder; its name has a space, as a user's may.
    pub fn new(compiler: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("policy test ").tempdir().unwrap();
        Workshop { folder, compiler: Compiler::new(compiler) }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A copy of the headers that a test may edit.
    pub fn copy_headers(&self) -> PathBuf {
        let copy = self.path().join("include");
        fs::create_dir_all(copy.join("scx")).unwrap();
        for entry in fs::read_dir(headers().join("scx")).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), copy.join("scx").join(entry.file_name())).unwrap();
        }
        copy
    }

    /// Replaces `from`, which must be there, in a header of a copy.
    pub fn edit_header(&self, include: &Path, header: &str, from: &str, to: &str) {
        let path = include.join("scx").join(header);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{header} has no {from:?}");
        fs::write(path, text.replacen(from, to, 1)).unwrap();
    }

    pub fn build(&self, name: &str, text: &str) -> Result<Policy, PolicyError> {
        self.build_with(name, text, &headers())
    }

    pub fn build_with(
        &self,
        name: &str,
        text: &str,
        include: &Path,
    ) -> Result<Policy, PolicyError> {
        let source = self.path().join(format!("{name}.bpf.c"));
        fs::write(&source, text).unwrap();
        self.compiler.build(&source, &[include.to_owned()], &self.cache())
    }

    pub fn cache(&self) -> PathBuf {
        self.path().join("cache of objects")
    }
}

/// The headers of the repository.
pub fn headers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../policies/include")
}

/// Every compiler of this machine that policies must build with; says which are absent.
pub fn compilers() -> Vec<&'static str> {
    let present = |command: &&str| {
        let found = Command::new(command).arg("--version").output().is_ok();
        if !found {
            eprintln!("skipped: {command} is not installed (apt install {command})");
        }
        found
    };
    let found: Vec<_> = ["gcc", "clang-19"].into_iter().filter(present).collect();
    assert!(!found.is_empty(), "no compiler to test with");
    found
}

/// The copy in this machine's own instructions.
pub fn native(loaded: Loaded) -> Native {
    let Loaded::Native(native) = loaded else { panic!("an object: {loaded:?}") };
    native
}

/// Calls the policy's `init`, which must not need a host.
pub fn call_init(loaded: &Native) -> i32 {
    // SAFETY: the copy is loaded, and its `init` takes nothing.
    unsafe { ((*loaded.ops).init.unwrap())() }
}

/// The unsigned number in a global of up to 8 bytes.
pub fn number(loaded: &Native, name: &str) -> u64 {
    let bytes = loaded.read_global(name).unwrap();
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(&bytes);
    u64::from_le_bytes(wide)
}

pub fn settings(pairs: &[(&str, i64)]) -> BTreeMap<String, i64> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}
