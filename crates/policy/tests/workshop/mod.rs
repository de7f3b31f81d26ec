//! A folder to write small policies in, build them, and throw all away afterwards.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use policy::{Compiler, Loaded, Objects, Policy, PolicyError, compile_while};

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
    /// A new folder, and the compiler that is found.
    pub fn new() -> Self {
        Workshop::with(Compiler::find(None, None).unwrap())
    }

    /// A new folder; its name has a space, as a user's may.
    pub fn with(compiler: Compiler) -> Self {
        let folder = tempfile::Builder::new().prefix("policy test ").tempdir().unwrap();
        Workshop { folder, compiler }
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
        self.take(&source, include, &self.objects())
    }

    /// Has the policy in `source` built, or takes it from where `objects` are.
    pub fn take(
        &self,
        source: &Path,
        include: &Path,
        objects: &Objects,
    ) -> Result<Policy, PolicyError> {
        compile_while(
            source,
            &[include.to_owned()],
            objects,
            || Ok(self.compiler.clone()),
            &mut || true,
        )
    }

    /// Where this folder's objects are.
    pub fn objects(&self) -> Objects {
        Objects { cache: self.cache(), ..Objects::default() }
    }

    pub fn cache(&self) -> PathBuf {
        self.path().join("cache of objects")
    }
}

/// The headers of the repository.
pub fn headers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../policies/include")
}

/// What the variable `name` of a copy begins with.
pub fn bytes(loaded: &Loaded, name: &str) -> Vec<u8> {
    let sections = loaded.object.data.iter().zip(&loaded.data);
    let mut found = sections.filter_map(|(data, bytes)| {
        let variable = data.variables.get(name)?;
        let mut whole = bytes.clone();
        whole.resize(data.len, 0);
        let of_section = |write: &&policy::Write| loaded.object.data[write.section] == *data;
        for write in loaded.writes.iter().filter(of_section) {
            let begins = write.offset as usize;
            whole[begins..begins + write.bytes.len()].copy_from_slice(&write.bytes);
        }
        let begins = variable.offset as usize;
        Some(whole[begins..begins + variable.bytes as usize].to_vec())
    });
    found.next().unwrap_or_else(|| panic!("no variable {name}"))
}

pub fn settings(pairs: &[(&str, i64)]) -> BTreeMap<String, i64> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}
