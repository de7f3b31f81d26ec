//! What any kernel refuses of a table of operations: what it says without being run.

use bytecode::{Function, Object, Table};

use crate::PolicyError;

/// Bytes of `sched_ext_ops.name`, with the 0 behind it. Source: Linux,
/// kernel/sched/ext_internal.h, `SCX_OPS_NAME_LEN`.
const NAME_BYTES: usize = 128;
/// The most of `timeout_ms`. Source: kernel/sched/ext_internal.h, `SCX_WATCHDOG_MAX_TIMEOUT`.
const TIMEOUT_MS_MAX: u64 = 30_000;
/// The most of `dispatch_max_batch`. Source: kernel/sched/ext.c, `bpf_scx_init_member`.
const DISPATCH_MAX_BATCH_MAX: u64 = i32::MAX as u64;
/// What tables of operations are called: with CPUs and, since Linux 7.3, with cids in their place.
pub(crate) const TYPES: [&str; 2] = ["sched_ext_ops", "sched_ext_ops_cid"];

/// Flags that some kernel has, each with what the simulator does about it.
/// Source: Linux 6.12, 6.18 and 7.3, `enum scx_ops_flags`.
pub(crate) const FLAGS: [(&str, u64); 10] = [
    ("SCX_OPS_KEEP_BUILTIN_IDLE", 1 << 0),      // as in a kernel
    ("SCX_OPS_ENQ_LAST", ENQ_LAST),             // as in a kernel
    ("SCX_OPS_ENQ_EXITING", 1 << 2),            // taken; a task that exits is not enqueued any more
    ("SCX_OPS_SWITCH_PARTIAL", 1 << 3),         // taken; all tasks are the policy's
    ("SCX_OPS_ENQ_MIGRATION_DISABLED", 1 << 4), // taken; no task disables its migration
    ("SCX_OPS_ALLOW_QUEUED_WAKEUP", 1 << 5),    // taken; no wake-up is left to another CPU
    ("SCX_OPS_BUILTIN_IDLE_PER_NODE", 1 << 6),  // taken; idle CPUs are looked for in all nodes
    ("SCX_OPS_ALWAYS_ENQ_IMMED", 1 << 7),       // taken; a task may wait in a local queue
    ("SCX_OPS_TID_TO_TASK", 1 << 8),            // as in a kernel
    ("SCX_OPS_HAS_CGROUP_WEIGHT", 1 << 16),     // taken; a kernel up to 6.18 warns without it
];
const ENQ_LAST: u64 = 1 << 1;

/// The names of these flags of `sched_ext_ops`.
pub fn names_of_flags(flags: u64) -> impl Iterator<Item = &'static str> {
    FLAGS.iter().filter(move |(_, flag)| flags & flag != 0).map(|(name, _)| *name)
}

/// Refuses a table that no kernel takes; `policy` is the name of the policy, whose object it is of.
pub(crate) fn check(policy: &str, object: &Object, table: &Table) -> Result<(), PolicyError> {
    let refused = of_functions(object, table).or_else(|| of_children(table));
    let refused = refused.or_else(|| of_name(policy, table)).or_else(|| of_numbers(table));
    refused.map_or(Ok(()), |(reason, hint)| {
        Err(PolicyError::Table { policy: policy.to_owned(), reason, hint })
    })
}

/// What is wrong, and a way out.
type Refusal = Option<(String, String)>;

fn of_functions(object: &Object, table: &Table) -> Refusal {
    let is_no_operation = |&(_, &number): &(&String, &usize)| {
        !object.code[object.functions[number].code].has_operations()
    };
    let (member, &number) = table.functions.iter().find(is_no_operation)?;
    let function = &object.functions[number];
    let place = place(object, function);
    let name = &function.name;
    Some((
        format!("{place}{name} is its .{member} and not declared as an operation"),
        format!("declare it as BPF_STRUCT_OPS({name}, ...)"),
    ))
}

/// Who is above others has cids. Source: Linux 7.3, kernel/sched/ext/ext.c, `validate_ops`; before
/// it no kernel knows of that.
fn of_children(table: &Table) -> Refusal {
    let member = ["sub_attach", "sub_detach"]
        .into_iter()
        .find(|&name| table.of == TYPES[0] && table.functions.contains_key(name))?;
    Some((
        format!("its .{member} is for a {}, and it is a {}", TYPES[1], TYPES[0]),
        format!("leave .{member} out, or declare the table as struct {}", TYPES[1]),
    ))
}

/// Where a function begins, if the object says it.
fn place(object: &Object, function: &Function) -> String {
    let lines = &object.code[function.code].notes.lines;
    let line = lines.range(function.first..function.first + function.slots).next();
    line.map_or(String::new(), |(_, line)| format!("{}:{}: ", line.file, line.line))
}

/// Source: kernel/bpf/syscall.c, `bpf_obj_name_cpy`.
fn of_name(policy: &str, table: &Table) -> Refusal {
    let bytes = table.values.get("name").map_or(&[][..], Vec::as_slice);
    let name = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.';
    let shown = String::from_utf8_lossy(name);
    if name.is_empty() {
        let allowed: String =
            policy.chars().map(|one| if one.is_ascii_alphanumeric() { one } else { '_' }).collect();
        return Some((
            "its sched_ext_ops has no .name".to_owned(),
            format!("add .name = \"{allowed}\""),
        ));
    }
    if name.len() >= NAME_BYTES {
        let reason = format!("its .name {shown:?} has {NAME_BYTES} bytes or more");
        return Some((reason, format!("give it a name of {} bytes at most", NAME_BYTES - 1)));
    }
    let other = shown.chars().find(|&one| !u8::try_from(one).is_ok_and(is_allowed))?;
    Some((
        format!("its .name {shown:?} has the character {other:?}"),
        "a name has letters of ASCII, digits, _ and . only".to_owned(),
    ))
}

fn of_numbers(table: &Table) -> Refusal {
    let number = |name: &str| {
        let bytes = table.values.get(name).map_or(&[][..], Vec::as_slice);
        bytes.iter().rev().take(8).fold(0, |value, byte| value << 8 | u64::from(*byte))
    };
    let (flags, timeout_ms) = (number("flags"), number("timeout_ms"));
    let unknown = FLAGS.iter().fold(flags, |left, (_, flag)| left & !flag);
    let batch = number("dispatch_max_batch");
    if unknown != 0 {
        let reason = format!("its .flags {flags:#x} has the unknown bits {unknown:#x}");
        return Some((reason, "take the flags from SCX_OPS_..., joined by |".to_owned()));
    }
    if flags & ENQ_LAST != 0 && !table.functions.contains_key("enqueue") {
        let reason = "its .flags have SCX_OPS_ENQ_LAST, and it has no .enqueue".to_owned();
        return Some((reason, "leave the flag out, or add .enqueue".to_owned()));
    }
    if timeout_ms > TIMEOUT_MS_MAX {
        let reason = format!("its .timeout_ms is {timeout_ms}");
        return Some((reason, format!("{TIMEOUT_MS_MAX} (30 s) is the most")));
    }
    if batch > DISPATCH_MAX_BATCH_MAX {
        let reason = format!("its .dispatch_max_batch is {batch}");
        return Some((reason, format!("{DISPATCH_MAX_BATCH_MAX} is the most")));
    }
    None
}
