//! Goal: a C file becomes a described object once for each text, or an error its author can
//! act on. Method: small policies, each built by every compiler at hand.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use crate::workshop::{COUNTING, EVERYTHING, Workshop, compilers, headers};
use policy::{Compiler, PolicyError};

#[test]
fn tunables_have_type_default_range_and_doc() {
    for compiler in compilers() {
        let policy = Workshop::new(compiler).build("everything", EVERYTHING).unwrap();
        assert_eq!(policy.warnings, "", "{compiler}");
        let found: Vec<_> = policy
            .tunables
            .iter()
            .map(|t| (t.name.as_str(), t.type_name.as_str(), t.default, t.range(), t.doc.as_str()))
            .collect();
        let expected = [
            ("slice_ns", "u64", 3_000_000, (0, u64::MAX.into()), "How long a turn lasts."),
            (
                "bias",
                "s32",
                -5,
                (i32::MIN.into(), i32::MAX.into()),
                "Added to each count; may be negative.",
            ),
            ("fair", "bool", 1, (0, 1), "Whether weights count."),
            ("small", "u8", 0, (0, 255), ""),
            ("mode", "enum mode", 7, (0, u32::MAX.into()), ""),
            ("forever_ns", "u64", u64::MAX.into(), (0, u64::MAX.into()), ""),
        ];
        assert_eq!(found, expected, "{compiler}");
    }
}

#[test]
fn arrays_and_maps_are_described() {
    for compiler in compilers() {
        let policy = Workshop::new(compiler).build("everything", EVERYTHING).unwrap();
        let mut arrays: Vec<_> =
            policy.arrays.iter().map(|a| (a.name.as_str(), a.type_name.as_str(), a.size)).collect();
        arrays.sort_unstable();
        let topology = ["topology_cache", "topology_core", "topology_node"];
        assert_eq!(arrays, topology.map(|name| (name, "u16", 2048)), "{compiler}");

        let mut maps: Vec<_> = policy
            .maps
            .iter()
            .map(|m| {
                (m.name.as_str(), m.kind, m.key_size, m.value_size, m.max_entries, m.map_flags)
            })
            .collect();
        maps.sort_unstable();
        let expected = [
            ("per_cpu", 6, 4, 40, 3, 0),
            ("table", 1, 4, 12, 64, 0),
            ("task_ctxs", 29, 4, 16, 0, 1),
        ];
        assert_eq!(maps, expected, "{compiler}");
    }
}

#[test]
fn the_name_is_the_files_and_the_idea_is_the_headers() {
    let policy = Workshop::new("cc").build("my policy", EVERYTHING).unwrap();
    assert_eq!(policy.name, "my policy");
    assert_eq!(policy.description, "one of each thing that a loader meets.");
    let file_name = policy.object_path.file_name().unwrap().to_str().unwrap();
    assert_eq!(file_name, format!("my policy-{}.so", policy.source_digest));
    assert_eq!(policy.source_digest.len(), 64);
}

#[test]
fn an_unchanged_text_is_built_once() {
    let workshop = Workshop::new("cc");
    let first = workshop.build("counting", COUNTING).unwrap();
    // Whatever stands at the object's place is taken: nothing was built again.
    let mark = [first.image.as_ref(), b"mark"].concat();
    fs::write(&first.object_path, &mark).unwrap();
    let second = workshop.build("counting", COUNTING).unwrap();
    assert_eq!(second.object_path, first.object_path);
    assert_eq!(second.image.as_ref(), mark);
    assert_eq!(fs::read_dir(workshop.cache()).unwrap().count(), 1);
}

#[test]
fn a_comment_keeps_the_digest_but_its_words_are_read_anew() {
    let workshop = Workshop::new("cc");
    let first = workshop.build("counting", COUNTING).unwrap();
    let text =
        COUNTING.replace("const volatile", "/* One more line.\n * And another. */\nconst volatile");
    let second = workshop.build("counting", &text).unwrap();
    assert_eq!(second.source_digest, first.source_digest);
    assert_eq!(first.tunables[0].doc, "");
    assert_eq!(second.tunables[0].doc, "One more line. And another.");
}

#[test]
fn a_tunable_of_a_header_is_explained_there_and_comes_after_the_policys_own() {
    let workshop = Workshop::new("cc");
    let include = workshop.copy_headers();
    // Each includes the other, and one that is not there for the reader: neither may hang it.
    let outer = "#pragma once\n#include <scx/inner.bpf.h>\n#include <stddef.h>\n";
    let inner = "#pragma once\n#include <scx/outer.bpf.h>\n/* not the idea - of the policy. */\n\n\
                 /* How deep. */\nconst volatile u64 depth = 3;\n";
    fs::write(include.join("scx/outer.bpf.h"), outer).unwrap();
    fs::write(include.join("scx/inner.bpf.h"), inner).unwrap();
    let line = "#include <scx/common.bpf.h>\n";
    let text = COUNTING.replace(line, &format!("{line}#include <scx/outer.bpf.h>\n"));
    let policy = workshop.build_with("counting", &text, &include).unwrap();
    let found: Vec<_> = policy.tunables.iter().map(|t| (t.name.as_str(), t.doc.as_str())).collect();
    assert_eq!(found, [("step", ""), ("depth", "How deep.")]);
    let own = workshop.build("counting", COUNTING).unwrap();
    assert_eq!(policy.description, own.description);
}

#[test]
fn source_header_and_compiler_options_all_change_the_digest() {
    let workshop = Workshop::new("cc");
    let include = workshop.copy_headers();
    let digest =
        |text: &str| workshop.build_with("counting", text, &include).unwrap().source_digest;
    let original = digest(COUNTING);
    let elsewhere = workshop.build("counting", COUNTING).unwrap().source_digest;
    assert_eq!(original, elsewhere, "where headers lie must not matter");
    assert_ne!(original, digest(&COUNTING.replace("step = 1", "step = 2")));

    let source = workshop.path().join("counting.bpf.c");
    fs::write(&source, COUNTING).unwrap();
    let other =
        Compiler::new("cc -O1").build(&source, std::slice::from_ref(&include), &workshop.cache());
    assert_ne!(original, other.unwrap().source_digest);

    let before = "return p->static_prio - DEFAULT_PRIO;";
    workshop.edit_header(&include, "vocabulary.h", before, "return p->static_prio - 121;");
    assert_ne!(original, digest(COUNTING));
}

#[test]
fn a_mistake_in_c_is_shown_as_the_compiler_shows_it() {
    for compiler in compilers() {
        let text = COUNTING.replace("u64 count;", "u64 count = ;");
        let error = Workshop::new(compiler).build("counting", &text).unwrap_err().to_string();
        assert!(error.contains(&format!("does not compile with {compiler}:")), "{error}");
        assert!(error.contains("counting.bpf.c:6:13: error: expected expression"), "{error}");
        assert!(!error.contains('\u{1b}'), "colours in {error:?}");
    }
}

#[test]
fn a_missing_include_is_named() {
    for compiler in compilers() {
        let text = COUNTING.replace("scx/common.bpf.h", "scx/uncommon.bpf.h");
        let error = Workshop::new(compiler).build("counting", &text).unwrap_err().to_string();
        assert!(error.contains("scx/uncommon.bpf.h"), "{error}");
        assert!(error.contains("counting.bpf.c:2:10"), "{error}");
    }
}

#[test]
fn a_call_that_nobody_offers_is_refused_with_its_place() {
    for compiler in compilers() {
        let text = COUNTING.replace("count += step;", "scx_bpf_wish(1);");
        let workshop = Workshop::new(compiler);
        let error = workshop.build("counting", &text).unwrap_err().to_string();
        assert!(error.contains("scx_bpf_wish"), "{error}");
        assert!(error.contains("counting.bpf.c:10"), "{error}");
        // Nothing half-done is left for the next try to take.
        assert_eq!(fs::read_dir(workshop.cache()).unwrap().count(), 0);
    }
}

#[test]
fn a_compiler_that_dies_midway_leaves_nothing_behind() {
    let tools = tempfile::tempdir().unwrap();
    let dying = tools.path().join("dying-cc");
    let script = r#"
for word; do case $word in --version | -E) exec cc "$@" ;; esac; done
while [ "$1" != -o ]; do shift; done
echo half of an object > "$2"
echo no space left >&2
exit 1
"#;
    fs::write(&dying, script).unwrap();
    let workshop = Workshop::new(&format!("sh {}", dying.display()));
    let error = workshop.build("counting", COUNTING).unwrap_err().to_string();
    assert!(error.ends_with("no space left"), "{error}");
    assert_eq!(fs::read_dir(workshop.cache()).unwrap().count(), 0);
}

#[test]
fn a_warning_is_shown_and_not_fatal() {
    for compiler in compilers() {
        let text = COUNTING.replace("count += step;", "int unused; count += step;");
        let policy = Workshop::new(compiler).build("counting", &text).unwrap();
        assert!(policy.warnings.contains("unused variable"), "{compiler}: {}", policy.warnings);
    }
}

#[test]
fn a_file_without_ops_is_told_how_to_define_them() {
    let text = "#include <scx/common.bpf.h>\nu64 lonely;\n";
    let error = Workshop::new("cc").build("lonely", text).unwrap_err();
    assert!(matches!(error, PolicyError::NoOps { .. }), "{error}");
    assert!(error.to_string().contains("SCX_OPS_DEFINE(lonely_ops"), "{error}");
}

#[test]
fn a_licence_that_no_kernel_loads_is_refused_with_the_line_to_add() {
    const LINE: &str = "char _license[] SEC(\"license\") = \"GPL\";\n";
    assert!(COUNTING.contains(LINE));
    for compiler in compilers() {
        let with =
            |line: &str| Workshop::new(compiler).build("counting", &COUNTING.replace(LINE, line));
        let said = |line: &str| with(line).unwrap_err().to_string();
        let hint = format!("\nhint: add this line: {}", LINE.trim_end());
        let reason = "a kernel lets only policies under the GPL call it";
        assert_eq!(said(""), format!("policy counting names no licence: {reason}{hint}"));
        let other = LINE.replace("GPL", "MIT");
        let expected = format!("policy counting has the licence \"MIT\": {reason}{hint}");
        assert_eq!(said(&other), expected, "{compiler}");
        with(&LINE.replace("GPL", "Dual BSD/GPL")).unwrap();
    }
}

#[test]
fn maps_that_describe_nothing_are_refused() {
    let with = |map: &str| {
        let text = COUNTING.replace("u64 count;", &format!("u64 count;\n{map}"));
        let error = Workshop::new("cc").build("counting", &text).unwrap_err();
        assert!(matches!(error, PolicyError::Map { .. }), "{error}");
        error.to_string()
    };
    let untyped = with("struct { __type(key, u32); } odd SEC(\".maps\");");
    assert!(untyped.contains("map odd does not say what it is"), "{untyped}");
    let number = with("int odd SEC(\".maps\") = 0;");
    assert!(number.contains("map odd is not a structure"), "{number}");
    let kind = "__uint(type, BPF_MAP_TYPE_ARRAY)";
    let incomplete =
        with(&format!("struct {{ {kind}; __type(value, struct no); }} odd SEC(\".maps\");"));
    assert!(incomplete.contains("map odd has a value of a type without size"), "{incomplete}");
    let hidden = with(&format!("static struct {{ {kind}; }} odd SEC(\".maps\");"));
    assert!(hidden.contains("map odd is static"), "{hidden}");
}

#[test]
fn what_is_no_policy_file_is_refused_before_any_compiler_runs() {
    let workshop = Workshop::new("cc");
    let build = |path: &Path| {
        let compiler = Compiler::new("no-such-compiler");
        compiler.build(path, &[headers()], &workshop.cache()).unwrap_err()
    };
    let absent = workshop.path().join("absent.bpf.c");
    assert!(matches!(build(&absent), PolicyError::SourceMissing { path } if path == absent));
    let misnamed = workshop.path().join("plain.c");
    fs::write(&misnamed, COUNTING).unwrap();
    assert!(matches!(build(&misnamed), PolicyError::NotASource { path } if path == misnamed));
    assert!(matches!(build(workshop.path()), PolicyError::NotASource { .. }));
}

#[test]
fn a_missing_compiler_says_how_to_get_one() {
    let workshop = Workshop::new("no-such-compiler -O3");
    let error = workshop.build("counting", COUNTING).unwrap_err().to_string();
    assert!(error.contains("`no-such-compiler` was not found"), "{error}");
    assert!(error.contains("apt install gcc"), "{error}");
}

#[test]
fn an_object_spoiled_in_the_cache_is_named() {
    let workshop = Workshop::new("cc");
    let policy = workshop.build("counting", COUNTING).unwrap();
    fs::write(&policy.object_path, &policy.image[..100]).unwrap();
    let error = workshop.build("counting", COUNTING).unwrap_err();
    assert!(matches!(&error, PolicyError::Object { path, .. } if *path == policy.object_path));
    assert!(error.to_string().contains("delete that file"), "{error}");
}

#[test]
fn a_compiler_that_comes_to_no_end_is_ended_and_told() {
    let workshop = Workshop::new("cc");
    let source = workshop.path().join("counting.bpf.c");
    fs::write(&source, COUNTING).unwrap();
    // A path with a space cannot be named as a compiler.
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("slow");
    fs::write(&script, "exec sleep 1000\n").unwrap();
    let slow = Compiler::new(&format!("sh {}", script.display()));
    let slow = slow.within(std::time::Duration::from_millis(200));
    let error = slow.build(&source, &[headers()], &workshop.cache()).unwrap_err();
    assert!(matches!(error, PolicyError::CompilerEnded { .. }), "{error}");
    assert!(error.to_string().contains("did not end within 0.2 s\nhint: "), "{error}");
}
