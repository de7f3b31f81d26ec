//! Goal: what numbers of 64 bits take on a machine of 32 is near what a compiler for such a machine
//! makes of the same C, and addresses and narrow numbers take nothing.

use std::collections::BTreeMap;
use std::process::Command;

use crate::agreement::object_of;
use crate::instructions::slot;
use crate::support::{Loaded, built, built_of, crate_folder, world};
use bytecode::{Addresses, Program};

/// A compiler moves halves around, and keeps registers that it runs out of: it takes more.
const OF_COMPILERS_MIN: f64 = 0.65;
const OF_COMPILERS_MAX: f64 = 1.1;

/// Instructions of each function for i686.
fn compiled(narrow: bool) -> BTreeMap<String, u32> {
    let source = crate_folder().join("tests/programs/wide.c");
    let mut command = Command::new("clang-19");
    command.args(["-O2", "--target=i686-linux-gnu", "-fomit-frame-pointer", "-fno-pic"]);
    command.args(["-mno-sse", "-fno-asynchronous-unwind-tables", "-S", "-o", "-"]);
    let done = command.args(narrow.then_some("-DNARROW")).arg(source).output();
    let done = done.expect("clang-19 is installed");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let text = String::from_utf8(done.stdout).expect("assembly");
    let (mut counts, mut function) = (BTreeMap::new(), String::new());
    for line in text.lines() {
        let label = line.split(':').next().filter(|label| label.starts_with("f_"));
        if let Some(label) = label {
            function = label.to_owned();
        } else if line.starts_with("\t") && !line.starts_with("\t.") && !function.is_empty() {
            *counts.entry(function.clone()).or_insert(0) += 1;
        }
    }
    counts
}

/// What each function takes beside its instructions.
fn counted(options: &[&str]) -> BTreeMap<String, u32> {
    let source = crate_folder().join("tests/programs/wide.c");
    let loaded = Loaded::new(&built(&source, "v3", options), &world());
    let mut counts = BTreeMap::new();
    for (at, more) in loaded.program.wide(&[]).into_iter().enumerate() {
        *counts.entry(loaded.program.place(at).function).or_insert(0) += u32::from(more);
    }
    counts
}

#[test]
fn wide_numbers_take_nearly_what_a_compiler_for_32_bits_makes_of_them() {
    let (wide, narrow, counted) = (compiled(false), compiled(true), counted(&[]));
    let more: BTreeMap<_, u32> =
        wide.iter().map(|(name, count)| (name.clone(), count - narrow[name])).collect();
    assert_eq!(more.keys().collect::<Vec<_>>(), counted.keys().collect::<Vec<_>>());
    for (name, &own) in &counted {
        let theirs = more[name];
        assert!(own > 0 || theirs == 0, "{name}: {own} beside {theirs}");
        assert!(own <= 2 * theirs + 2, "{name}: {own} beside {theirs}");
    }
    let [own, theirs] = [&counted, &more].map(|all| f64::from(all.values().sum::<u32>()));
    let ratio = own / theirs;
    assert!((OF_COMPILERS_MIN..OF_COMPILERS_MAX).contains(&ratio), "{counted:?} beside {more:?}");
}

#[test]
fn narrow_numbers_and_addresses_take_nothing() {
    let counted = counted(&["-DNARROW"]);
    assert!(counted.values().all(|&more| more == 0), "{counted:?}");
}

/// What each instruction takes of a function that is given two numbers and writes R0 to its frame.
fn wide_of(body: &[[u8; 8]]) -> Vec<u8> {
    let mut code = body.to_vec();
    code.extend([slot(0x7b, 10, 0, -8, 0), slot(0x79, 0, 10, -8, 0), slot(0x7b, 1, 0, 0, 0)]);
    code.push(slot(0x95, 0, 0, 0, 0));
    let object = object_of(vec![code]);
    let program = Program::link(&object, &[0], &world(), &Addresses::default());
    program.expect("a sound program").wide(&[])[..body.len()].to_vec()
}

#[test]
fn each_operation_takes_what_halves_take() {
    let from_second = slot(0xbf, 0, 2, 0, 0);
    let after = |of: [u8; 8]| wide_of(&[from_second, of])[1];
    let by_register = |code: u8| after(slot(code, 0, 3, 0, 0));
    let [add, subtract, or, and, xor] = [0x0f, 0x1f, 0x4f, 0x5f, 0xaf].map(by_register);
    assert_eq!([add, subtract, or, and, xor], [1; 5]);
    assert_eq!(by_register(0x2f), 4, "three products and two sums");
    assert_eq!(after(slot(0x27, 0, 0, 0, 10)), 2, "two products and a sum");
    assert_eq!([0x6f, 0x7f, 0xcf].map(by_register), [5; 3], "shifts by what is not known");
    let shifted = |code: u8, by: i32| after(slot(code, 0, 0, 0, by));
    assert_eq!([shifted(0x67, 10), shifted(0x77, 10), shifted(0xc7, 10)], [1; 3]);
    assert_eq!([shifted(0x67, 32), shifted(0x77, 40), shifted(0xc7, 40)], [0; 3]);
    assert_eq!(after(slot(0x87, 0, 0, 0, 0)), 2, "it is subtracted from 0");
    assert_eq!(after(slot(0x0c, 0, 3, 0, 0)), 0, "of 32 bits");
    assert_eq!(after(slot(0x57, 0, 0, 0, 255)), 0, "its upper half is 0");
    assert_eq!(after(slot(0x79, 0, 1, 8, 0)), 1, "a load of both halves");
    assert_eq!(after(slot(0x61, 0, 1, 8, 0)), 0, "a load of one");
    assert_eq!(after(slot(0x7b, 1, 0, 8, 0)), 1, "a store of both halves");
    assert_eq!(after(slot(0x7b, 1, 10, 8, 0)), 0, "a store of an address");
}

#[test]
fn comparisons_ask_for_both_halves_of_numbers_but_not_of_addresses() {
    let jump = |code: u8, to: u8, from: u8, number: i32| {
        wide_of(&[slot(0xbf, 0, 2, 0, 0), slot(code, to, from, 0, number)])[1]
    };
    assert_eq!(jump(0x2d, 0, 3, 0), 2, "greater");
    assert_eq!(jump(0x1d, 0, 3, 0), 2, "equal");
    assert_eq!(jump(0x15, 0, 0, 0), 1, "equal to 0");
    assert_eq!(jump(0x1e, 0, 3, 0), 0, "of 32 bits");
    assert_eq!(jump(0x15, 1, 0, 0), 0, "R1 is an address, as the last store says");
    assert_eq!(jump(0x1d, 10, 3, 0), 0, "R10 is one");
    let [call, kept, first] = [[0x85, 0, 0, 7], [0xbf, 6, 0, 0], [0xbf, 1, 10, 0]]
        .map(|[code, to, from, number]| slot(code, to, from, 0, number.into()));
    let found = [call, kept, first, slot(0x15, 6, 0, 0, 0)];
    assert_eq!(wide_of(&found), [0; 4], "whether a call found something");
}

#[test]
fn an_upper_half_that_nobody_asks_for_is_not_computed() {
    let narrow = [slot(0xbf, 0, 2, 0, 0), slot(0x0f, 0, 3, 0, 0), slot(0xbc, 0, 0, 0, 0)];
    assert_eq!(wide_of(&narrow), [0; 3]);
    let shifted = [slot(0xbf, 0, 2, 0, 0), slot(0x0f, 0, 3, 0, 0), slot(0x77, 0, 0, 0, 32)];
    assert_eq!(wide_of(&shifted), [1, 1, 0]);
}

#[test]
fn a_loop_with_two_ways_back_is_done_with() {
    let text = "unsigned long long some[4];
        int f(void)
        {
            asm volatile(\"r6 = %[a]; r1 = %[a]; r5 = %[a]; r0 = 3;\
                1: r7 = *(u64 *)(r5 + 0); goto 4f;\
                2: r5 = r1; *(u64 *)(r6 + 0) = r5; r0 += -1; if r0 != 0 goto 1b; goto 5f;\
                4: goto 2b; 5:\"
                :: [a] \"r\"(some) : \"r0\", \"r1\", \"r5\", \"r6\", \"r7\", \"memory\");
            return 0;
        }";
    let loaded = Loaded::new(&built_of(text), &world());
    assert_eq!(loaded.program.wide(&[]).len(), loaded.program.instructions().len());
}
