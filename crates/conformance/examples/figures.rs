//! What the directed scenarios and some random ones measure under each policy.
use conformance::{Promises, Subject, directed, swarm};
use std::collections::BTreeMap;
use std::path::PathBuf;
fn main() {
    let mut args = std::env::args().skip(1);
    let mut n = || args.next().map_or(100, |t| t.parse::<u64>().expect("a number"));
    let (runs, seeds, orders) = (n(), n(), n());
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let cache = std::env::temp_dir().join("schedlab-figures");
    for name in args {
        let source = root.join("policies").join(format!("{name}.bpf.c"));
        let policy =
            policy::compile(&source, &[root.join("policies/include")], &cache).expect("compiles");
        let promises = Promises::of(&policy, &Default::default()).expect("promises");
        let subject =
            Subject { policy: &policy, tunables: Default::default(), promises, progress: None };
        for check in directed::ALL {
            let mut max: BTreeMap<&str, (f64, f64, Option<f64>, String)> = BTreeMap::new();
            for seed in 1..=runs {
                for row in check.judge(&subject, seed) {
                    let value =
                        row.measured.unwrap_or(if row.problem.is_some() { 1.0 } else { 0.0 });
                    let e = max.entry(row.property).or_insert((
                        value,
                        value,
                        row.limit,
                        row.detail.clone(),
                    ));
                    e.0 = e.0.min(value);
                    if value > e.1 {
                        e.1 = value;
                        e.3 = row.detail;
                    }
                }
            }
            for (p, (min, value, limit, detail)) in max {
                println!(
                    "{name:12} {:10} {:24} {min:>12.3} {value:>12.3} {:>10} {}",
                    check.name,
                    p,
                    limit.unwrap_or(-1.0),
                    detail
                );
            }
        }
        for scope in conformance::explore::ALL {
            let start = std::time::Instant::now();
            let e = scope.explore(&subject, orders);
            println!("{name:12} {:12} {e:?} [{:.2}s]", scope.name, start.elapsed().as_secs_f64());
        }
        let start = std::time::Instant::now();
        let s = swarm::try_seeds(&subject, 0, seeds);
        println!(
            "{name:12} swarm {} idle {:.3} wait {:.3} failed {:?} [{:.2}s]",
            s.tried,
            s.idle_ms_max,
            s.wait_ms_max,
            s.failed,
            start.elapsed().as_secs_f64()
        );
    }
}
