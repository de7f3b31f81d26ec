//! Why a race does not take place, in words its reader can act on.

use std::io;
use std::path::PathBuf;

/// Why a heat could not be run, or a plug-in not be had.
///
/// The text names the bad value and, where there is one, a way out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RaceError {
    /// The text of a heat cannot be read.
    #[error(
        "the heat cannot be read: {cause}\n\
         hint: `workload` is one of {workloads}", workloads = crate::workload::Workload::names()
    )]
    Spec {
        /// What the reader says.
        #[source]
        cause: serde_json::Error,
    },

    /// A number of the heat cannot be used.
    #[error("{what} = {value} cannot be raced\nhint: {hint}")]
    Number {
        /// Its name in the heat.
        what: &'static str,
        /// As it was given.
        value: u64,
        /// What would do.
        hint: String,
    },

    /// No such distribution of keys.
    #[error("there are no keys called {name}\nhint: there are {known}")]
    UnknownKeys {
        /// As it was given.
        name: String,
        /// All there are.
        known: String,
    },

    /// Nobody of this name takes part.
    #[error("no structure is called {name}\nhint: there are {known}")]
    UnknownStructure {
        /// As it was given.
        name: String,
        /// All there are.
        known: String,
    },

    /// Two entrants have one name, so that nobody could tell their rows apart.
    #[error("{first} and {second} are both called {name}\nhint: rename the plug-in's queue")]
    SameName {
        /// The name.
        name: String,
        /// Where the first is from.
        first: String,
        /// Where the second is from.
        second: String,
    },

    /// No entrant is left.
    #[error("nobody can take part in {workload} with {n} items:\n{reasons}")]
    NobodyLeft {
        /// The workload.
        workload: &'static str,
        /// Items in the queue.
        n: u32,
        /// A line for each entrant that was asked for.
        reasons: String,
    },

    /// A structure that calls itself exact is not.
    #[error(
        "{structure} ({origin}) and {reference} do not give the same order: pop {pop} was \
         {was} and should be {expected}\n\
         hint: equal keys leave in order of arrival, and keys wrap; a queue that does not promise \
         this says exact = 0"
    )]
    Order {
        /// Who differs.
        structure: String,
        /// Where it is from.
        origin: String,
        /// Whom it differs from.
        reference: &'static str,
        /// The first pop that differs, counted from 1.
        pop: usize,
        /// What it gave.
        was: String,
        /// What the reference gave.
        expected: String,
    },

    /// The thread cannot be kept on one CPU.
    #[error("cannot stay on CPU {cpu}: {cause}\nhint: this process may use {allowed}")]
    Cpu {
        /// The CPU that was asked for.
        cpu: usize,
        /// The system's reason.
        cause: io::Error,
        /// The CPUs that may be named.
        allowed: String,
    },

    /// A heat with a trace needs one, and no other heat takes one.
    #[error("{found}\nhint: a trace is replayed by the workload `trace`, and by no other")]
    TraceAndWorkload {
        /// Which of the two is missing.
        found: String,
    },

    /// A line of a trace is no operation, or its operation was impossible.
    #[error("{}:{line}: {problem}: `{text}`\nhint: {hint}", path.display())]
    Trace {
        /// The trace.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong.
        problem: String,
        /// The line itself.
        text: String,
        /// What would be right.
        hint: String,
    },

    /// A trace says nothing.
    #[error(
        "{}: no operation in it\n\
         hint: a line is `push ITEM KEY`, `pop` or `remove ITEM`", path.display()
    )]
    TraceEmpty {
        /// The trace.
        path: PathBuf,
    },

    /// A shared object is no plug-in of this race, or a queue of it is none.
    #[error("{} is no plug-in of the race: {problem}\nhint: {hint}", path.display())]
    Plugin {
        /// The shared object.
        path: PathBuf,
        /// What is wrong.
        problem: String,
        /// What would be right.
        hint: &'static str,
    },

    /// All entrants together need more memory than there is.
    #[error(
        "{entrants} entrants with {items} items and {samples} timed operations each need about \
         {needed_mib} MiB, {largest} most of all with {largest_mib} MiB, and {available_mib} MiB \
         are free\n\
         hint: race fewer items, or fewer loops where operations are timed alone, or name fewer \
         structures"
    )]
    Memory {
        /// How many race.
        entrants: usize,
        /// Items of each, in all its queues.
        items: u64,
        /// Times of each that are kept, in the workload `single`.
        samples: u64,
        /// What they need.
        needed_mib: u64,
        /// What the system can give.
        available_mib: u64,
        /// Whose queues take most.
        largest: String,
        /// What they take.
        largest_mib: u64,
    },

    /// A structure lost items, or gave some that it did not have.
    #[error(
        "{structure} ({origin}) does not keep its items: {problem}\n\
         hint: exact = 0 gives up the order of items, not the items: each that was pushed must \
         be popped or removed once"
    )]
    Items {
        /// Which one.
        structure: String,
        /// Where it is from.
        origin: String,
        /// What was seen.
        problem: String,
    },

    /// The heat met an error of a structure or of the race itself.
    #[error(
        "the heat broke off: {cause}\n\
         hint: this is an error in schedlab or in a plug-in; race without the structure that the \
         lines above name, and report it"
    )]
    BrokeOff {
        /// What the assertion said.
        cause: String,
    },

    /// A plug-in has no memory for a queue.
    #[error(
        "{structure} has no memory for {capacity} items\nhint: race fewer items, or without it"
    )]
    NoMemory {
        /// The queue.
        structure: String,
        /// Items that were asked for.
        capacity: u32,
    },

    /// A plug-in's source has no ending that names its language.
    #[error("{} is no source of a plug-in\nhint: C ends in .c, C++ in .cpp", path.display())]
    NotASource {
        /// The path as it was given.
        path: PathBuf,
    },

    /// The compiler itself could not be found.
    #[error(
        "no compiler: `{command}` was not found\n\
         hint: install one (`apt-get install g++`), or name yours: {variable}=clang-19"
    )]
    CompilerMissing {
        /// The program that was tried.
        command: String,
        /// The variable of the environment that names another.
        variable: &'static str,
    },

    /// The compiler or the linker refused the source.
    #[error("{} {} with {compiler}:\n{output}", path.display(), refusal(output))]
    Compilation {
        /// The plug-in's source.
        path: PathBuf,
        /// The compiler's command.
        compiler: String,
        /// What the compiler printed, unchanged but for white space at its end.
        output: String,
    },

    /// The compiler was ended before it was ready with the source.
    #[error("{} does not compile with {compiler}: {why}", path.display())]
    CompilerEnded {
        /// The plug-in's source.
        path: PathBuf,
        /// The compiler's command.
        compiler: String,
        /// Why, and a way out.
        why: String,
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

    /// Whoever watches the heat, or waits for a plug-in's source to be compiled, wanted it to end.
    #[error("it was stopped")]
    Stopped,
}

/// What a compiler that refused says of itself: not every refusal is the source's fault.
fn refusal(output: &str) -> &'static str {
    if output.contains("No space left on device") || output.contains("Disk quota exceeded") {
        "could not be compiled, because the disk is full where the cache or TMPDIR is,"
    } else {
        "does not compile"
    }
}
