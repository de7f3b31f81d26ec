//! Goal: what clang builds for BPF answers as what this machine's compiler builds of the same C.

use std::io::Write;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::support::{Loaded, built, crate_folder, world};

const CALLS: usize = 4000;

/// Calls of functions with two numbers, of which many are small, negative or at a border.
fn calls(names: &[String]) -> Vec<(String, u64, u64)> {
    let number = || {
        prop_oneof![
            any::<u64>(),
            (0..64_u64),
            any::<u32>().prop_map(u64::from),
            any::<i32>().prop_map(|n| n as i64 as u64),
            (0..64_u32, -2..3_i64).prop_map(|(bit, more)| (1_u64 << bit).wrapping_add_signed(more)),
        ]
    };
    let one = (prop::sample::select(names.to_vec()), number(), number());
    let mut runner = TestRunner::deterministic();
    let all = prop::collection::vec(one, CALLS).new_tree(&mut runner);
    all.expect("calls").current()
}

fn native_answers(calls: &[(String, u64, u64)]) -> Vec<u64> {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("oracle");
    let source = crate_folder().join("tests/programs/oracle.c");
    let built = Command::new("cc")
        .args(["-std=gnu17", "-O1", "-fwrapv", "-fno-strict-aliasing", "-o"])
        .args([&program, &source])
        .status();
    assert!(built.expect("a C compiler").success());
    let mut child = Command::new(&program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program just built");
    let lines: String = calls.iter().map(|(name, a, b)| format!("{name} {a:x} {b:x}\n")).collect();
    let mut input = child.stdin.take().expect("a pipe");
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = child.wait_with_output().expect("its answers");
    writer.join().expect("a thread").expect("all was read");
    let text = String::from_utf8(output.stdout).expect("numbers");
    text.lines().map(|line| u64::from_str_radix(line, 16).expect("a number")).collect()
}

#[test]
fn every_version_of_bpf_answers_as_the_machine() {
    let source = crate_folder().join("tests/programs/oracle.c");
    for cpu in ["v1", "v2", "v3", "v4"] {
        let mut loaded = Loaded::new(&built(&source, cpu, &[]), &world());
        let has = |name: &str| match name {
            "f_fetch" => matches!(cpu, "v3" | "v4"),
            "f_signed_division" => cpu == "v4",
            name => name.starts_with("f_"),
        };
        let functions = loaded.object.functions.iter().map(|one| one.name.clone());
        let names: Vec<_> = functions.filter(|name| has(name)).collect();
        assert!(names.len() >= 21, "{names:?}");
        let calls = calls(&names);
        let expected = native_answers(&calls);
        assert_eq!(expected.len(), calls.len());
        for (n, ((name, a, b), expected)) in calls.iter().zip(expected).enumerate() {
            let strictly = loaded.call_strictly(name, &[*a, *b]);
            let answer = loaded.call(name, &[*a, *b]);
            assert_eq!(answer, Ok(expected), "{cpu}: call {n}, {name}({a:#x}, {b:#x})");
            assert_eq!(strictly, Ok(expected), "{cpu}: call {n}, {name}({a:#x}, {b:#x})");
        }
    }
}
