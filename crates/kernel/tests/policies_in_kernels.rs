//! Goal: every policy is accepted by every kernel and does its work to the end, and a policy with a
//! mistake ends with the kernel's reason in plain words.
//! Method: boot each kernel of the cache that has sched_ext, load, play hackbench, read records.
//!
//! Needs clang-19, QEMU, a static guest and kernels, which are told by two variables; without them
//! the tests say so and pass:
//! `SCHEDLAB_GUEST=.../schedlab-guest SCHEDLAB_KERNELS=CACHE cargo test -p kernel --test
//! policies_in_kernels -- --nocapture`

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use kernel::initramfs::Initramfs;
use kernel::job::{Job, Play, PolicyJob, Work};
use kernel::kernels::{Cache, Kernel, SchedExt};
use kernel::records::{self, Record, Stage};
use kernel::vm::{Cpus, Options, Qemu, boot};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// All policies, and one that uses every call that kernels have renamed.
const POLICIES: [&str; 10] = [
    "policies/fifo",
    "policies/round_robin",
    "policies/linux_2_4",
    "policies/o1",
    "policies/cfs_2007",
    "policies/rfs",
    "policies/cfs",
    "policies/bfs",
    "policies/eevdf",
    "crates/kernel/tests/policies/renamed_calls",
];

/// The guest's program and the kernels to boot, or nothing where they were not named.
fn laboratory() -> Option<(PathBuf, Vec<Kernel>)> {
    let (Some(guest), Some(cache)) =
        (env::var_os("SCHEDLAB_GUEST"), env::var_os("SCHEDLAB_KERNELS"))
    else {
        eprintln!("skipped: SCHEDLAB_GUEST and SCHEDLAB_KERNELS do not say what to boot");
        return None;
    };
    let kernels = Cache::new(PathBuf::from(cache)).list().unwrap();
    let sound: Vec<_> = kernels.into_iter().filter(|k| k.sched_ext == SchedExt::Sound).collect();
    assert!(!sound.is_empty(), "no kernel of the cache has sched_ext");
    Some((guest.into(), sound))
}

/// Compiles a policy of the repository as BPF.
fn object(source: &str, directory: &Path) -> Vec<u8> {
    let object = directory.join("policy.o");
    let compiled = Command::new("clang-19")
        .args(["-std=gnu17", "-O2", "-g", "-target", "bpf", "-mcpu=v3"])
        .arg(format!("-I{ROOT}/policies/include"))
        .args(["-c", &format!("{ROOT}/{source}"), "-o"])
        .arg(&object)
        .status();
    assert!(compiled.unwrap().success(), "{source} does not compile");
    std::fs::read(object).unwrap()
}

/// Boots, loads the policy, plays a small hackbench, and gives what the guest told.
fn run(guest: &Path, kernel: &Kernel, source: &str, nr_cpus: u32) -> Vec<Record> {
    let directory = tempfile::tempdir().unwrap();
    let small = [("groups", "1"), ("loops", "10")];
    let play = Play {
        workload: "/hackbench.toml".into(),
        set: small.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        seed: 1,
        counts_instructions: false,
        record_kib_per_cpu: 0,
    };
    let job = Job {
        policy: Some(PolicyJob { object: "/policy.o".into(), set: BTreeMap::new() }),
        work: vec![Work::Play(play)],
        time_limit_ns: 60_000_000_000,
        ..Job::default()
    };
    let mut initramfs = Initramfs::new();
    initramfs.file("/init", std::fs::read(guest).unwrap(), true).unwrap();
    initramfs.file("/job.json", serde_json::to_vec(&job).unwrap(), false).unwrap();
    initramfs.file("/policy.o", object(source, directory.path()), false).unwrap();
    let workload = PathBuf::from(format!("{ROOT}/workloads/hackbench.toml"));
    initramfs.copy(&workload, "/hackbench.toml").unwrap();
    let options = Options { cpus: Cpus::count(nr_cpus), ..Options::default() };
    let mut vm = boot(&Qemu::find().unwrap(), kernel, &initramfs, &options).unwrap();
    let (lines, end) = vm.run_to_end().unwrap();
    let told: Vec<Record> = lines.iter().filter_map(|line| records::parse(line)).collect();
    let is_done = matches!(told.last(), Some(Record::Done { .. }));
    assert!(is_done, "{source} on {}: {end:?}\n{}", kernel.name, vm.console_tail());
    told
}

#[test]
fn every_policy_plays_hackbench_to_the_end_on_every_kernel() {
    let Some((guest, kernels)) = laboratory() else { return };
    for kernel in &kernels {
        for (policy, nr_cpus) in POLICIES.into_iter().zip([1, 2, 4].into_iter().cycle()) {
            let told = run(&guest, kernel, &format!("{policy}.bpf.c"), nr_cpus);
            let attached = told.iter().find_map(|record| match record {
                Record::Attached(attached) => Some(attached),
                _ => None,
            });
            let played = told.iter().find_map(|record| match record {
                Record::Played(play) => Some(play),
                _ => None,
            });
            let detached =
                told.iter().any(|r| matches!(r, Record::Detached(end) if end.kind == 64));
            let (Some(attached), Some(play), true) = (attached, played, detached) else {
                panic!("{policy} on {}: {told:#?}", kernel.name)
            };
            let verified: u32 = attached.programs.iter().map(|p| p.verified_instructions).sum();
            eprintln!(
                "{:10} {nr_cpus} CPUs {:13} {verified:6} instructions, loaded in {:4} ms, \
                 hackbench {:5} ms",
                kernel.name,
                attached.policy,
                attached.load_ns / 1_000_000,
                play.played.makespan_ns / 1_000_000
            );
        }
    }
}

/// What is wrong: the policy's file, the stage at which it ends, or `None` where it is ejected
/// after it was enabled, words of the reason and of the hint.
const MISTAKES: [(&str, Option<Stage>, &str, &str); 7] = [
    ("endless", Some(Stage::Load), "nfinite loop", ""),
    ("null_pointer", Some(Stage::Load), "null_pointer.bpf.c:20", "NULL"),
    ("init_fails", Some(Stage::Attach), "init() failed (-28)", "No space left"),
    ("bad_queue", None, "non-existent DSQ", "scx_bpf_create_dsq"),
    ("without_record", None, "non-existent DSQ", "scx_bpf_create_dsq"),
    ("gives_up", None, "was one too many after 100", ""),
    ("stalls", None, "failed to run for", "enqueue"),
];

#[test]
fn a_mistake_ends_with_the_kernels_reason_and_the_machine_goes_on() {
    let Some((guest, kernels)) = laboratory() else { return };
    for kernel in &kernels {
        for (name, stage, words, advice) in MISTAKES {
            let told =
                run(&guest, kernel, &format!("crates/kernel/tests/policies/{name}.bpf.c"), 2);
            let ended = told.iter().find_map(|record| match record {
                Record::Refused(no) => Some((Some(no.stage), no.reason.clone(), no.hint.clone())),
                Record::Ejected(exit) => Some((None, exit.sentence(), exit.hint.clone())),
                _ => None,
            });
            let (at, reason, hint) = ended.unwrap_or_else(|| panic!("{name} ended well: {told:?}"));
            eprintln!("{:10} {name}: {reason}\n{:10} hint: {hint}", kernel.name, "");
            assert_eq!(at, stage, "{name}: {reason}");
            assert!(reason.contains(words) && hint.contains(advice), "{name}: {reason} / {hint}");
        }
    }
}
