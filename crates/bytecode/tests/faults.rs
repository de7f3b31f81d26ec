//! Goal: what a program does wrong ends it, with the line, and nothing else happens.

use bytecode::{Field, Object, Shape};

use crate::support::{Answers, Loaded, built_of, world};

const WRONG: &str = "
typedef unsigned long long u64;
int table[4] = {1, 2, 3, 4};
const volatile int fixed[4] = {5, 6, 7, 8};
extern u64 sum(u64, u64, u64, u64, u64) __attribute__((section(\".ksyms\")));
extern u64 each(u64 (*f)(u64, u64), u64, u64) __attribute__((section(\".ksyms\")));
extern u64 refuse(void) __attribute__((section(\".ksyms\")));
u64 null(u64 *p) {
	return p[3];
}
u64 beyond(u64 n) {
	return table[n];
}
u64 write_fixed(u64 n) {
	*(volatile int *)&fixed[n & 3] = 9;
	return 0;
}
u64 wild(u64 at) {
	*(volatile char *)at = 1;
	return 0;
}
u64 endless(volatile u64 n) {
	while (n)
		n |= 1;
	return 0;
}
static __attribute__((noinline)) u64 deeper(u64 n) {
	volatile u64 one = n ? deeper(n - 1) : 0;
	return one + 1;
}
u64 depth(u64 n) {
	return deeper(n);
}
u64 sums(u64 a, u64 b) {
	return sum(a, b, 3, 4, 5);
}
static u64 twice(u64 a, u64 b) {
	return 2 * a + b;
}
static u64 wrong(u64 a, u64 b) {
	return *(u64 *)a + b;
}
u64 called_back(u64 a) {
	return each(twice, a, 7);
}
u64 wrongly_called_back(u64 a) {
	return each(wrong, a, 7);
}
u64 refused(void) {
	return refuse();
}
extern u64 often(u64 (*f)(void)) __attribute__((section(\".ksyms\")));
extern u64 broken(void) __attribute__((section(\".ksyms\")));
static u64 nothing(void) {
	return 0;
}
u64 called_back_for_ever(void) {
	return often(nothing);
}
u64 breaks(void) {
	return broken();
}
static u64 scribbles(u64 a, u64 b) {
	volatile u64 mine[8];
	for (int i = 0; i < 8; i++)
		mine[i] = b;
	return mine[a & 7];
}
static __attribute__((noinline)) u64 keeps(u64 n) {
	volatile u64 kept[8];
	for (int i = 0; i < 8; i++)
		kept[i] = n + i;
	u64 answer = each(scribbles, 1, 99);
	return kept[n & 7] + answer;
}
u64 keeps_its_frame(u64 n) {
	return keeps(n);
}
";

#[test]
fn a_fault_names_its_line_and_what_was_done() {
    let mut wrong = Loaded::new(&built_of(WRONG), &world());
    let mut told = |name: &str, given: u64| {
        let text = wrong.fault(name, &[given]);
        let (_, rest) = text.split_once("test.c:").expect("a file");
        rest.to_owned()
    };
    assert_eq!(told("null", 0), "9: null: it reads 8 bytes at 0x18, next to NULL");
    let far = 1 << 40;
    let text = told("beyond", far);
    assert!(text.starts_with("12: beyond: it reads 4 bytes at 0x4"), "{text}");
    assert!(text.ends_with("which is nothing of its own"), "{text}");
    let text = told("write_fixed", 1);
    assert!(text.starts_with("15: write_fixed: it writes 4 bytes at 0x1"), "{text}");
    assert!(text.ends_with("which it may only read"), "{text}");
    assert_eq!(
        told("wild", u64::MAX),
        "19: wild: it writes 1 byte at 0xffffffffffffffff, next to NULL"
    );
    let text = told("endless", 1);
    assert!(text.ends_with("it has not returned after 1000000 instructions"), "{text}");
    assert!(text.starts_with("23: endless") || text.starts_with("24: endless"), "{text}");
    let text = told("depth", 100);
    assert!(text.contains("deeper: calls are nested more than 8 deep"), "{text}");
    assert_eq!(told("refused", 0), "50: refused: the call was refused");
}

#[test]
fn the_memory_holds_what_was_there_before_a_fault() {
    let mut wrong = Loaded::new(&built_of(WRONG), &world());
    let before = wrong.memory.bytes(wrong.addresses.data[0], 16).expect("data").to_vec();
    wrong.fault("write_fixed", &[1]);
    wrong.fault("wild", &[0x10]);
    assert_eq!(wrong.memory.bytes(wrong.addresses.data[0], 16), Some(&before[..]));
}

#[test]
fn a_world_is_called_and_calls_back() {
    let mut sound = Loaded::new(&built_of(WRONG), &world());
    assert_eq!(sound.call("sums", &[1, 2]), Ok(15));
    assert_eq!(sound.call("called_back", &[20]), Ok(47));
    assert_eq!(sound.call("depth", &[5]), Ok(6));
    let text = sound.fault("wrongly_called_back", &[8]);
    // The place is that of the function that was called back.
    assert!(text.ends_with("test.c:41: wrong: it reads 8 bytes at 0x8, next to NULL"), "{text}");
}

#[test]
fn who_is_called_back_has_a_frame_and_instructions_of_its_callers_run() {
    let mut sound = Loaded::new(&built_of(WRONG), &world());
    assert_eq!(sound.call("keeps_its_frame", &[3]), Ok(3 + 3 + 99));
    let text = sound.fault("called_back_for_ever", &[]);
    assert!(text.contains("nothing: it has not returned after 1000000 instructions"), "{text}");
}

#[test]
fn a_panic_of_the_host_comes_out_of_translated_code() {
    let sound = Loaded::new(&built_of(WRONG), &world());
    let function = sound.object.functions.iter().position(|one| one.name == "breaks");
    let number = sound.program.function(function.expect("breaks")).expect("linked");
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        sound.machine(true).call(&mut Answers, number, [0; 5])
    }));
    let panic = caught.expect_err("a panic");
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"the host is broken"));
}

const FIELDS: &str = "
typedef unsigned long long u64;
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct inner { int unused; int load; };
struct thing {
	char first; u64 here; struct inner inner[3];
	u64 away; int narrow; unsigned shorter;
};
struct thing___other { u64 here; int gone; };
enum colour { RED = 1, GREEN = 2 };
#pragma clang attribute pop
extern u64 nobody(void) __attribute__((section(\".ksyms\"), weak));
u64 here(struct thing *t) { return t->here; }
u64 element(struct thing *t) { return t->inner[2].load; }
u64 narrow(struct thing *t) { return t->narrow; }
u64 shorter(struct thing *t) { return t->shorter; }
u64 flavour(struct thing___other *t) { return t->here; }
u64 away(struct thing *t) { return t->away; }
u64 asks_first(struct thing *t) {
	return __builtin_preserve_field_info(t->away, 2) ? t->away : 77;
}
u64 asks_for_a_function(void) { return nobody ? nobody() : 78; }
u64 calls_nobody(void) { return nobody(); }
u64 value(void) { return __builtin_preserve_enum_value(*(enum colour *)GREEN, 1); }
";

fn fields_of(structures: &mut bytecode::Structures) {
    let number = |bytes| Shape::Number { bytes, signed: true };
    let field = |name, offset, shape| Field { name, offset, shape };
    structures.structure("inner", 8, vec![field("load", 0, number(4))]);
    let inner = Shape::Array(Box::new(Shape::Structure("inner")), 3);
    structures.structure(
        "thing",
        64,
        vec![
            field("inner", 0, inner),
            field("here", 40, number(8)),
            field("narrow", 48, number(8)),
            field("shorter", 44, Shape::Number { bytes: 2, signed: false }),
        ],
    );
    structures.enumeration("colour", &[("GREEN", 40)]);
}

#[test]
fn fields_are_found_by_their_names() {
    let mut world = world();
    fields_of(&mut world.structures);
    let object = Object::read(&built_of(FIELDS)).expect("an object");
    let here: Vec<_> =
        ["here", "element", "flavour", "shorter", "asks_first", "asks_for_a_function", "value"]
            .map(|name| object.functions.iter().position(|one| one.name == name).expect(name))
            .into();
    let mut loaded = Loaded::linked(object, &here, &world).expect("a program");
    let thing = loaded.memory.add_writable(64, 8).expect("room");
    for n in 0..16 {
        loaded.memory.store(thing + 4 * n, bytecode::Size::Word, 100 + n).expect("a word");
    }
    assert_eq!(loaded.call("here", &[thing]), Ok(110 | 111 << 32));
    assert_eq!(loaded.call("element", &[thing]), Ok(104));
    assert_eq!(loaded.call("flavour", &[thing]), Ok(110 | 111 << 32));
    assert_eq!(loaded.call("shorter", &[thing]), Ok(111));
    assert_eq!(loaded.call("asks_first", &[thing]), Ok(77));
    assert_eq!(loaded.call("asks_for_a_function", &[]), Ok(78));
    assert_eq!(loaded.call("value", &[]), Ok(40));
}

#[test]
fn what_the_world_lacks_is_refused_by_name_before_it_runs() {
    let mut world = world();
    fields_of(&mut world.structures);
    let refusal = |name: &str| {
        let object = Object::read(&built_of(FIELDS)).expect("an object");
        let root = object.functions.iter().position(|one| one.name == name).expect(name);
        match Loaded::linked(object, &[root], &world) {
            Ok(_) => panic!("{name} was linked"),
            Err(error) => error,
        }
    };
    let text = refusal("away");
    let end =
        "test.c:18: away: thing.away does not exist; struct thing has inner, here, narrow, shorter";
    assert!(text.ends_with(end), "{text}");
    let text = refusal("calls_nobody");
    assert!(text.ends_with("test.c:23: calls_nobody: `nobody` is not offered"), "{text}");
    // A signed number of 4 bytes cannot be read where there are 8.
    let text = refusal("narrow");
    let width = "test.c:15: narrow: the object has a field of 4 bytes where there are 8,";
    assert!(text.contains(width), "{text}");
}
