//! `schedlab-guest`: the first process of schedlab's virtual machines, and its loader.
//!
//! As process 1 it does the job that it finds in its initramfs and powers off. Otherwise it does
//! what its arguments say, on the running kernel, and prints records.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use kernel::guest::{self, Outcome, Port};
use kernel::job::{Job, PolicyJob, Work};
use kernel::loader;
use kernel::records::Record;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::getppid;

const USAGE: &str = "\
usage: schedlab-guest load OBJECT [--set NAME=VALUE]... [--every MS] [--parent PID]
                                [-- COMMAND...]
       schedlab-guest run JOB
       schedlab-guest link INTO OBJECT...

load  lets the policy in the BPF object schedule this machine, until SIGINT or SIGTERM,
      until COMMAND ends, or until the process PID that started it is gone;
      counters come every MS milliseconds (1000)
run   does the job in a JSON file, as inside a virtual machine
link  joins objects that were made each of one source

Prints one JSON record a line. Exit code 0: done; 1: the kernel refused or ejected the
policy; 2: anything else failed.";

/// Long enough to be forever, short enough to be added to any time.
const FOREVER_NS: u64 = 100 * 365 * 24 * 3600 * 1_000_000_000;

fn main() -> ExitCode {
    if std::process::id() == 1 {
        guest::run_as_init();
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut port = Port::standard_output();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["load", rest @ ..] => match load_job(rest) {
            Ok(job) => guest::run_job(&job, &mut port),
            Err(message) => return misused(&message),
        },
        ["run", job] => guest::run_job_file(&PathBuf::from(job), &mut port),
        ["link", into, objects @ ..] if !objects.is_empty() => return link(into, objects),
        _ => return misused("neither load nor run nor link"),
    };
    let outcome = done.unwrap_or_else(|error| {
        port.send(&Record::Error { message: error.to_string() });
        Outcome::Failed
    });
    ExitCode::from(outcome.exit_code())
}

fn link(into: &str, objects: &[&str]) -> ExitCode {
    let objects: Vec<&Path> = objects.iter().map(Path::new).collect();
    match loader::join(Path::new(into), &objects) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {}", message.trim_end());
            ExitCode::from(2)
        }
    }
}

fn misused(message: &str) -> ExitCode {
    eprintln!("error: {message}\n{USAGE}");
    ExitCode::from(2)
}

/// Has the kernel kill this process when its parent is gone, and the policy with it.
fn end_with_parent(parent: i32) -> Result<(), String> {
    set_pdeathsig(Signal::SIGKILL).map_err(|e| format!("--parent {parent}: {e}"))?;
    // It may have gone before.
    if getppid().as_raw() == parent { Ok(()) } else { Err(format!("--parent {parent}: not it")) }
}

fn load_job(arguments: &[&str]) -> Result<Job, String> {
    let mut words = arguments.iter().copied();
    let object = words.next().ok_or("load needs the policy's object")?;
    let mut set = BTreeMap::new();
    let mut every_ms: u64 = 1000;
    let mut work = Work::Wait { wall_ns: FOREVER_NS };
    while let Some(word) = words.next() {
        match word {
            "--set" => {
                let pair = words.next().ok_or("--set needs NAME=VALUE")?;
                let (name, value) =
                    pair.split_once('=').ok_or(format!("--set {pair}: not NAME=VALUE"))?;
                set.insert(name.to_owned(), value.to_owned());
            }
            "--every" => {
                let text = words.next().ok_or("--every needs milliseconds")?;
                every_ms = text.parse().map_err(|_| format!("--every {text}: not a number"))?;
            }
            "--parent" => {
                let text = words.next().ok_or("--parent needs a process")?;
                end_with_parent(text.parse().map_err(|_| format!("--parent {text}: no process"))?)?;
            }
            "--" => {
                let argv = words.by_ref().map(str::to_owned).collect();
                work = Work::Command { argv, time_limit_ns: 0 };
            }
            other => return Err(format!("unknown argument {other}")),
        }
    }
    Ok(Job {
        policy: Some(PolicyJob { object: object.into(), set }),
        work: vec![work],
        counters_every_ns: every_ms.saturating_mul(1_000_000),
        ..Job::default()
    })
}
