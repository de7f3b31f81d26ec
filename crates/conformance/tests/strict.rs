//! Goal: a check runs objects strictly, whatever it tries. Method: a policy that counts beyond the
//! end of an array wherever there are two CPUs, which changes nothing that a run shows.

use conformance::scenarios::{CHECKS, SMALL};
use conformance::{Problem, ProblemKind, Subject, replay, swarm};
use policy::Policy;
use simulator::FailureKind;
use std::path::Path;
use std::process::Command;

/// What is said of it.
const SAID: &str = "beyond.bpf.c:19: beyond_running: it reads 8 bytes right behind the end of \
                    variable nr_runs, which has 8 bytes";

fn built() -> Policy {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let object = Path::new(env!("CARGO_TARGET_TMPDIR")).join("beyond.bpf.o");
    let mut clang = Command::new("clang-19");
    clang.args(["-std=gnu17", "-O2", "-g", "-target", "bpf", "-mcpu=v3", "-c", "-I"]);
    clang.arg(here.join("../../policies/include")).arg(here.join("tests/beyond.bpf.c"));
    let done = clang.arg("-o").arg(&object).status();
    assert!(done.expect("clang-19 is installed").success());
    Policy::read(&object).unwrap_or_else(|error| panic!("{error}"))
}

fn assert_told(problem: Option<Problem>) {
    let problem = problem.expect("it is found");
    assert_eq!(problem.kind, ProblemKind::Failure(FailureKind::Fault));
    assert!(problem.message.ends_with(SAID), "{}", problem.message);
}

#[test]
fn an_access_beyond_an_array_is_found_in_every_kind_of_trial() {
    let policy = built();
    let mut subject = Subject::of(&policy, Default::default(), None).expect("no promises");
    let check = CHECKS.iter().find(|check| check.name == "shares_smp").expect("it is there");
    let sound = |subject: &Subject| check.judge(subject, 1).swap_remove(0).problem;
    assert_told(sound(&subject));
    let scope = SMALL.iter().find(|scope| scope.name == "small_turns").expect("it is there");
    assert_told(scope.explore(&subject, 10).failed.map(|failed| failed.problem));
    let failed = swarm::try_seeds(&subject, 1, 5).failed;
    let seed = failed.first().expect("some machine has two CPUs").seed;
    let smallest = replay::smallest(&subject, seed, 200).expect("it fails");
    assert_eq!(smallest.nr_cpus, 2);
    assert_told(Some(smallest.problem));
    subject.strict = false;
    assert_eq!(sound(&subject), None, "nobody else notices");
}
