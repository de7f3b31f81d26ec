//! Goal: no bytes make the reader or the interpreter panic, hang or reach outside.

use proptest::prelude::*;

use bytecode::{Btf, BtfError, Object};

use crate::support::{Loaded, built, built_of, crate_folder, world};

const SMALL: &str = "
int table[8]; const volatile unsigned key = 3;
extern unsigned long sum(unsigned long, unsigned long) __attribute__((section(\".ksyms\")));
struct s { int a; long b; } __attribute__((preserve_access_index));
static __attribute__((noinline)) int more(int n) { return table[n & 7] * 3; }
int f(struct s *p) { table[key & 7] = more((int)p->b) + (int)sum(p->a, 2); return table[1]; }
";

/// Reads an object and runs each of its functions, if it can be read at all. Whoever is watched and
/// comes to its end does the same unwatched.
fn tried(bytes: &[u8]) {
    let Ok(object) = Object::read(bytes) else { return };
    let roots: Vec<_> = (0..object.functions.len()).collect();
    let names: Vec<_> = object.functions.iter().map(|one| one.name.clone()).collect();
    let mut world = world();
    world.structures.structure("s", 16, vec![]);
    let Ok(mut loaded) = Loaded::linked(object, &roots, &world) else { return };
    for name in names {
        let watched = loaded.call_strictly(&name, &[0, 1, 2]);
        let answer = loaded.call(&name, &[0, 1, 2]);
        if watched.is_ok() {
            assert_eq!(watched, answer, "{name}");
        }
        for fault in [watched, answer].into_iter().filter_map(Result::err) {
            fault.told(&loaded.program);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(3000)
    })]

    #[test]
    fn damaged_objects_are_refused_or_run_to_an_end(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::weighted(0.1, any::<prop::sample::Index>()),
    ) {
        static SOUND: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
        let mut bytes = SOUND.get_or_init(|| built_of(SMALL)).clone();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        tried(&bytes);
    }

    #[test]
    fn any_code_is_refused_or_runs_to_an_end(
        code in prop::collection::vec(instruction(), 1..40),
    ) {
        static SOUND: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
        let sound = SOUND.get_or_init(|| crate::instructions::patched(&[[0; 8]; 40]));
        let mut bytes = sound.clone();
        let at = bytes.windows(320).position(|bytes| bytes == [0; 320]).expect("placeholders");
        for n in 0..40 {
            // What is not given does nothing: R0 += 0.
            let one = code.get(n).copied().unwrap_or([0x07, 0, 0, 0, 0, 0, 0, 0]);
            bytes[at + 8 * n..at + 8 * n + 8].copy_from_slice(&one);
        }
        tried(&bytes);
    }
}

/// Bytes that often are an instruction.
fn instruction() -> impl Strategy<Value = [u8; 8]> {
    let opcode = prop_oneof![
        prop::sample::select(vec![
            0x07_u8, 0x0f, 0x37, 0x3f, 0x97, 0x9f, 0xa5, 0xad, 0x05, 0x15, 0x1d, 0x61, 0x69, 0x71,
            0x79, 0x62, 0x63, 0x7a, 0x7b, 0x18, 0x85, 0x95, 0xb7, 0xbf, 0xb4, 0xdb, 0xe5, 0xc7,
        ]),
        any::<u8>(),
    ];
    let offset = prop_oneof![-8..8_i16, any::<i16>()];
    let number = prop_oneof![-8..8_i32, any::<i32>()];
    (opcode, 0..11_u8, 0..11_u8, offset, number, any::<bool>()).prop_map(
        |(opcode, to, from, offset, number, plain)| {
            // Fields that must be 0 often are.
            let from = if plain && opcode & 0x08 == 0 && opcode & 7 > 3 { 0 } else { from };
            let number = if plain && opcode & 0x08 != 0 && opcode & 7 > 3 { 0 } else { number };
            let offset = if plain && matches!(opcode & 7, 4 | 7) { 0 } else { offset };
            crate::instructions::slot(opcode, to, from, offset, number)
        },
    )
}

#[test]
fn every_cut_of_an_object_is_refused_or_read() {
    let bytes = built_of(SMALL);
    for end in 0..bytes.len() {
        tried(&bytes[..end]);
    }
}

#[test]
fn an_object_of_another_machine_is_refused_by_name() {
    let source = crate_folder().join("tests/programs/oracle.c");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("native.o");
    let done =
        std::process::Command::new("cc").arg("-c").arg(&source).arg("-o").arg(&path).status();
    assert!(done.expect("a compiler").success());
    let error =
        Object::read(&std::fs::read(path).expect("an object")).expect_err("another machine");
    assert!(error.to_string().contains("it is built for "), "{error}");
    assert!(error.to_string().contains("64, not for BPF\nhint: "), "{error}");
    let stripped = built(&source, "v3", &["-g0"]);
    let error = Object::read(&stripped).expect_err("no types");
    assert!(error.to_string().contains("build it with -g"), "{error}");
}

fn refusal(bytes: &[u8]) -> String {
    Object::read(bytes).expect_err("it is refused").to_string()
}

/// What would make a reader go over the same bytes, or keep them, once for each section or name.
#[test]
fn what_stands_in_each_other_is_no_more_than_what_there_is() {
    let mut bytes = built_of(SMALL);
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    // Of ELF's header the offset of the sections' headers, and of that of `.text` the size.
    let size_at = number(0x28) as usize + 2 * 64 + 0x20;
    let all = bytes.len() as u64 - number(size_at - 8);
    bytes[size_at..size_at + 8].copy_from_slice(&all.to_le_bytes());
    assert_eq!(refusal(&bytes), "its sections have bytes in common");

    let long = format!("int {}(void) {{ return 0; }}", "f".repeat(513));
    assert_eq!(refusal(&built_of(&long)), "a symbol's name has more than 512 bytes");

    // Numbers, each of whose names is the end of the one before.
    let names = [&[b'a'; 4095][..], &[0]].concat();
    let types = (0..40_000).flat_map(|n| [n % 4095, 1 << 24, 4, 32]).flat_map(u32::to_le_bytes);
    let types: Vec<u8> = types.collect();
    let sizes = [24, 0, types.len() as u32, types.len() as u32, names.len() as u32];
    let header = [&[0x9f, 0xeb, 1, 0][..], &sizes.map(u32::to_le_bytes).concat()].concat();
    let error = Btf::read(&[header, types, names].concat()).expect_err("it is refused");
    assert!(matches!(error, BtfError::Names), "{error}");
}
