//! Goal: whatever is wrong with a file is refused with the file, the key, the value and a way
//! out. Method: a golden file (`messages.txt`) of small mistakes in files that are right, each
//! with its message in full; and closed examples where the message cannot be the same everywhere.

#![allow(clippy::unwrap_used)]

use scenario::workload::{Op, Workload};
use scenario::{
    Hackbench, ScenarioError, load_machine, load_workload, parse_machine, parse_workload,
    random_scenario, workload_parameters,
};
use std::collections::BTreeMap;
use std::path::Path;

/// A mistake and the message it must give.
#[derive(Default)]
struct Case {
    kind: String,
    /// Lines with `-`: what is taken out of a right machine.
    out: String,
    /// Lines with `+`: what is put in, or the whole text.
    into: String,
    /// Lines with `^`: what is put before the first section of a workload.
    top: String,
    /// Lines with `=`: the message.
    want: String,
}

fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in include_str!("messages.txt").lines().filter(|line| !line.is_empty()) {
        if let Some(kind) = line.strip_prefix("--- ") {
            cases.push(Case { kind: kind.to_string(), ..Case::default() });
            continue;
        }
        let Some(case) = cases.last_mut() else { continue };
        let (mark, text) = line.split_at(1);
        let field = match mark {
            "-" => &mut case.out,
            "+" => &mut case.into,
            "^" => &mut case.top,
            "=" => &mut case.want,
            _ => panic!("what does {line:?} mean?"),
        };
        field.push_str(text);
        field.push('\n');
    }
    cases
}

fn shipped(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).unwrap()
}

fn workload(text: &str, given: &str) -> Result<Workload, ScenarioError> {
    let given = given
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect();
    parse_workload("w.toml", text, &given)
}

/// A free-form workload with a little of everything and one task.
fn free(top: &str, task: &str) -> String {
    format!(
        "description = \"d\"\nsource = \"own\"\n{top}\n\
         [parameters.n]\ndefault = 3\ndoc = \"d\"\n\
         [parameters.pause]\ndefault = \"1ms\"\ndoc = \"d\"\n\
         [channels.pipe]\ncapacity_bytes = 100\noverhead_bytes = 10\n\
         [channels.many]\ncount = 2\ncapacity_bytes = 100\n\
         [gates.go]\n[gates.pair]\ncount = 2\n\
         [templates.child]\nprogram = [{{ run = \"1ms\" }}]\n\
         [[tasks]]\n{task}\n"
    )
}

/// The message that the mistake of `case` gives.
fn message(case: &Case) -> String {
    let (kind, name) = case.kind.split_once(' ').unwrap_or((&case.kind, ""));
    let error = match kind {
        "machine" => {
            let text = shipped("machines/osdl-2.toml");
            assert!(text.contains(&case.out), "not in osdl-2.toml: {}", case.out);
            parse_machine("m.toml", &text.replacen(&case.out, &case.into, 1)).err()
        }
        "program" => {
            workload(&free("", &format!("name = \"a\"\nprogram = {}", case.into)), "").err()
        }
        "task" => workload(&free(&case.top, &case.into), "").err(),
        "file" => workload(&case.into, "").err(),
        "given" => workload(&shipped(&format!("workloads/{name}.toml")), &case.into).err(),
        _ => panic!("there is no kind {kind}"),
    };
    error.map_or("no error\n".to_string(), |error| format!("{error}\n"))
}

#[test]
fn every_mistake_gives_its_message() {
    let cases = cases();
    assert!(cases.len() > 100, "{} cases", cases.len());
    let wrong: Vec<String> = cases
        .iter()
        .map(|case| (case, message(case)))
        .filter(|(case, got)| *got != case.want)
        .map(|(case, got)| {
            format!("--- {}\n{}want:\n{}got:\n{got}", case.kind, case.into, case.want)
        })
        .collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_message_names_its_file_and_ends_with_a_way_out() {
    for case in cases() {
        let mut lines = case.want.lines();
        let first = lines.next().unwrap_or_default();
        assert!(first.starts_with("m.toml") || first.starts_with("w.toml"), "{first}");
        assert!(lines.next_back().is_some_and(|hint| hint.starts_with("hint: ")), "{first}");
    }
}

#[test]
fn every_cost_is_needed_with_its_source() {
    let text = shipped("machines/osdl-2.toml");
    let costs: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("[costs.")?.strip_suffix(']')).collect();
    assert_eq!(costs.len(), 27);
    for cost in costs {
        let section = format!("[costs.{cost}]\n");
        let from = text.find(&section).unwrap();
        let end = text[from + 1..].find("\n[").map_or(text.len(), |end| from + 1 + end);
        let without = format!("{}{}", &text[..from], &text[end..]);
        let error = parse_machine("m.toml", &without).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("m.toml: `costs.{cost}` is missing\nhint: ")),
            "{error}"
        );
        let unsourced = format!("{}{section}value = 1\n{}", &text[..from], &text[end..]);
        let error = parse_machine("m.toml", &unsourced).unwrap_err().to_string();
        assert!(error.starts_with(&format!("m.toml: `costs.{cost}.source` is missing")), "{error}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let path = Path::new("no/such/machine.toml");
    let errors = [
        load_machine(path).unwrap_err(),
        load_workload(path, &BTreeMap::new()).unwrap_err(),
        workload_parameters(path).unwrap_err(),
    ];
    for error in errors.map(|error| error.to_string()) {
        assert!(error.starts_with("cannot read no/such/machine.toml: "), "{error}");
        assert!(error.contains("\nhint: "), "{error}");
    }
}

#[test]
fn text_that_is_not_toml_is_refused_with_its_line() {
    let error = parse_machine("m.toml", "hz = 1\nhz 2").unwrap_err().to_string();
    assert!(error.starts_with("m.toml is not valid TOML: "), "{error}");
    assert!(error.contains("line 2") && error.contains("\nhint: "), "{error}");
}

#[test]
fn a_cpu_that_is_not_there_is_named_with_its_file_and_key() {
    let machine = parse_machine("m.toml", &shipped("machines/osdl-2.toml")).unwrap();
    let fits = |task: &str| {
        workload(&free("", &format!("name = \"a\"\n{task}")), "").unwrap().check_on(&machine)
    };
    assert_eq!(fits("cpus = [1, 0]\nprogram = [\"exit\"]"), Ok(()));
    let other = "[[hotplug]]\nat = \"1ms\"\ncpu = 1\nstate = \"offline\"\n";
    let hotplug = "[[hotplug]]\nat = \"5ms\"\ncpu = 2\nstate = \"offline\"\n";
    let affinity = "[[affinity]]\nat = \"5ms\"\ntask = \"child\"\ncpus = [7]\n";
    let exits = "program = [\"exit\"]";
    for (task, what) in [
        (
            format!("cpus = [3, 1]\n{exits}"),
            "`tasks[0].cpus` is [1, 3]: task `a` is bound to CPU 3",
        ),
        (
            "program = [\"yield\", { repeat = 2, do = [{ affinity = [1, 2] }] }]".to_string(),
            "`tasks[0].program[1].do[0].affinity` is [1, 2]: task `a` is bound to CPU 2",
        ),
        // Written later, and earlier in time.
        (format!("{exits}\n{hotplug}{other}"), "`hotplug[0].cpu` is 2: CPU 2 goes offline at 5ms"),
        (
            format!("{exits}\n{affinity}"),
            "`affinity[0].cpus` is [7]: task `child` is bound to CPU 7 at 5ms",
        ),
    ] {
        assert_eq!(
            fits(&task).unwrap_err().to_string(),
            format!(
                "w.toml: {what}, and machine m has only CPUs 0 and 1\n\
                 hint: name CPUs 0 and 1 only, or use a machine with more"
            )
        );
    }
}

#[test]
fn a_workload_made_by_hand_names_its_own_parts() {
    let mut made = SMALL.build();
    made.templates[2].cpus = Some([0, 4].into());
    let says = |nr_cpus| made.check_cpus("m", nr_cpus).unwrap_err().to_string();
    assert!(made.check_cpus("m", 5).is_ok());
    assert_eq!(
        says(1).lines().next().unwrap(),
        "workload hackbench: `templates[2].cpus` is [0, 4]: task `receiver` is bound to CPU 4, and \
         machine m has only CPU 0"
    );
    assert!(says(4).contains("has only CPUs 0 to 3\n"), "{}", says(4));
}

/// Each way in which a workload made in Rust can be wrong.
#[test]
fn workloads_made_by_hand_are_checked_too() {
    let right = workload(&shipped("workloads/hackbench.toml"), "groups=1").unwrap();
    let key = |change: &dyn Fn(&mut Workload)| {
        let mut workload = right.clone();
        change(&mut workload);
        match workload.check().unwrap_err() {
            ScenarioError::BadValue { key, .. } => key,
            other => panic!("{other}"),
        }
    };
    let program = |ops: Vec<Op>| key(&move |w| w.templates[0].program = ops.clone().into());
    assert_eq!(key(&|w| w.initial.clear()), "workload");
    assert_eq!(key(&|w| w.initial[0].template = 99), "workload");
    assert_eq!(key(&|w| w.nr_gates = 2_000_000), "workload");
    assert_eq!(key(&|w| w.nr_gates = 0), "templates[0].program[27]");
    assert_eq!(key(&|w| w.channels[3].capacity_bytes = 0), "channels[3].capacity_bytes");
    assert_eq!(
        key(&|w| w.channels[3].wake_senders_at_bytes = 65535),
        "channels[3].wake_senders_at_bytes"
    );
    assert_eq!(key(&|w| w.templates[2].name = String::new()), "templates[2].name");
    assert_eq!(key(&|w| w.templates[2].nice = 20), "templates[2].nice");
    assert_eq!(key(&|w| w.templates[2].cpus = Some([].into())), "templates[2].cpus");
    assert_eq!(program(vec![Op::Nice(20)]), "templates[0].program[0]");
    assert_eq!(program(vec![Op::Yield, Op::Fork { template: 99 }]), "templates[0].program[1]");
    assert_eq!(program(vec![Op::Fork { template: 0 }]), "templates[0].program[0]");
    assert_eq!(program(vec![Op::Recv { channel: 21, bytes: 1 }]), "templates[0].program[0]");
    assert_eq!(program(vec![Op::Recv { channel: 20, bytes: 0 }]), "templates[0].program[0]");
    assert_eq!(program(vec![Op::End { start: 0 }]), "templates[0].program[0]");
    let upside_down = scenario::workload::Amount::Uniform { low: 2, high: 1 };
    assert_eq!(program(vec![Op::Run(upside_down)]), "templates[0].program[0]");
    let forever = scenario::workload::Repeat::Forever;
    assert_eq!(program(vec![Op::Loop { repeat: forever, end: 7 }]), "templates[0].program[0]");
    assert_eq!(program(vec![Op::Yield; 1_000_001]), "templates[0].program");
}

#[test]
fn what_is_right_is_not_refused() {
    for seed in 0..20 {
        assert_eq!(random_scenario(seed).1.check(), Ok(()));
    }
    let text = shipped("workloads/sleepers.toml");
    let no_hogs = workload(&text, "hogs=0").unwrap();
    assert_eq!(no_hogs.initial.len(), 40);
    assert!(Hackbench { groups: 2, ..SMALL }.build().check().is_ok());
}

const SMALL: Hackbench = Hackbench {
    stagger_ns: 0,
    groups: 1,
    loops: 1,
    bytes: 1,
    threads: false,
    channel: PIPE,
    send_work_ns: 5,
    recv_work_ns: 5,
    footprint_kib: 0,
};
const PIPE: scenario::workload::Channel = scenario::workload::Channel {
    capacity_bytes: 4096,
    overhead_bytes: 0,
    wake_senders_at_bytes: 4095,
    sync_wakeups: false,
};
