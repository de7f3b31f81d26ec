//! Goal: a C file becomes a described object once for each text, or an error its author can
//! act on. Method: small policies, built by the compiler that is found.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::workshop::{COUNTING, EVERYTHING, Workshop, headers};
use policy::{Compiler, Objects, PolicyError};

#[test]
fn tunables_have_type_default_range_and_doc() {
    let policy = Workshop::new().build("everything", EVERYTHING).unwrap();
    assert_eq!(policy.warnings, "");
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
    assert_eq!(found, expected);
}

#[test]
fn arrays_are_described() {
    let policy = Workshop::new().build("everything", EVERYTHING).unwrap();
    let mut arrays: Vec<_> =
        policy.arrays.iter().map(|a| (a.name.as_str(), a.type_name.as_str(), a.size)).collect();
    arrays.sort_unstable();
    let topology = ["topology_cache", "topology_core", "topology_node"];
    assert_eq!(arrays, topology.map(|name| (name, "u16", 8192)));
}

#[test]
fn the_name_is_the_files_and_the_idea_is_the_headers() {
    let policy = Workshop::new().build("my policy", EVERYTHING).unwrap();
    assert_eq!(policy.name, "my policy");
    assert_eq!(policy.description, "one of each thing that a loader meets.");
    let file_name = policy.object_path.file_name().unwrap().to_str().unwrap();
    assert!(file_name.starts_with("my policy-") && file_name.ends_with(".bpf.o"), "{file_name}");
}

#[test]
fn the_digest_is_that_of_the_object() {
    let workshop = Workshop::new();
    let policy = workshop.build("counting", COUNTING).unwrap();
    let told = Command::new("sha256sum").arg(&policy.object_path).output().unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    assert_eq!(Some(policy.digest.as_str()), told.split(' ').next());
}

#[test]
fn an_unchanged_text_is_built_once() {
    let workshop = Workshop::new();
    let first = workshop.build("counting", COUNTING).unwrap();
    let made = fs::metadata(&first.object_path).unwrap().modified().unwrap();
    let second = workshop.build("counting", COUNTING).unwrap();
    assert_eq!(second.object_path, first.object_path);
    assert_eq!(fs::metadata(&first.object_path).unwrap().modified().unwrap(), made);
    assert_eq!(fs::read_dir(workshop.cache()).unwrap().count(), 1);
}

#[test]
fn what_was_shipped_needs_no_compiler_while_its_text_is_the_same() {
    let maker = Workshop::new();
    let source = maker.path().join("counting.bpf.c");
    fs::write(&source, COUNTING).unwrap();
    let shipped = maker.path().join("shipped");
    let built = maker.build("counting", COUNTING).unwrap();
    let name = policy::shipped_name(&source, &[headers()]).unwrap().unwrap();
    fs::create_dir(&shipped).unwrap();
    fs::copy(&built.object_path, shipped.join(name)).unwrap();

    let user = Workshop::with(Compiler::new("no-such-compiler"));
    let objects = Objects { shipped: Some(shipped), ..user.objects() };
    let taken = user.take(&source, &headers(), &objects).unwrap();
    assert_eq!(taken.digest, built.digest);
    fs::write(&source, COUNTING.replace("step = 1", "step = 2")).unwrap();
    let error = user.take(&source, &headers(), &objects).unwrap_err();
    assert!(matches!(error, PolicyError::CompilerMissing { .. }), "{error}");
    // A header that only a compiler finds may be another one on another machine.
    fs::write(&source, format!("#include <stddef.h>\n{COUNTING}")).unwrap();
    assert_eq!(policy::shipped_name(&source, &[headers()]).unwrap(), None);
}

#[test]
fn the_words_of_a_comment_are_read_anew() {
    let workshop = Workshop::new();
    let first = workshop.build("counting", COUNTING).unwrap();
    let text =
        COUNTING.replace("const volatile", "/* One more line.\n * And another. */\nconst volatile");
    let second = workshop.build("counting", &text).unwrap();
    assert_eq!(first.tunables[0].doc, "");
    assert_eq!(second.tunables[0].doc, "One more line. And another.");
}

#[test]
fn a_tunable_of_a_header_is_explained_there_and_comes_after_the_policys_own() {
    let workshop = Workshop::new();
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
fn source_header_and_compiler_options_all_have_it_built_anew() {
    let workshop = Workshop::new();
    let include = workshop.copy_headers();
    let object = |text: &str, include: &Path| {
        workshop.build_with("counting", text, include).unwrap().object_path
    };
    let original = object(COUNTING, &include);
    assert_eq!(original, object(COUNTING, &headers()), "where headers lie must not matter");
    assert_ne!(original, object(&COUNTING.replace("step = 1", "step = 2"), &include));

    let source = workshop.path().join("counting.bpf.c");
    fs::write(&source, COUNTING).unwrap();
    let (command, _) = Compiler::find(None, None).unwrap().describe().unwrap();
    let other = Workshop::with(Compiler::new(&format!("{command} -O1")));
    let other = other.take(&source, &include, &workshop.objects()).unwrap();
    assert_ne!(original, other.object_path);

    let before = "return p->static_prio - DEFAULT_PRIO;";
    workshop.edit_header(&include, "vocabulary.h", before, "return p->static_prio - 121;");
    assert_ne!(original, object(COUNTING, &include));
}

#[test]
fn a_compiler_whose_file_stays_is_asked_once_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let notes = folder.path().join("notes");
    fs::create_dir(&notes).unwrap();
    // A program that says what it is, under a name that is believed.
    let program = folder.path().join("clang-echo");
    fs::copy("/bin/echo", &program).unwrap();
    // This process remembers what each command said.
    let asked = |options: &str| {
        let one = Compiler::new(&format!("{} {options}", program.display()));
        one.with_notes(&notes).describe().unwrap().1
    };
    let noted = || fs::read_dir(&notes).unwrap().map(|entry| entry.unwrap().path());
    let says = asked("1");
    let [note] = &noted().collect::<Vec<_>>()[..] else { panic!("{:?}", noted()) };
    assert_eq!(fs::read_to_string(note).unwrap(), says);
    fs::write(note, "clang version 99").unwrap();
    assert_eq!(asked("2"), "clang version 99");
    // A note that was cut short says nothing.
    fs::write(note, "").unwrap();
    assert_ne!(asked("3"), "");

    fs::write(note, "clang version 99").unwrap();
    let file = fs::File::options().append(true).open(&program).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1)).unwrap();
    drop(file);
    assert_ne!(asked("4"), "clang version 99", "the program is another one");
    assert_eq!(noted().count(), 2);
    fs::write(&program, "#!/bin/sh\necho a script\n").unwrap();
    assert_eq!(asked("5"), "a script");
    assert_eq!(noted().count(), 2, "what a script runs may change");
}

#[test]
fn a_header_that_only_the_compiler_finds_has_it_built_anew_when_it_changes() {
    let workshop = Workshop::new();
    let (command, _) = Compiler::find(None, None).unwrap().describe().unwrap();
    let beside = workshop.path().join("beside");
    fs::create_dir(&beside).unwrap();
    // A path with a space cannot be an option.
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("own.h");
    let compiler = Compiler::new(&format!("{command} -I{}", folder.path().display()));
    let other = Workshop::with(compiler);
    let text = COUNTING.replace("u64 count;", "#include <own.h>\nu64 count = OWN;");
    let digest = |number: u32| {
        fs::write(&own, format!("#define OWN {number}\n")).unwrap();
        other.build("counting", &text).unwrap().digest
    };
    let first = digest(1);
    assert_ne!(first, digest(2));
    assert_eq!(first, digest(1));
}

#[test]
fn an_object_has_the_same_bytes_wherever_its_source_lies() {
    let digest = |workshop: &Workshop| {
        workshop.build_with("everything", EVERYTHING, &workshop.copy_headers()).unwrap().digest
    };
    assert_eq!(digest(&Workshop::new()), digest(&Workshop::new()));
}

#[test]
fn a_mistake_in_c_is_shown_as_the_compiler_shows_it() {
    let text = COUNTING.replace("u64 count;", "u64 count = ;");
    let error = Workshop::new().build("counting", &text).unwrap_err().to_string();
    assert!(error.contains("does not compile with clang"), "{error}");
    assert!(error.contains("counting.bpf.c:6:13: error: expected expression"), "{error}");
    assert!(!error.contains('\u{1b}'), "colours in {error:?}");
}

#[test]
fn what_no_bpf_program_can_do_is_told_once_with_a_way_out() {
    let error = |statement: &str| {
        let text = COUNTING.replace("count += step;", statement);
        Workshop::new().build("counting", &text).unwrap_err().to_string()
    };
    let signed = error("count += (int)step % (int)count;");
    assert!(signed.contains("cast both sides"), "{signed}");
    let large = error("volatile u64 all[100] = {}; for (int i = 0; i < 9; i++) all[count + i]++;");
    assert_eq!(large.matches(": error: ").count(), 1, "{large}");
    assert!(large.contains("the stack has 512 bytes"), "{large}");
    let endless = error("u64 turns = 1; while (turns) count++;");
    assert!(endless.contains("no instructions of ") && endless.contains("bpf_for"), "{endless}");
}

#[test]
fn a_missing_include_is_named() {
    let text = COUNTING.replace("scx/common.bpf.h", "scx/uncommon.bpf.h");
    let error = Workshop::new().build("counting", &text).unwrap_err().to_string();
    assert!(error.contains("scx/uncommon.bpf.h"), "{error}");
    assert!(error.contains("counting.bpf.c:2:10"), "{error}");
}

#[test]
fn a_call_that_nobody_offers_is_refused_with_its_place() {
    let text = COUNTING.replace("count += step;", "scx_bpf_wish(1);");
    let workshop = Workshop::new();
    let error = workshop.build("counting", &text).unwrap_err().to_string();
    assert!(error.contains("scx_bpf_wish"), "{error}");
    assert!(error.contains("counting.bpf.c:10"), "{error}");
    // Nothing half-done is left for the next try to take.
    assert_eq!(fs::read_dir(workshop.cache()).unwrap().count(), 0);
}

#[test]
fn a_compiler_that_dies_midway_leaves_nothing_behind() {
    let tools = tempfile::tempdir().unwrap();
    let dying = tools.path().join("dying-clang");
    let (command, _) = Compiler::find(None, None).unwrap().describe().unwrap();
    let script = r#"
for word; do case $word in --version | -E) exec CLANG "$@" ;; esac; done
while [ "$1" != -o ]; do shift; done
echo half of an object > "$2"
echo no space left >&2
exit 1
"#;
    fs::write(&dying, script.replace("CLANG", &command)).unwrap();
    let workshop = Workshop::with(Compiler::new(&format!("sh {}", dying.display())));
    let error = workshop.build("counting", COUNTING).unwrap_err().to_string();
    assert!(error.ends_with("no space left"), "{error}");
    assert_eq!(fs::read_dir(workshop.cache()).unwrap().count(), 0);
}

#[test]
fn a_warning_is_shown_and_not_fatal() {
    let text = COUNTING.replace("count += step;", "int unused; count += step;");
    let policy = Workshop::new().build("counting", &text).unwrap();
    assert!(policy.warnings.contains("unused variable"), "{}", policy.warnings);
}

#[test]
fn a_file_without_ops_is_told_how_to_define_them() {
    let text = "#include <scx/common.bpf.h>\nu64 lonely;\n";
    let error = Workshop::new().build("lonely", text).unwrap_err();
    assert!(matches!(error, PolicyError::NoOps { .. }), "{error}");
    assert!(error.to_string().contains("SCX_OPS_DEFINE(lonely_ops"), "{error}");
}

#[test]
fn a_file_with_other_ops_is_told_which() {
    let text = "#include <scx/common.bpf.h>\nstruct other_ops { int (*first)(void); };\n\
                SEC(\".struct_ops\") struct other_ops others = {};\n";
    let error = Workshop::new().build("others", text).unwrap_err().to_string();
    assert_eq!(
        error,
        "policy others defines no sched_ext_ops, but other_ops\n\
         hint: a policy that runs here has a table of the type sched_ext_ops, as SCX_OPS_DEFINE \
         makes it"
    );
}

#[test]
fn a_kind_of_map_that_is_not_here_is_answered_with_those_that_are() {
    let map = "struct { __uint(type, BPF_MAP_TYPE_RINGBUF); } ring SEC(\".maps\");";
    let error = Workshop::new().build("counting", &format!("{COUNTING}{map}\n")).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("\nhint: the simulator has maps of the types BPF_MAP_TYPE_ARRAY, "));
    assert!(!error.contains("CLANG="), "{error}");
}

#[test]
fn an_object_that_is_too_large_is_told_how_large_one_may_be() {
    let workshop = Workshop::new();
    let refused = |more: &str| {
        let error = workshop.build("counting", &format!("{COUNTING}{more}\n")).unwrap_err();
        assert!(matches!(error, PolicyError::ObjectSize { .. }), "{error}");
        error.to_string()
    };
    let error = refused("char large[65 << 20] = {1};");
    assert!(error.contains("section .data has 68157440 bytes\nhint: make its arrays"), "{error}");
    assert!(error.contains("schedlab takes 64 MiB of code and variables"), "{error}");
    // What is 0 takes no room before it is written.
    let error = refused("char large[1 << 30];");
    assert!(error.contains("section .bss has 1073741832 bytes\nhint: make its arrays"), "{error}");
    assert!(error.contains("schedlab takes 1024 MiB of variables that are 0"), "{error}");
    assert!(workshop.build("counting", &format!("{COUNTING}char large[900 << 20];\n")).is_ok());
}

#[test]
fn a_source_for_other_headers_is_told_what_else_can_be_given() {
    let text = format!("#include <scx/of_others.bpf.h>\n{COUNTING}");
    let error = Workshop::new().build("counting", &text).unwrap_err().to_string();
    assert!(error.ends_with("as in CLANG=\"clang -I FOLDER\""), "{error}");
    // Whatever else the compiler has to say.
    let text = COUNTING.replace("count += step;", "for (;;); bpf_loop(1, 0, 0, 0);");
    let error = Workshop::new().build("counting", &text).unwrap_err().to_string();
    assert!(error.contains("1 warning and 1 error generated.\nhint: "), "{error}");
    let typing_error = COUNTING.replace("count += step;", "cuont += step;");
    let error = Workshop::new().build("counting", &typing_error).unwrap_err().to_string();
    assert!(!error.contains("hint:"), "{error}");
}

#[test]
fn headers_that_the_compiler_is_told_of_come_first_and_are_read_anew() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("scx");
    fs::create_dir(&other).unwrap();
    let text = format!("#include <scx/topology.bpf.h>\n{COUNTING}");
    let compiler = format!("clang-19 -I{}", folder.path().display());
    let workshop = Workshop::with(Compiler::new(&compiler));
    let tunables_with = |added: &str| {
        fs::write(other.join("topology.bpf.h"), format!("{added}\n")).unwrap();
        let policy = workshop.build("counting", &text).unwrap();
        policy.tunables.into_iter().map(|tunable| tunable.name).collect::<Vec<_>>()
    };
    let before = tunables_with("");
    let after = tunables_with("const volatile unsigned of_other_headers;");
    assert!(!before.contains(&"of_other_headers".to_owned()), "{before:?}");
    assert!(after.contains(&"of_other_headers".to_owned()), "{after:?}");
}

#[test]
fn a_licence_that_no_kernel_loads_is_refused_with_the_line_to_add() {
    const LINE: &str = "char _license[] SEC(\"license\") = \"GPL\";\n";
    assert!(COUNTING.contains(LINE));
    let with = |line: &str| Workshop::new().build("counting", &COUNTING.replace(LINE, line));
    let said = |line: &str| with(line).unwrap_err().to_string();
    let hint = |what: &str| format!("\nhint: {what}: {}", LINE.trim_end());
    let reason = "a kernel lets only policies under the GPL call it";
    assert_eq!(
        said(""),
        format!("policy counting names no licence: {reason}{}", hint("add this line"))
    );
    let other = LINE.replace("GPL", "MIT");
    let hint = hint("change its line to");
    let expected = format!("policy counting has the licence \"MIT\": {reason}{hint}");
    assert_eq!(said(&other), expected);
    with(&LINE.replace("GPL", "Dual BSD/GPL")).unwrap();
}

#[test]
fn what_is_no_policy_file_is_refused_before_any_compiler_runs() {
    let workshop = Workshop::with(Compiler::new("no-such-compiler"));
    let build = |path: &Path| workshop.take(path, &headers(), &workshop.objects()).unwrap_err();
    let absent = workshop.path().join("absent.bpf.c");
    assert!(matches!(build(&absent), PolicyError::SourceMissing { path } if path == absent));
    let misnamed = workshop.path().join("plain.c");
    fs::write(&misnamed, COUNTING).unwrap();
    assert!(matches!(build(&misnamed), PolicyError::NotASource { path } if path == misnamed));
    assert!(matches!(build(workshop.path()), PolicyError::NotASource { .. }));
}

#[test]
fn a_missing_compiler_is_named() {
    let workshop = Workshop::with(Compiler::new("no-such-compiler -O3"));
    let error = workshop.build("counting", COUNTING).unwrap_err().to_string();
    assert!(error.contains("`no-such-compiler` was not found"), "{error}");
    assert!(error.contains("hint: CLANG names the compiler"), "{error}");
}

#[test]
fn an_object_spoiled_in_the_cache_is_named() {
    let workshop = Workshop::new();
    let policy = workshop.build("counting", COUNTING).unwrap();
    let bytes = fs::read(&policy.object_path).unwrap();
    fs::write(&policy.object_path, &bytes[..100]).unwrap();
    let error = workshop.build("counting", COUNTING).unwrap_err();
    assert!(matches!(&error, PolicyError::Spoiled { path, .. } if *path == policy.object_path));
    assert!(error.to_string().contains("delete that file"), "{error}");
}

#[test]
fn a_compiler_that_comes_to_no_end_is_ended_and_told() {
    // A path with a space cannot be named as a compiler.
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("slow");
    fs::write(&script, "exec sleep 1000\n").unwrap();
    let slow = Compiler::new(&format!("sh {}", script.display()));
    let workshop = Workshop::with(slow.within(std::time::Duration::from_millis(200)));
    let error = workshop.build("counting", COUNTING).unwrap_err();
    assert!(matches!(error, PolicyError::CompilerEnded { .. }), "{error}");
    assert!(error.to_string().contains("did not end within 0.2 s\nhint: "), "{error}");
}
