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
/// Bits of `flags` that any kernel has. Source: `SCX_OPS_ALL_FLAGS` of Linux 6.12 to 7.3.
const FLAGS: u64 = 0x107ff;
const ENQ_LAST: u64 = 1 << 1;

/// Refuses a table that no kernel takes; `policy` is the name of the policy, whose object it is of.
pub(crate) fn check(policy: &str, object: &Object, table: &Table) -> Result<(), PolicyError> {
    let refused = of_functions(object, table).or_else(|| of_name(policy, table));
    let refused = refused.or_else(|| of_numbers(table));
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
    let (unknown, batch) = (flags & !FLAGS, number("dispatch_max_batch"));
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
