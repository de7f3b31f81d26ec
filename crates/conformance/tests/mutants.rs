//! Goal: `check` finds faults in policies, and finds none in the policies as they are. Method: the
//! shipped policies, and copies of them with one mistake each, go through what `schedlab check`
//! does; at least [`KILLED_PERCENT_MIN`] of the faults must be found, and those that are not found
//! must be the ones that are known.

use conformance::scenarios::{CHECKS, SMALL};
use conformance::{Subject, Verdict, swarm};
use policy::Policy;
use std::fs;
use std::path::{Path, PathBuf};

const KILLED_PERCENT_MIN: usize = 90;
const MUTANTS_MIN: usize = 25;
const SEEDS: u64 = 60;
const ORDERS_MAX: u64 = 200;
const POLICIES: [&str; 11] = [
    "fifo",
    "round_robin",
    "linux_2_4",
    "o1",
    "cfs_2007",
    "rfs",
    "cfs",
    "cfs_gavl",
    "timering",
    "bfs",
    "eevdf",
];

#[derive(serde::Deserialize)]
struct Mutants {
    mutant: Vec<Mutant>,
}

#[derive(serde::Deserialize)]
struct Mutant {
    policy: String,
    name: String,
    fault: String,
    /// Why it is not found, if that is known.
    survives: Option<String>,
    from: String,
    to: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The policy of a source whose own headers, if it has any, are in `include` beside it.
fn compile(source: &Path) -> Policy {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("policies");
    let own = source.with_file_name("include");
    policy::compile(source, &[own, root().join("policies/include")], &cache)
        .unwrap_or_else(|error| panic!("{}: {error}", source.display()))
}

/// A source and the headers that it includes, below `policies`.
fn files_of(source: &str) -> Vec<String> {
    let mut files = vec![source.to_string()];
    let mut at = 0;
    while let Some(file) = files.get(at) {
        let text = fs::read_to_string(root().join("policies").join(file)).expect("it is there");
        let included = text.lines().filter_map(|line| {
            let name = line.strip_prefix("#include <")?.strip_suffix('>')?;
            Some(format!("include/{name}"))
        });
        let new: Vec<_> = included.filter(|file| !files.contains(file)).collect();
        files.extend(new);
        at += 1;
    }
    files
}

/// The first thing that `schedlab check` would find, if anything.
fn found_in(policy: &Policy) -> Option<String> {
    let subject = Subject::of(policy, Default::default(), None).expect("the promises are sound");
    let rows = CHECKS.iter().flat_map(|check| check.judge(&subject, 1));
    if let Some(row) = rows.into_iter().find(|row| row.verdict == Verdict::Violated) {
        return Some(format!("{} {} {:?}: {}", row.check, row.property, row.measured, row.detail));
    }
    if let Some(failed) = swarm::try_seeds(&subject, 1, SEEDS).failed.first() {
        return Some(format!("random {}: {}", failed.seed, failed.problem.message));
    }
    let explored = SMALL.iter().map(|scope| (scope.name, scope.explore(&subject, ORDERS_MAX)));
    explored
        .filter_map(|(name, found)| Some((name, found.failed?)))
        .next()
        .map(|(name, failed)| format!("{name} {:?}: {}", failed.choices, failed.problem.message))
}

/// The mutant's source, in a directory of its own with the promises of the policy that it was and
/// with the header that is another, if it is a header.
fn write(mutant: &Mutant, number: usize) -> PathBuf {
    let shipped = root().join("policies");
    let source = format!("{}.bpf.c", mutant.policy);
    let texts = files_of(&source).into_iter().map(|file| {
        let text = fs::read_to_string(shipped.join(&file)).expect("it is there");
        (file, text)
    });
    let places: Vec<_> = texts.filter(|(_, text)| text.contains(&mutant.from)).collect();
    let count: usize = places.iter().map(|(_, text)| text.matches(&mutant.from).count()).sum();
    assert_eq!(count, 1, "{}: {}: the text to replace", mutant.policy, mutant.name);
    let (file, text) = &places[0];
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mutants/{number}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("include/scx")).expect("there is room");
    let promises = format!("{}.promises.toml", mutant.policy);
    for copied in [&promises, &source] {
        fs::copy(shipped.join(copied), folder.join(copied)).expect("every policy promises");
    }
    fs::write(folder.join(file), text.replace(&mutant.from, &mutant.to)).expect("there is room");
    folder.join(source)
}

#[test]
fn shipped_policies_keep_what_they_promise() {
    for name in POLICIES {
        let policy = compile(&root().join("policies").join(format!("{name}.bpf.c")));
        assert_eq!(found_in(&policy), None, "{name}");
    }
}

#[test]
fn faults_in_policies_are_found() {
    let text = fs::read_to_string(root().join("crates/conformance/tests/mutants.toml"));
    let mutants: Mutants = toml::from_str(&text.expect("it is there")).expect("it is TOML");
    let mutants = mutants.mutant;
    assert!(mutants.len() >= MUTANTS_MIN, "only {} faults", mutants.len());
    for name in POLICIES {
        assert!(mutants.iter().any(|mutant| mutant.policy == name), "no fault in {name}");
    }
    let mut survivors = Vec::new();
    for (number, mutant) in mutants.iter().enumerate() {
        let found = found_in(&compile(&write(mutant, number)));
        let title = format!("{}: {} ({})", mutant.policy, mutant.name, mutant.fault);
        println!("{title}: {}", found.as_deref().unwrap_or("SURVIVES"));
        let is_known = mutant.survives.is_some() == found.is_none();
        assert!(is_known, "{title}: {found:?}, but it is known: {:?}", mutant.survives);
        if found.is_none() {
            survivors.push(title);
        }
    }
    let killed = mutants.len() - survivors.len();
    println!("{killed} of {} faults found", mutants.len());
    assert!(
        100 * killed >= KILLED_PERCENT_MIN * mutants.len(),
        "only {killed} of {} faults found; not these: {survivors:#?}",
        mutants.len()
    );
}
