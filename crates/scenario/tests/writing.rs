//! Goal: what is written as a file is read back as what it was. Method: random scenarios,
//! shipped machines and workloads, there and back, compared by their digests.

use scenario::machine::{Bus, Interrupts, Machine, PolicyCosts, Release, SpeedStep};
use scenario::workload::{Cgroup, Change, ChangeKind};
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

/// Two kinds of children that have one name, one of them with another's name and a number.
const NAMESAKES: &str = "description = \"d\"\nsource = \"own\"\n\
    [templates.child]\nprogram = [\"exit\"]\n[templates.other]\nprogram = [\"yield\"]\n\
    [[cgroups]]\npath = \"/a\"\n[[cgroups]]\npath = \"/b\"\n\
    [[tasks]]\nname = \"child-2\"\n\
    program = [{ fork = \"child\" }, { fork = \"other\" }, \"join\"]\n";

#[test]
fn changes_come_back_in_their_order_and_for_all_whom_they_mean() {
    let mut workload = parse_workload("own.toml", NAMESAKES, &BTreeMap::new()).expect("sound");
    workload.templates[1].name = "child".to_string();
    let affinity =
        |task: &str| ChangeKind::Affinity { task: task.to_string(), cpus: Some([0].into()) };
    let moved = |task: &str| ChangeKind::Move { task: task.to_string(), to: Some(1) };
    let group = |number: u32| {
        let now = Cgroup { weight: 7, ..workload.cgroups[number as usize].clone() };
        ChangeKind::Cgroup { number, now }
    };
    let at = |at_ns| move |what| Change { at_ns, what };
    let hotplug = |online| ChangeKind::Hotplug { cpu: 1, online };
    let unsorted = [
        group(1),
        group(0),
        moved("child"),
        affinity("child"),
        affinity("child-2"),
        hotplug(false),
    ];
    workload.changes = unsorted.into_iter().map(at(5)).collect();
    workload.changes.push(at(6)(hotplug(true)));
    let sorted = [
        hotplug(false),
        affinity("child"),
        affinity("child-3"),
        affinity("child-2"),
        moved("child"),
        moved("child-3"),
        group(0),
        group(1),
    ];
    let mut expected: Vec<Change> = sorted.into_iter().map(at(5)).collect();
    expected.push(at(6)(hotplug(true)));
    let workload = workload.as_written();
    assert_eq!(workload.changes, expected);
    let text = workload_text(&workload, "own");
    let read = parse_workload("copy.toml", &text, &BTreeMap::new()).expect("it is sound");
    assert_eq!((read.digest, read.changes), (workload.digest, workload.changes), "{text}");
    let names: Vec<String> = read.templates.into_iter().map(|template| template.name).collect();
    assert_eq!(names, ["child", "child-3", "child-2"]);
}
