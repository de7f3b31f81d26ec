//! Goal: a watched run ends where a pointer leaves its object, where the stack is read before it is
//! written and where something is not given back; what does nothing of that is left alone.

use std::collections::BTreeMap;

use bytecode::{Holding, World};

use crate::support::{Loaded, built_of, world};

const PROGRAM: &str = "
typedef unsigned long long u64;
typedef unsigned int u32;
u64 first[4] = {1, 2, 3, 4}, second[4] = {5, 6, 7, 8};
struct both { u64 a[2], b[2]; } both;
u64 kept;
extern u64 gives(u64, u64) __attribute__((section(\".ksyms\")));
extern u64 takes(u64 *) __attribute__((section(\".ksyms\")));
extern u64 begins(u64 *) __attribute__((section(\".ksyms\")));
extern u64 goes(u64 *) __attribute__((section(\".ksyms\")));
extern u64 ends(u64 *) __attribute__((section(\".ksyms\")));
u64 element(u64 n) {
	return first[n];
}
u64 within(u64 n) {
	return both.a[n];
}
u64 across(u64 n) {
	return second[n];
}
u64 compared(u64 n) {
	return (u64)&second[n] - (u64)&first[n];
}
u64 halved(u64 n) {
	u64 *p = &first[n];
	asm volatile(\"w1 = w1\" : \"+r\"(p));
	u32 half = (u64)p;
	asm volatile(\"\" : \"+r\"(half));
	return *(u64 *)(u64)half;
}
static __attribute__((noinline)) u64 through(u64 **where, u64 n) {
	return (*where)[n];
}
u64 spilled(u64 n) {
	u64 *p = first;
	return through(&p, n);
}
u64 own_memory(u64 n) {
	kept = (u64)&first[n];
	asm volatile(\"\" ::: \"memory\");
	return *(u64 *)kept;
}
u64 unwritten(u64 n) {
	volatile u64 seen[8];
	seen[2] = n;
	return seen[n & 7];
}
u64 beside_the_frame(u64 n) {
	volatile u64 seen[8];
	seen[n] = 1;
	return 0;
}
static __attribute__((noinline)) void show(u64 **to, u64 n) {
	volatile u64 mine = n;
	*to = (u64 *)&mine;
}
u64 gone(u64 n) {
	u64 *where;
	show(&where, n);
	asm volatile(\"\" ::: \"memory\");
	return *where;
}
u64 kept_for_ever(u64 n) {
	return gives((u64)first, 0) != 0;
}
u64 got_nothing(u64 n) {
	return gives(n, (u64)first & n);
}
u64 given_back(u64 n) {
	return takes((u64 *)gives((u64)first, 0)) + first[0];
}
u64 given_back_twice(u64 n) {
	u64 *p = (u64 *)gives((u64)first, 0);
	takes(p);
	return takes(p);
}
u64 used_afterwards(u64 n) {
	u64 *p = (u64 *)gives((u64)first, 0);
	takes(p);
	return *p;
}
u64 divided(u64 n) {
	return 100 / n;
}
u64 rest(u64 n) {
	return 100 % (u32)n;
}
u64 walked(u64 n) {
	u64 it = 0;
	begins(&it);
	goes(&it);
	return ends(&it);
}
u64 walked_on(u64 n) {
	u64 it = 0;
	begins(&it);
	ends(&it);
	return goes(&it);
}
";

/// A world whose calls give their first argument, and hold what their names say.
fn holding_world() -> World {
    let holdings = [
        ("gives", Holding::Gives),
        ("takes", Holding::Takes),
        ("begins", Holding::Begins),
        ("goes", Holding::Goes),
        ("ends", Holding::Ends),
    ];
    let mut world = world();
    for (number, (name, holding)) in (5..).zip(holdings) {
        world.functions.insert(name.into(), number);
        world.holdings.insert(number, holding);
    }
    world
}

#[test]
fn a_watched_run_ends_where_something_is_wrong_and_names_the_line() {
    let loaded = Loaded::new(&built_of(PROGRAM), &holding_world());
    let wrong = [
        ("element", 4, "reads 8 bytes right behind the end of variable first, which has 32 bytes"),
        ("element", 5, "reads 8 bytes, 8 bytes behind the end of variable first"),
        ("element", u64::MAX, "reads 8 bytes, 8 bytes before the beginning of variable first"),
        ("across", u64::MAX, "8 bytes before the beginning of variable second"),
        ("within", 4, "right behind the end of variable both, which has 32 bytes"),
        ("halved", 0, "through a number that is no pointer"),
        ("spilled", 4, "right behind the end of variable first"),
        ("own_memory", 0, "through a number that is no pointer"),
        ("unwritten", 3, "it reads 8 bytes of its stack, which nobody wrote"),
        ("beside_the_frame", 8, "right behind the end of a frame of its stack"),
        ("beside_the_frame", -57_i64 as u64, "8 bytes before the beginning of a frame"),
        ("divided", 0, "it divides by 0"),
        ("rest", 1 << 32, "it divides by 0"),
        ("gone", 1, "it uses the stack of a function that has returned"),
        ("kept_for_ever", 1, "what it gets here is never given back"),
        ("given_back_twice", 1, "it gives back what it did not get, or gave back before"),
        ("used_afterwards", 1, "it uses what it has given back"),
        ("walked_on", 1, "it uses an iterator that was not begun, or is destroyed"),
    ];
    let lines = lines();
    for (name, given, expected) in wrong {
        let fault = loaded.call_strictly(name, &[given]).expect_err(name);
        let told = fault.told(&loaded.program);
        assert!(told.contains(expected), "{name}: {told}");
        let line = told.split_once("test.c:").and_then(|(_, rest)| rest.split_once(':'));
        let line: usize = line.expect("a line").0.parse().expect("a number");
        let begin = lines[if name == "spilled" { "through" } else { name }];
        assert!((begin..begin + 6).contains(&line), "{name}: {told}");
    }
}

#[test]
fn a_watched_run_leaves_alone_what_is_right() {
    let loaded = Loaded::new(&built_of(PROGRAM), &holding_world());
    let right = [
        ("element", 3, 4),
        ("within", 3, 0),
        ("compared", 2, 32),
        ("spilled", 3, 4),
        ("unwritten", 2, 2),
        ("beside_the_frame", 7, 0),
        ("got_nothing", 0, 0),
        ("walked", 1, 0),
    ];
    for (name, given, expected) in right {
        let answer = loaded.call_strictly(name, &[given]);
        let answer = answer.map_err(|fault| fault.told(&loaded.program));
        if name == "walked" {
            assert!(answer.is_ok(), "{answer:?}");
        } else {
            assert_eq!(answer, Ok(expected), "{name}");
        }
    }
    assert!(loaded.call_strictly("given_back", &[1]).is_ok());
}

#[test]
fn what_a_run_held_is_nothing_to_the_next() {
    let loaded = Loaded::new(&built_of(PROGRAM), &holding_world());
    let mut machine = loaded.machine(false);
    machine.watch(true);
    for _ in 0..2 {
        let told = loaded.call_in(&mut machine, "kept_for_ever", &[1]).expect_err("it keeps it");
        assert!(told.told(&loaded.program).contains("never given back"));
        assert!(loaded.call_in(&mut machine, "given_back", &[1]).is_ok());
    }
}

#[test]
fn a_function_finds_nothing_written_in_its_frame() {
    let loaded = Loaded::new(&built_of(PROGRAM), &holding_world());
    let mut machine = loaded.machine(false);
    machine.watch(true);
    assert_eq!(loaded.call_in(&mut machine, "beside_the_frame", &[7]), Ok(0));
    let fault = loaded.call_in(&mut machine, "unwritten", &[7]).expect_err("it is another's");
    assert!(fault.told(&loaded.program).ends_with("of its stack, which nobody wrote"));
    machine.watch(false);
    assert!(loaded.call_in(&mut machine, "unwritten", &[7]).is_ok(), "a kernel lets it be");
}

/// The line in which each function begins.
fn lines() -> BTreeMap<&'static str, usize> {
    let function = |(line, text): (usize, &'static str)| {
        let name = text.rsplit_once('(')?.0.rsplit(' ').next()?;
        text.ends_with('{').then_some((name, line))
    };
    (1..).zip(PROGRAM.lines()).filter_map(function).collect()
}
