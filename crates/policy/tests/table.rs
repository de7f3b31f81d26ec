//! Goal: a table of operations that every kernel refuses is refused before it runs anywhere.
//! Method: one policy, with one member of its table changed.

#![allow(clippy::unwrap_used)]

use crate::workshop::{COUNTING, Workshop};

const NAME: &str = ".name = \"counting\"";

/// What is said of the policy with other members than its name.
fn said(members: &str) -> Option<String> {
    assert!(COUNTING.contains(NAME));
    let built = Workshop::new().build("counting", &COUNTING.replace(NAME, members));
    built.err().map(|error| error.to_string())
}

#[test]
fn a_name_is_what_a_kernel_takes_for_one() {
    let long = "n".repeat(128);
    let cases = [
        ("", "its sched_ext_ops has no .name\nhint: add .name = \"counting\""),
        (".name = \"\"", "its sched_ext_ops has no .name\nhint: add .name = \"counting\""),
        (".name = \"a-b\"", "its .name \"a-b\" has the character '-'\nhint: a name has letters"),
        (".name = \"é\"", "its .name \"é\" has the character 'é'\nhint: a name has letters"),
        (&format!(".name = \"{long}\""), "has 128 bytes or more\nhint: give it a name of 127"),
    ];
    for (members, expected) in cases {
        let said = said(members).unwrap();
        assert!(said.starts_with("no kernel takes policy counting: its "), "{said}");
        assert!(said.contains(expected), "{said}");
    }
    assert_eq!(said(&format!(".name = \"{}\"", &long[1..])), None);
    assert_eq!(said(".name = \"a_B.9\""), None);
}

#[test]
fn who_has_others_below_has_cids() {
    let of = |kind: &str, member: &str| {
        let own = format!("SEC(\".struct_ops.link\") struct {kind} counting_ops");
        let text = format!(
            "#include <scx/common.bpf.h>
            char _license[] SEC(\"license\") = \"GPL\";
            struct sched_ext_ops___own {{ s32 (*{member})(void *); char name[128]; }};
            struct sched_ext_ops_cid {{ s32 (*{member})(void *); char name[128]; }};
            s32 BPF_STRUCT_OPS(counting_sub, void *args) {{ return 0; }}
            {own} = {{ .{member} = (void *)counting_sub, {NAME} }};"
        );
        Workshop::new().build("counting", &text).err().map(|error| error.to_string())
    };
    for member in ["sub_attach", "sub_detach"] {
        assert_eq!(of("sched_ext_ops_cid", member), None);
        let said = of("sched_ext_ops___own", member).unwrap();
        let expected =
            format!("its .{member} is for a sched_ext_ops_cid, and it is a sched_ext_ops");
        assert!(said.contains(&expected), "{said}");
    }
}

#[test]
fn numbers_are_within_what_a_kernel_takes() {
    let cases = [
        (".timeout_ms = 30001", "its .timeout_ms is 30001\nhint: 30000 (30 s) is the most"),
        (
            ".flags = SCX_OPS_ENQ_EXITING | 1 << 11",
            "its .flags 0x804 has the unknown bits 0x800\nhint: take the flags from SCX_OPS_",
        ),
        (
            ".flags = 1 << 9 | 1 << 10",
            "its .flags 0x600 has the unknown bits 0x600\nhint: take the flags from SCX_OPS_",
        ),
        (
            ".flags = SCX_OPS_ENQ_LAST",
            "its .flags have SCX_OPS_ENQ_LAST, and it has no .enqueue\nhint: leave the flag out",
        ),
        (
            ".dispatch_max_batch = 2147483648",
            "its .dispatch_max_batch is 2147483648\nhint: 2147483647 is the most",
        ),
    ];
    for (member, expected) in cases {
        let said = said(&format!("{NAME}, {member}")).unwrap();
        assert!(said.contains(expected), "{said}");
    }
    // Those of any kernel: older ones have weights of cgroups, newer ones the rest.
    let most = ".timeout_ms = 30000, .dispatch_max_batch = 2147483647, .flags = 0x101fd";
    assert_eq!(said(&format!("{NAME}, {most}")), None);
}

#[test]
fn a_function_that_is_not_declared_as_an_operation_is_told_with_its_line() {
    let declared = "s32 BPF_STRUCT_OPS_SLEEPABLE(counting_init)";
    assert!(COUNTING.contains(declared));
    let text = COUNTING.replace(declared, "s32 counting_init(void)");
    let error = Workshop::new().build("counting", &text).unwrap_err().to_string();
    assert_eq!(
        error,
        "no kernel takes policy counting: counting.bpf.c:10: counting_init is its .init and not \
         declared as an operation\nhint: declare it as BPF_STRUCT_OPS(counting_init, ...)"
    );
}
