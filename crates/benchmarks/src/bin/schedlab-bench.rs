//! `schedlab-bench`: one benchmark, some times over, on whatever scheduler the kernel runs.
//!
//! Prints a line of JSON a repetition: what was asked for, and what was measured. It neither
//! compares nor stores; `--repeat` is for a look by hand.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use benchmarks::costs;
use benchmarks::limit::{self, Attempt};
use benchmarks::measure::counter::Counter;
use benchmarks::measure::crew::Tasks;
use benchmarks::measure::hackbench::{Channel, Hackbench};
use benchmarks::measure::interactivity::Interactivity;
use benchmarks::measure::nice::Nice;
use benchmarks::measure::pipe::Pipe;
use benchmarks::measure::play::Play;
use benchmarks::measure::ring::Ring;
use benchmarks::measure::timer::Timer;
use benchmarks::measure::wakeup::Wakeup;
use benchmarks::measure::{MeasureError, Sample};
use clap::builder::RangedU64ValueParser;
use clap::{Args, Parser, Subcommand, value_parser};
use serde::Serialize;

/// Measures the scheduler that runs this machine: a line of JSON a repetition.
#[derive(Parser)]
#[command(name = "schedlab-bench", version, disable_help_subcommand = true)]
struct Command {
    /// How often the benchmark is run
    #[arg(long, default_value_t = 1, global = true, value_parser = value_parser!(u32).range(1..))]
    repeat: u32,
    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Subcommand)]
enum Benchmark {
    /// Groups of 20 senders and 20 receivers: seconds until all messages are read
    Hackbench(HackbenchWords),
    /// A token that goes round a ring of tasks: microseconds a switch, as lmbench's `lat_ctx -s`
    LatCtx {
        /// Tasks of the ring
        #[arg(short, default_value_t = 2)]
        n: u32,
        /// Memory that each sums up when it has the token, KiB
        #[arg(short, long, default_value_t = 0)]
        size_kib: u32,
        /// Measured rounds of the token
        #[arg(long, default_value_t = 10_000)]
        rounds: u32,
        #[command(flatten)]
        kind: Kind,
    },
    /// Two tasks that wake each other through two pipes: microseconds a round trip, as
    /// `perf bench sched pipe`
    Pipe {
        /// Measured round trips
        #[arg(short = 'l', long, default_value_t = 100_000)]
        round_trips: u32,
        #[command(flatten)]
        kind: Kind,
    },
    /// Tasks that only count: seconds a task until all are done
    Counter {
        /// Tasks
        #[arg(short, default_value_t = 4)]
        n: u32,
        /// What each counts to
        #[arg(long, default_value_t = 500_000_000)]
        to: u64,
        #[command(flatten)]
        kind: Kind,
    },
    /// Threads that sleep until a time: how late they run, as cyclictest
    Timer {
        /// Threads that sleep
        #[arg(short, default_value_t = 1)]
        n: u32,
        /// Microseconds between two sleeps' ends
        #[arg(short, long, default_value_t = 1000, value_parser = up_to_an_hour_us())]
        interval_us: u64,
        /// How often each sleeps
        #[arg(long, default_value_t = 1000)]
        sleeps: u32,
        /// Threads that compute meanwhile
        #[arg(long, default_value_t = 0)]
        hogs: u32,
    },
    /// Messengers that wake workers: microseconds until these run, as schbench
    Wakeup {
        /// Threads that wake
        #[arg(short, long, default_value_t = 1)]
        messengers: u32,
        /// Workers of each
        #[arg(short, long, default_value_t = 4)]
        workers: u32,
        /// Microseconds of CPU time that a worker computes each time
        #[arg(short, long, default_value_t = 1000, value_parser = up_to_an_hour_us())]
        think_us: u64,
        /// How long, milliseconds
        #[arg(short, long, default_value_t = 1000, value_parser = up_to_an_hour_us())]
        duration_ms: u64,
    },
    /// Tasks of some nice values that compute: each one's share of the CPU time, and its weight's
    Nice {
        /// A task each, divided by commas: -20 to 19, those below 0 need privileges
        #[arg(short, long, value_delimiter = ',', default_value = "0,5", value_name = "NICE",
            allow_hyphen_values = true, value_parser = value_parser!(i32).range(-20..=19))]
        nice: Vec<i32>,
        /// All on one CPU instead of on all that this program may use
        #[arg(long)]
        one_cpu: bool,
        /// How long, milliseconds
        #[arg(short, long, default_value_t = 1000, value_parser = up_to_an_hour_us())]
        duration_ms: u64,
        #[command(flatten)]
        kind: Kind,
    },
    /// A task with a frame to compute every period, beside others that compute: how many are late
    Interactivity {
        /// Microseconds between two frames
        #[arg(short, long, default_value_t = 16_667, value_parser = up_to_an_hour_us())]
        period_us: u64,
        /// Microseconds of CPU time that a frame takes
        #[arg(short, long, default_value_t = 4000, value_parser = up_to_an_hour_us())]
        compute_us: u64,
        /// Frames
        #[arg(short, long, default_value_t = 300)]
        frames: u32,
        /// Tasks that compute meanwhile
        #[arg(long, default_value_t = 0)]
        hogs: u32,
        /// Tasks that meanwhile start one short process after the other, as a compile does
        #[arg(long, default_value_t = 0)]
        jobs: u32,
        #[command(flatten)]
        kind: Kind,
    },
    /// A workload's file, as the simulator takes it, played by real tasks: seconds until the last
    /// has ended
    Play {
        /// The file
        workload: PathBuf,
        /// A parameter of the workload
        #[arg(short, long, value_name = "NAME=VALUE", value_parser = parameter)]
        with: Vec<(String, String)>,
        /// Where its random numbers begin
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// What the kernel's operations cost here, a line each: what a machine's file is made of
    Costs,
}

#[derive(Args)]
struct HackbenchWords {
    /// Groups of tasks
    #[arg(short, long, default_value_t = 10)]
    groups: u32,
    /// Senders of a group, and receivers
    #[arg(short, long, default_value_t = 20)]
    fds: u32,
    /// Messages from each sender to each receiver
    #[arg(short, long, default_value_t = 100)]
    loops: u32,
    /// Bytes of a message
    #[arg(short = 's', long, default_value_t = 100)]
    bytes: u32,
    /// Pipes instead of sockets
    #[arg(short, long)]
    pipes: bool,
    #[command(flatten)]
    kind: Kind,
    /// Instead find the largest number of groups that completes here
    #[arg(long, conflicts_with_all = ["groups", "repeat"])]
    find_limit: bool,
    /// With --find-limit: only print what the system's limits leave room for
    #[arg(long, requires = "find_limit")]
    dry_run: bool,
    /// With --find-limit: at most so many tasks, held by a cgroup of its own (root)
    #[arg(long, requires = "find_limit", value_name = "TASKS")]
    cage: Option<u64>,
    /// With --find-limit: a file that is told before each attempt; after a reboot the search
    /// goes on below what was being tried
    #[arg(long, requires = "find_limit", value_name = "FILE")]
    journal: Option<PathBuf>,
    /// Ends when who started it ends, as attempts of --find-limit do
    #[arg(long, hide = true)]
    with_parent: bool,
}

/// More than any benchmark is asked for, and far from where nanoseconds overflow.
fn up_to_an_hour_us() -> RangedU64ValueParser {
    RangedU64ValueParser::new().range(0..=3_600_000_000)
}

fn parameter(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("it is not NAME=VALUE")?;
    Ok((name.into(), value.into()))
}

#[derive(Args)]
struct Kind {
    /// Threads instead of processes
    #[arg(short = 'T', long)]
    threads: bool,
}

impl Kind {
    fn tasks(&self) -> Tasks {
        if self.threads { Tasks::Threads } else { Tasks::Processes }
    }
}

/// A line of what this program prints.
#[derive(Serialize)]
struct Line<'a, P> {
    parameters: &'a P,
    #[serde(flatten)]
    sample: Sample,
}

fn main() -> ExitCode {
    let command = Command::parse();
    match measure(command.benchmark, command.repeat) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            if !error.hint().is_empty() {
                eprintln!("hint: {}", error.hint());
            }
            ExitCode::from(2)
        }
    }
}

fn measure(benchmark: Benchmark, repeat: u32) -> Result<(), MeasureError> {
    match benchmark {
        Benchmark::Hackbench(words) => hackbench(&words, repeat),
        Benchmark::LatCtx { n, size_kib, rounds, kind } => {
            repeated(repeat, &Ring { n, size_kib, rounds, tasks: kind.tasks() }, Ring::run)
        }
        Benchmark::Pipe { round_trips, kind } => {
            repeated(repeat, &Pipe { round_trips, tasks: kind.tasks() }, Pipe::run)
        }
        Benchmark::Counter { n, to, kind } => {
            repeated(repeat, &Counter { n, to, tasks: kind.tasks() }, Counter::run)
        }
        Benchmark::Timer { n, interval_us, sleeps, hogs } => {
            let interval_ns = interval_us * 1000;
            repeated(repeat, &Timer { n, interval_ns, sleeps, hogs }, Timer::run)
        }
        Benchmark::Wakeup { messengers, workers, think_us, duration_ms } => {
            let (think_ns, duration_ns) = (think_us * 1000, duration_ms * 1_000_000);
            repeated(repeat, &Wakeup { messengers, workers, think_ns, duration_ns }, Wakeup::run)
        }
        Benchmark::Nice { nice, one_cpu, duration_ms, kind } => {
            let duration_ns = duration_ms * 1_000_000;
            repeated(repeat, &Nice { nice, one_cpu, duration_ns, tasks: kind.tasks() }, Nice::run)
        }
        Benchmark::Interactivity { period_us, compute_us, frames, hogs, jobs, kind } => {
            let (period_ns, compute_ns) = (period_us * 1000, compute_us * 1000);
            let tasks = kind.tasks();
            let parameters = Interactivity { period_ns, compute_ns, frames, hogs, jobs, tasks };
            repeated(repeat, &parameters, Interactivity::run)
        }
        Benchmark::Play { workload, with, seed } => {
            let with = with.into_iter().collect();
            repeated(repeat, &Play { workload, with, seed }, Play::run)
        }
        Benchmark::Costs => {
            let cpus = costs::two_cpus()?;
            (0..repeat).try_for_each(|_| costs::measure(cpus, &mut |cost| printed(&cost)))
        }
    }
}

fn hackbench(words: &HackbenchWords, repeat: u32) -> Result<(), MeasureError> {
    if words.with_parent {
        benchmarks::limit::end_with_parent();
    }
    let channel = if words.pipes { Channel::Pipes } else { Channel::Sockets };
    let &HackbenchWords { groups, fds, loops, bytes, .. } = words;
    let parameters = Hackbench { groups, fds, loops, bytes, channel, tasks: words.kind.tasks() };
    match words.find_limit {
        true => limit_of(&parameters, words.dry_run, words.cage, words.journal.as_deref()),
        false => repeated(repeat, &parameters, Hackbench::run),
    }
}

/// Tells what binds, tries, and tells the limit: the data on stdout, the attempts on stderr.
fn limit_of(
    hackbench: &Hackbench,
    dry_run: bool,
    cage: Option<u64>,
    journal: Option<&Path>,
) -> Result<(), MeasureError> {
    if dry_run {
        return printed(&limit::bounds(hackbench));
    }
    let program = std::env::current_exe().map_err(|e| failed("find this program", e))?;
    let mut tell = |attempt: &Attempt| {
        let Attempt { groups, outcome, wall_ns, .. } = attempt;
        eprintln!("{groups} groups: {outcome:?} after {:.2} s", *wall_ns as f64 / 1e9);
    };
    let found = limit::find(hackbench, &program.to_string_lossy(), cage, journal, &mut tell)
        .map_err(|error| failed("search for the limit", error))?;
    printed(&found)
}

fn failed(what: &'static str, source: std::io::Error) -> MeasureError {
    MeasureError::System { what, source }
}

/// Writes a line of JSON. Where the reader has enough, that is no error.
fn printed(what: &impl Serialize) -> Result<(), MeasureError> {
    let mut out = std::io::stdout();
    let written = serde_json::to_writer(&mut out, what)
        .map_err(std::io::Error::from)
        .and_then(|()| writeln!(out))
        .and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(failed("write the result", error))
        }
        _ => Ok(()),
    }
}

fn repeated<P: Serialize>(
    repeat: u32,
    parameters: &P,
    run: impl Fn(&P) -> Result<Sample, MeasureError>,
) -> Result<(), MeasureError> {
    for _ in 0..repeat {
        printed(&Line { parameters, sample: run(parameters)? })?;
    }
    Ok(())
}
