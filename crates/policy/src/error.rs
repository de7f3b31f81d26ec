//! What can go wrong between a C file and a loaded policy, in words its author can act on.

use std::io;
use std::path::{Path, PathBuf};

use crate::spelling::nearest;
use crate::tunable::Tunable;

/// Why a policy could not be compiled, read or loaded.
///
/// The text names the bad value and, where there is one, a way out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// No file at the path that was given.
    #[error("no policy source at {}", path.display())]
    SourceMissing {
        /// The path as it was given.
        path: PathBuf,
    },

    /// The file exists but is not named like a policy, or is not a file.
    #[error(
        "{} is not a policy source\n\
         hint: a policy is one C file whose name ends in .bpf.c, or a .loader.toml file that names \
         one", path.display()
    )]
    NotASource {
        /// The path as it was given.
        path: PathBuf,
    },

    /// No compiler was named, and none was found.
    #[error(
        "no clang of version {oldest} or later: policies are built by it\n\
         hint: install one (`apt-get install clang-{oldest}`), or, without root, the wheel ziglang \
         (`pip install ziglang`); or name yours: CLANG=clang-{oldest}"
    )]
    NoCompiler {
        /// The oldest version that is taken unasked.
        oldest: u32,
    },

    /// The compiler that was named could not be found.
    #[error("no clang: `{command}` was not found\nhint: CLANG names the compiler of policies")]
    CompilerMissing {
        /// The program that was tried.
        command: String,
    },

    /// What was named as the compiler does not say its version.
    #[error(
        "cannot run `{command} --version`: {output}\nhint: CLANG names the compiler of policies"
    )]
    NoVersion {
        /// The compiler's command.
        command: String,
        /// What it printed.
        output: String,
    },

    /// The compiler refused the source.
    #[error(
        "{} {} with {compiler}:\n{}{}",
        path.display(), refusal(output), told_once(output), way_out(output)
    )]
    Compilation {
        /// The policy's source.
        path: PathBuf,
        /// The compiler's command.
        compiler: String,
        /// What the compiler printed, unchanged but for white space at its end.
        output: String,
    },

    /// The compiler was ended before it was ready with the source.
    #[error("{} does not compile with {compiler}: {why}", path.display())]
    CompilerEnded {
        /// The policy's source.
        path: PathBuf,
        /// The compiler's command.
        compiler: String,
        /// Why, and a way out.
        why: String,
    },

    /// Whoever asked for the policy no longer wants it.
    #[error("the compilation of {} was interrupted", path.display())]
    Interrupted {
        /// The policy's source.
        path: PathBuf,
    },

    /// A file, a folder or a program could not be used.
    #[error("cannot {action} {}: {cause}", path.display())]
    Io {
        /// What was tried, as a verb: "read", "run".
        action: &'static str,
        /// What it was tried on.
        path: PathBuf,
        /// The system's reason.
        #[source]
        cause: io::Error,
    },

    /// The source compiles but defines no scheduler.
    #[error("policy {policy} defines no sched_ext_ops{}", instead_of_ops(policy, others))]
    NoOps {
        /// The policy's name.
        policy: String,
        /// What tables of operations it defines.
        others: Vec<String>,
    },

    /// Its table of operations says what every kernel refuses.
    #[error("no kernel takes policy {policy}: {reason}\nhint: {hint}")]
    Table {
        /// The policy's name.
        policy: String,
        /// What is wrong with it.
        reason: String,
        /// A way out.
        hint: String,
    },

    /// What was given as an object of BPF is none, or a damaged one.
    #[error(
        "the object {} cannot be read: {reason}{}", path.display(), way_to_an_object(reason)
    )]
    NoObject {
        /// Its path.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },

    /// Its object is too large.
    #[error(
        "policy {policy}: its {what} have more than {most_mib} MiB; section {section} has {bytes} \
         bytes\nhint: make its arrays smaller: schedlab takes {most_mib} MiB of {what}, in the \
         simulator and on the way to a kernel"
    )]
    ObjectSize {
        /// The policy's name.
        policy: String,
        /// What it has too much of.
        what: &'static str,
        /// The section that is too much.
        section: String,
        /// Its size in bytes.
        bytes: u64,
        /// How many MiB are taken.
        most_mib: u64,
    },

    /// A function of its object is empty: the compiler saw that it has no end, and C says nothing
    /// of what comes of that.
    #[error(
        "policy {policy}: the compiler has made no instructions of {function}, which never \
         returns\nhint: the verifier must see that every loop ends: use bpf_for, bpf_repeat or \
         can_loop"
    )]
    NoCode {
        /// The policy's name.
        policy: String,
        /// The function.
        function: String,
    },

    /// An object in the cache is not what was written there.
    #[error("the object {} is damaged\nhint: delete that file; it is built anew", path.display())]
    Spoiled {
        /// Its path.
        path: PathBuf,
    },

    /// The source names no licence under which a kernel would load it.
    #[error(
        "policy {policy} {}: a kernel lets only policies under the GPL call it\n\
         hint: {}: char _license[] SEC(\"license\") = \"GPL\";",
        if found.is_empty() { "names no licence".to_owned() }
        else { format!("has the licence {found:?}") },
        if found.is_empty() { "add this line" } else { "change its line to" }
    )]
    Licence {
        /// The policy's name.
        policy: String,
        /// The licence it names, empty if none.
        found: String,
    },

    /// A value was given for a tunable that the policy does not have.
    #[error("policy {policy} has no tunable {name}{}", unknown_hint(name, valid))]
    UnknownTunable {
        /// The policy's name.
        policy: String,
        /// The name that was given.
        name: String,
        /// All tunables of the policy.
        valid: Vec<String>,
    },

    /// A value does not fit the tunable's C type.
    #[error(
        "policy {policy}: {} = {value} is outside what {} can hold ({} to {})",
        tunable.name, tunable.type_name, tunable.range().0, tunable.range().1
    )]
    TunableRange {
        /// The policy's name.
        policy: String,
        /// The value that was given.
        value: i64,
        /// What it was given for.
        tunable: Box<Tunable>,
    },

    /// A tunable set was named that the policy does not have.
    #[error("policy {policy} has no tunable set {name}{}", unknown_hint(name, valid))]
    UnknownSet {
        /// The policy's name.
        policy: String,
        /// The name that was given.
        name: String,
        /// All sets of the policy.
        valid: Vec<String>,
    },

    /// The file of tunable sets beside the policy's source says something that cannot be.
    #[error("{}: {reason}", path.display())]
    Sets {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and a way out.
        reason: String,
    },

    /// Objects of several sources cannot be joined.
    #[error(
        "there is no program that joins the objects of several sources\n\
         hint: `make guest` builds schedlab-guest, which does; or set SCHEDLAB_GUEST to where it is"
    )]
    NoLinker,

    /// A loader's file asks for what cannot be.
    #[error("{}{reason}", place_of(path))]
    Loader {
        /// The file; empty if it came with its object.
        path: PathBuf,
        /// What is wrong with it, and a way out.
        reason: String,
    },

    /// More bytes were given for an array than it has.
    #[error("policy {policy}: array {array} has {size} bytes, {given} were given")]
    ArraySize {
        /// The policy's name.
        policy: String,
        /// The array's name.
        array: String,
        /// Its size in bytes.
        size: u64,
        /// How many bytes were given.
        given: usize,
    },
}

pub(crate) fn io_error(action: &'static str, path: &Path, cause: io::Error) -> PolicyError {
    PolicyError::Io { action, path: path.to_owned(), cause }
}

/// Where a loader's file is, before what is wrong with it.
fn place_of(path: &Path) -> String {
    let is_known = !path.as_os_str().is_empty();
    if is_known { format!("{}: ", path.display()) } else { "its loader's file: ".to_owned() }
}

/// How a message on an unknown name ends: with the name that was probably meant, and all.
pub(crate) fn unknown_hint(name: &str, valid: &[String]) -> String {
    if valid.is_empty() {
        return ": it has none at all".to_owned();
    }
    let nearest = nearest(name, valid.iter().map(String::as_str));
    let question = nearest.map(|name| format!("; did you mean {name}?")).unwrap_or_default();
    format!("{question}\nhint: it has {}", valid.join(", "))
}

/// What a compiler that refused says of itself: not every refusal is the source's fault.
fn refusal(output: &str) -> &'static str {
    if output.contains("No space left on device") || output.contains("Disk quota exceeded") {
        "could not be compiled, because the disk is full where the cache or TMPDIR is,"
    } else {
        "does not compile"
    }
}

/// What a compiler says of a source that was written for other headers than those that are here.
const OF_OTHER_HEADERS: [&str; 9] = [
    "file not found",
    "redefinition of",
    "typedef redefinition",
    "too many arguments",
    "identifier 'BPF_",
    "identifier 'SCX_",
    "function 'bpf_",
    "function 'scx_",
    "function '__COMPAT_",
];

/// What clang says of a kind of map that schedlab's headers do not name.
const OF_OTHER_MAPS: &str = "identifier 'BPF_MAP_TYPE_";

/// What to give instead of an object that cannot be read, unless the reason says it.
fn way_to_an_object(reason: &str) -> &'static str {
    if reason.contains("\nhint: ") {
        return "";
    }
    "\nhint: give what `clang -target bpf -O2 -g -c` made of a policy, or the policy's .bpf.c file"
}

/// What a policy without operations has, and what to do.
fn instead_of_ops(policy: &str, others: &[String]) -> String {
    if others.is_empty() {
        let define = format!("SCX_OPS_DEFINE({policy}_ops, ..., .name = \"{policy}\")");
        return format!("\nhint: end the file with {define}");
    }
    let others = others.join(", ");
    format!(
        ", but {others}\n\
         hint: a policy that runs here has a table of the type sched_ext_ops, as SCX_OPS_DEFINE \
         makes it"
    )
}

/// What clang says of what no BPF program can do, and what to do instead.
const OF_BPF: [(&str, &str); 2] = [
    (
        "unsupported signed division",
        "\nhint: BPF divides unsigned numbers only: cast both sides of `/` or `%`, as in \
         (u32)p->pid",
    ),
    (
        "BPF stack limit",
        "\nhint: the stack has 512 bytes: make what is large a global variable or the value of a \
         BPF_MAP_TYPE_PERCPU_ARRAY",
    ),
];

/// What the compiler printed; of a stack that is too small it complains at each access, which is
/// told once.
fn told_once(output: &str) -> String {
    if !output.contains(OF_BPF[1].0) {
        return output.to_owned();
    }
    let mut nr_errors = 0;
    let is_first = |line: &&str| {
        nr_errors += u32::from(line.contains(": error: "));
        nr_errors < 2
    };
    let lines: Vec<&str> = output.lines().take_while(is_first).collect();
    lines.join("\n").trim_end().to_owned()
}

fn way_out(output: &str) -> &'static str {
    if let Some((_, hint)) = OF_BPF.iter().find(|known| output.contains(known.0)) {
        return hint;
    }
    if output.contains(OF_OTHER_MAPS) {
        "\nhint: the simulator has maps of the types BPF_MAP_TYPE_ARRAY, BPF_MAP_TYPE_HASH, both \
         also PERCPU and OF_MAPS, LRU_HASH, LRU_PERCPU_HASH, QUEUE, STACK, TASK_STORAGE and \
         CGRP_STORAGE; another one needs a real kernel, and an object (.bpf.o) that was built with \
         other headers"
    } else if OF_OTHER_HEADERS.iter().any(|words| output.contains(words)) {
        "\nhint: a source for other headers than schedlab's is given as the object (.bpf.o) that \
         was built with them, or with their folders named, as in CLANG=\"clang -I FOLDER\""
    } else {
        ""
    }
}
