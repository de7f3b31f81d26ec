//! Many random scenarios under every policy, with the simulator's invariants on.
//!
//! `cargo run --release -p simulator --example swarm -- [SCENARIOS] [FIRST_SEED] [POLICY...]`, from
//! the repository; 1,000 scenarios from seed 0 under every policy if nothing is said. Prints each
//! failure with the command that repeats it; exit code 1 if there was one. The digest of all is the
//! same on every kind of processor.

mod repository;

use repository::{policies, stop};
use scenario::random_scenario;
use simulator::{Options, Status, simulate};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| {
        let text = arguments.next();
        text.map_or(default, |text| text.parse().unwrap_or_else(|_| usage(&text)))
    };
    let (scenarios, first) = (number(1000), number(0));
    let policies = policies(arguments.collect());
    let start = Instant::now();
    let (failures, digest) = run_all(&policies, first, scenarios);
    println!(
        "{scenarios} scenarios x {} policies in {:.1} s: {} passed, {failures} failed",
        policies.len(),
        start.elapsed().as_secs_f64(),
        scenarios * policies.len() as u64 - failures
    );
    println!("digest of all: {digest:016x}");
    std::process::exit(i32::from(failures > 0))
}

fn usage(text: &str) -> ! {
    stop(&format!("{text} is not a number\nhint: swarm [SCENARIOS] [FIRST_SEED] [POLICY...]"))
}

/// Takes seeds one by one on every core and returns how many runs failed, and the sum of the
/// digests of the others.
fn run_all(policies: &[policy::Policy], first: u64, scenarios: u64) -> (u64, u64) {
    let (next, failures, sum) = (AtomicU64::new(first), AtomicU64::new(0), AtomicU64::new(0));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + scenarios {
                        break;
                    }
                    for policy in policies {
                        match digest_of(policy, seed) {
                            Some(digest) => sum.fetch_add(digest, Ordering::Relaxed),
                            None => failures.fetch_add(1, Ordering::Relaxed),
                        };
                    }
                }
            });
        }
    });
    (failures.into_inner(), sum.into_inner())
}

/// Runs one scenario. A broken invariant is a panic, caught here to name the seed.
fn digest_of(policy: &policy::Policy, seed: u64) -> Option<u64> {
    let outcome = std::panic::catch_unwind(|| {
        let (machine, workload) = random_scenario(seed);
        simulate(policy, &machine, &workload, &Options { seed, ..Options::default() })
    });
    let problem = match outcome {
        Ok(Ok(result)) if result.status == Status::Completed => {
            return Some(u64::from_str_radix(&result.digest, 16).expect("16 digits"));
        }
        Ok(Ok(result)) => format!("{:?}", result.error),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "an invariant of the simulator is broken; its message stands above".to_owned(),
    };
    let name = &policy.name;
    println!("{name}, seed {seed}: {problem}\nreplay: make swarm ARGUMENTS='1 {seed} {name}'");
    None
}
