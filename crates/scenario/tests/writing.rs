//! Goal: what is written as a file is read back as what it was. Method: random scenarios,
//! shipped machines and workloads, there and back, compared by their digests.

use scenario::machine::{Bus, Interrupts, Machine, PolicyCosts, Release, SpeedStep};
use scenario::{
    load_machine, load_workload, machine_text, parse_machine, parse_workload, random_scenario,
    workload_text,
};
use std::collections::BTreeMap;
use std::path::Path;

const SEEDS: u64 = 300;

#[test]
fn random_scenarios_come_back_as_they_were() {
    for seed in 0..SEEDS {
        let (machine, workload) = random_scenario(seed);
        let workload = workload.as_written();
        let text = workload_text(&workload, "own");
        let read = parse_workload("random.toml", &text, &BTreeMap::new())
            .unwrap_or_else(|error| panic!("seed {seed}: {error}\n{text}"));
        assert_eq!(read.digest, workload.digest, "seed {seed}\n{text}");
        let text = machine_text(&machine, "drawn at random").expect("random machines are regular");
        let read = parse_machine("random.toml", &text)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}\n{text}"));
        assert_eq!(read.digest, machine.digest, "seed {seed}\n{text}");
    }
}

#[test]
fn shipped_machines_come_back_as_they_were() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines");
    for entry in folder.read_dir().expect("there are machines") {
        let machine = load_machine(&entry.expect("it can be listed").path()).expect("it is sound");
        let bus = Some(Bus { caches: 2, mb_per_s: 20_000 });
        let with_bus = Machine { bus, ..machine.clone() }.with_digest();
        let mut with_instructions = machine.clone();
        with_instructions.costs.policy =
            PolicyCosts { instruction_ps: 333, division_ps: 6_700, call_ps: 1, wide_ps: 2 };
        let with_instructions = with_instructions.with_digest();
        let (name, cpus) = ("a \"device\"".to_owned(), vec![0]);
        let device = Interrupts { name, cpus: cpus.clone(), every_ns: 1_500_000, takes_ns: 7 };
        let steps = [(0, 500), (2_000_001, 2000)];
        let steps =
            steps.map(|(at_ns, permille)| SpeedStep { at_ns, cpus: cpus.clone(), permille });
        let (interrupts, speeds) = (vec![device.clone(), device], steps.to_vec());
        let disturbed = Machine { interrupts, speeds, ..machine.clone() }.with_digest();
        let released = machine.clone().with_release(Release::Linux6_12);
        for machine in [machine, with_bus, with_instructions, disturbed, released] {
            let text = machine_text(&machine, "own").expect("it is regular");
            let read = parse_machine("copy.toml", &text).expect("it is sound");
            assert_eq!(read.digest, machine.digest, "{}", machine.name);
            assert_eq!((read.interrupts, read.speeds), (machine.interrupts, machine.speeds));
        }
    }
}

#[test]
fn shipped_workloads_come_back_as_they_were() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
    for entry in folder.read_dir().expect("there are workloads") {
        let path = entry.expect("it can be listed").path();
        // Workloads that a program builds have their templates in another order.
        if path.is_dir() || std::fs::read_to_string(&path).expect("text").contains("builtin = ") {
            continue;
        }
        let workload = load_workload(&path, &BTreeMap::new()).expect("it is sound").as_written();
        let text = workload_text(&workload, "own");
        let read = parse_workload("copy.toml", &text, &BTreeMap::new())
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(read.digest, workload.digest, "{}", path.display());
    }
}

#[test]
fn a_machine_that_no_file_can_say_is_refused() {
    let (mut machine, _) = random_scenario(0);
    machine.cpus.push(machine.cpus[0]);
    machine.cpus[0].core = 9;
    let error = machine_text(&machine, "own").expect_err("it is irregular");
    assert_eq!(error.cpus, machine.cpus.len());
}

#[test]
fn templates_of_one_name_get_names_of_their_own() {
    let children = |seed| {
        let workload = random_scenario(seed).1.as_written();
        let names = workload.templates.into_iter().map(|template| template.name);
        names.filter(|name| name.starts_with("child")).collect::<Vec<_>>()
    };
    let most = (0..SEEDS).map(children).max_by_key(Vec::len).expect("there are seeds");
    assert_eq!(most, ["child", "child-2", "child-3"]);
}
