//! How fast the simulator is: context switches simulated in a second of one core, with the real
//! policies and all invariants on. Seconds are those of the CPU.
//!
//! `cargo run --release -p simulator --example switches_per_second -- [OPTION] [POLICY...]`, from
//! the repository; without policies, all of them. Mixes, policies and a bare event loop take turns,
//! and the best of `ROUNDS` rounds is printed, because the host is shared.
//!
//! - no option: a table of each mix, beside the bare loop and the build before, and one of many
//!   CPUs and tasks.
//! - `--record`: the first tables, and this build is the one before from now on.
//! - `--against PROGRAM`: this build and another program of this example in turns.
//! - `--cells`: lines of `policy,mix,switches,events,seconds` for programs.

mod against;
mod bare_loop;
mod large;
mod measuring;
mod mixes;
mod record;
#[path = "../repository/mod.rs"]
mod repository;
mod table;

use measuring::measure;
use mixes::{machine, mixes};
use policy::Policy;
use repository::{policies, stop};
use std::path::PathBuf;

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_option = arguments.first().is_some_and(|first| first.starts_with("--"));
    let option = if is_option { arguments.remove(0) } else { String::new() };
    match option.as_str() {
        "" => print_all(arguments),
        "--record" => record(arguments),
        "--cells" => print_cells(arguments),
        "--against" => print_against(arguments),
        large::BEGIN => policies(arguments).iter().for_each(large::begin),
        _ => stop(&format!("{option} is none of --record, --against and --cells")),
    }
}

fn print_all(names: Vec<String>) {
    let (policies, mixes) = (policies(names.clone()), mixes());
    let cells = measure(&policies, &machine(), &mixes, true);
    table::print(&mixes, &cells, &record::shares(&cells), record::read().as_ref());
    large::print(&policies, &names_of(names, &policies));
}

fn record(names: Vec<String>) {
    if !names.is_empty() {
        stop(&"a record is of all policies\nhint: name none");
    }
    let mixes = mixes();
    let cells = measure(&policies(names), &machine(), &mixes, true);
    let shares = record::shares(&cells);
    table::print(&mixes, &cells, &shares, record::read().as_ref());
    record::write(shares);
    println!("written: {}", record::PATH);
}

fn print_cells(names: Vec<String>) {
    for cell in measure(&policies(names), &machine(), &mixes(), false) {
        let seconds = cell.best_seconds();
        println!("{},{},{},{},{seconds:.6}", cell.policy, cell.mix, cell.switches, cell.events);
    }
}

fn print_against(mut arguments: Vec<String>) {
    if arguments.is_empty() {
        stop(&"--against needs the program of another build");
    }
    let other = PathBuf::from(arguments.remove(0));
    let policies = policies(arguments.clone());
    against::print(&other, &names_of(arguments, &policies), &mixes());
}

/// What another program is told to take these policies.
fn names_of(arguments: Vec<String>, policies: &[Policy]) -> Vec<String> {
    match arguments.is_empty() {
        true => policies.iter().map(|policy| policy.name.clone()).collect(),
        false => arguments,
    }
}
