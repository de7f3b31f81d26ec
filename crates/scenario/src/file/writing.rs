//! Writes machines and workloads as the TOML files that are read back as what they were.
//!
//! Whoever finds something in a scenario that no file describes, such as a random one, can so keep
//! it and run it again.

use crate::file::cgroups::{place_text, write_cgroups};
use crate::file::changes::write_changes;
use crate::file::costs::{costs_text, other_costs_text};
use crate::file::disturbances::write_disturbances;
use crate::file::memory::write_memory;
use crate::model::check::TASK_NAME_BYTES_MAX;
use crate::model::duration::duration;
use crate::model::machine::{Cpu, Machine};
use crate::model::text::{EVERY_CPU, cpus_text, quoted};
use crate::model::workload::{
    Amount, Change, ChangeKind, NO_DEADLINE_NS, Op, Program, Quantiles, Repeat, TaskTemplate,
    Workload,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

/// A machine whose CPUs no file can describe: files know regular machines only.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("machine {machine} cannot be written: its {cpus} CPUs are not in regular cores and caches")]
pub struct Irregular {
    /// Name of the machine.
    pub machine: String,
    /// Its CPUs.
    pub cpus: usize,
}

impl Workload {
    /// The same workload as reading its file would give it: templates that others fork have names
    /// of their own, shared address spaces are numbered in their order, no program is empty, and
    /// changes of one time are in the order of the file's sections. A change of all tasks of a name
    /// becomes one for each name that these have then.
    #[must_use]
    pub fn as_written(mut self) -> Workload {
        let had: BTreeSet<String> = self.templates.iter().map(|kind| kind.name.clone()).collect();
        let mut names = BTreeSet::new();
        let mut renamed: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let forked = forked_templates(&self);
        let mut spaces = BTreeMap::new();
        for (number, template) in self.templates.iter_mut().enumerate() {
            if forked.contains(&number) {
                let name = distinct(&template.name, &names, &had);
                names.insert(name.clone());
                let before = std::mem::replace(&mut template.name, name.clone());
                renamed.entry(before).or_default().insert(name);
            }
            if template.program.is_empty() {
                template.program = Arc::new([Op::Exit]);
            }
            if let Some(space) = &mut template.address_space {
                let next = spaces.len() as u32;
                *space = *spaces.entry(*space).or_insert(next);
            }
        }
        self.changes =
            self.changes.into_iter().flat_map(|change| of_each(change, &renamed)).collect();
        self.changes.sort_by_key(|change| (change.at_ns, turn(&change.what)));
        self.with_digest()
    }
}

/// The file of `workload`, which must be [as it would be written](Workload::as_written); `source`
/// says where it is from.
pub fn workload_text(workload: &Workload, source: &str) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "description = {}", quoted(&workload.description));
    let _ = writeln!(text, "source = {}", quoted(source));
    if let Some(stop_ns) = workload.stop_at_ns {
        let _ = writeln!(text, "stop = \"{}\"", duration(stop_ns));
    }
    if workload.starts_everywhere {
        let _ = writeln!(text, "start_on = \"{EVERY_CPU}\"");
    }
    write_memory(&mut text, workload, source);
    for (number, channel) in workload.channels.iter().enumerate() {
        let _ = write!(
            text,
            "\n[channels.c{number:06}]\noverhead_bytes = {}\nsync_wakeups = {}\n",
            channel.overhead_bytes, channel.sync_wakeups
        );
        if channel.capacity_bytes > 0 {
            let _ = writeln!(text, "capacity_bytes = {}", channel.capacity_bytes);
            let _ = writeln!(text, "wake_senders_at_bytes = {}", channel.wake_senders_at_bytes);
        }
    }
    if workload.nr_gates > 0 {
        text.push_str("\n[gates]\n");
    }
    for gate in 0..workload.nr_gates {
        let _ = writeln!(text, "g{gate:06} = {{}}");
    }
    for number in forked_templates(workload) {
        let template = &workload.templates[number];
        let _ = writeln!(text, "\n[templates.{}]", quoted(&template.name));
        write_template(&mut text, template, workload);
    }
    write_tasks(&mut text, workload);
    write_cgroups(&mut text, workload);
    write_changes(&mut text, workload);
    text
}

/// The file of `machine`; `source` says where its numbers are from.
///
/// # Errors
/// If its CPUs are not regular.
pub fn machine_text(machine: &Machine, source: &str) -> Result<String, Irregular> {
    let topology = topology(machine)?;
    let mut text = String::new();
    let _ = writeln!(text, "description = {}", quoted(&machine.description));
    let _ = writeln!(text, "source = {}", quoted(source));
    let _ = writeln!(text, "hz = {}", machine.hz);
    let _ = writeln!(text, "sync_wakeups = {}", machine.sync_wakeups);
    if let Some(linux) = machine.linux {
        let _ = writeln!(text, "linux = \"{linux}\"");
    }
    let _ = writeln!(text, "watchdog_s = {}", machine.watchdog_ns / 1_000_000_000);
    if let Some(release) = machine.release {
        let _ = writeln!(text, "sched_ext = \"{release}\"");
    }
    if machine.skew_tick {
        text.push_str("skew_tick = true\n");
    }
    if !machine.one_lock.is_empty() {
        let policies: Vec<String> = machine.one_lock.iter().map(|name| quoted(name)).collect();
        let _ = writeln!(text, "one_lock = [{}]", policies.join(", "));
    }
    let speeds: Vec<u32> = machine.cpus.iter().map(|cpu| cpu.speed_permille).collect();
    let _ = writeln!(text, "speed_permille = {speeds:?}");
    if !machine.turbo_permille.is_empty() {
        let (value, source) = (&machine.turbo_permille, quoted(&format!("assumed: {source}")));
        let _ = writeln!(text, "turbo_permille = {{ value = {value:?}, source = {source} }}");
    }
    if !machine.hz_by_policy.is_empty() {
        text.push_str("\n[hz_by_policy]\n");
    }
    for (policy, hz) in &machine.hz_by_policy {
        let _ = writeln!(text, "{} = {hz}", quoted(policy));
    }
    if !machine.sync_wakeups_by_policy.is_empty() {
        text.push_str("\n[sync_wakeups_by_policy]\n");
    }
    for (policy, sync) in &machine.sync_wakeups_by_policy {
        let _ = writeln!(text, "{} = {sync}", quoted(policy));
    }
    let _ = write!(text, "\n{topology}\n[costs]\n");
    let source = quoted(&format!("assumed: {source}"));
    let mut write = |name: &str, value: &str| {
        let _ = writeln!(text, "{name} = {{ value = {value}, source = {source} }}");
    };
    costs_text(&machine.costs).iter().for_each(|(name, value)| write(name, value));
    if let Some(bus) = machine.bus {
        write("\n[bus]\ncaches", &bus.caches.to_string());
        write("mb_per_s", &bus.mb_per_s.to_string());
    }
    for (policy, costs) in &machine.costs_by_policy {
        let _ = write!(text, "\n[costs_by_policy.{}]\n", quoted(policy));
        for (name, value) in other_costs_text(costs, &machine.costs) {
            let _ = writeln!(text, "{name} = {{ value = {value}, source = {source} }}");
        }
    }
    write_disturbances(&mut text, machine, &source);
    Ok(text)
}

// ---- workloads ----------------------------------------------------------------------------------

/// Templates that tasks fork, and those that nobody starts.
fn forked_templates(workload: &Workload) -> BTreeSet<usize> {
    let ops = workload.templates.iter().flat_map(|template| template.program.iter());
    let forked = ops.filter_map(|op| match op {
        Op::Fork { template } => Some(*template as usize),
        _ => None,
    });
    let started: BTreeSet<usize> =
        workload.initial.iter().map(|task| task.template as usize).collect();
    let idle = (0..workload.templates.len()).filter(|number| !started.contains(number));
    forked.chain(idle).collect()
}

/// A change of all tasks of a name as one of each name that they have now.
fn of_each(change: Change, renamed: &BTreeMap<String, BTreeSet<String>>) -> Vec<Change> {
    let (ChangeKind::Affinity { task, .. } | ChangeKind::Move { task, .. }) = &change.what else {
        return vec![change];
    };
    let Some(names) = renamed.get(task) else { return vec![change] };
    let with_name = |name: &String| {
        let mut one = change.clone();
        if let ChangeKind::Affinity { task, .. } | ChangeKind::Move { task, .. } = &mut one.what {
            task.clone_from(name);
        }
        one
    };
    names.iter().map(with_name).collect()
}

/// Which of the changes of one time comes first when a file is read, where its order does not say.
fn turn(what: &ChangeKind) -> (u32, u32) {
    match what {
        ChangeKind::Hotplug { .. } => (0, 0),
        ChangeKind::Affinity { .. } => (1, 0),
        ChangeKind::Move { .. } => (2, 0),
        ChangeKind::Cgroup { number, .. } => (3, *number),
    }
}

/// `name`, or with a number if it is taken, within what the kernel keeps of a name. No template
/// `had` the name with the number.
fn distinct(name: &str, taken: &BTreeSet<String>, had: &BTreeSet<String>) -> String {
    let numbered = (2..).map(|number: u64| {
        let ending = format!("-{number}");
        let mut kept = TASK_NAME_BYTES_MAX - ending.len();
        while !name.is_char_boundary(kept.min(name.len())) {
            kept -= 1;
        }
        format!("{}{ending}", &name[..kept.min(name.len())])
    });
    let free = numbered.filter(|numbered| !had.contains(numbered));
    let mut names = std::iter::once(name.to_string()).chain(free);
    names.find(|name| !taken.contains(name)).unwrap_or_default()
}

/// Tasks that are alike and follow each other are one entry with a count.
fn write_tasks(text: &mut String, workload: &Workload) {
    for alike in workload.initial.chunk_by(|a, b| a == b) {
        let template = &workload.templates[alike[0].template as usize];
        let _ = writeln!(text, "\n[[tasks]]\nname = {}", quoted(&template.name));
        if alike.len() > 1 {
            let _ = writeln!(text, "count = {}", alike.len());
        }
        if alike[0].start_at_ns > 0 {
            let _ = writeln!(text, "start = \"{}\"", duration(alike[0].start_at_ns));
        }
        write_template(text, template, workload);
    }
}

fn write_template(text: &mut String, template: &TaskTemplate, workload: &Workload) {
    if template.nice != 0 {
        let _ = writeln!(text, "nice = {}", template.nice);
    }
    if let Some(cpus) = &template.cpus {
        let _ = writeln!(text, "cpus = {cpus:?}");
    }
    if let Some(space) = template.address_space {
        let _ = writeln!(text, "address_space = \"space{space}\"");
    }
    if template.footprint_kib > 0 {
        let _ = writeln!(text, "footprint_kib = {}", template.footprint_kib);
    }
    if let Some(group) = template.cgroup {
        let _ = writeln!(text, "cgroup = {}", quoted(&workload.cgroups[group as usize].path));
    }
    let _ = writeln!(text, "program = [{}]", steps(&template.program, workload));
}

/// The steps of a program; loops are steps with steps of their own.
fn steps(program: &Program, workload: &Workload) -> String {
    let mut text = String::new();
    for op in program.iter() {
        if !text.is_empty() && !text.ends_with('[') && !matches!(op, Op::End { .. }) {
            text.push_str(", ");
        }
        text.push_str(&step(op, workload));
    }
    text
}

fn step(op: &Op, workload: &Workload) -> String {
    match op {
        Op::Run(amount) => format!("{{ run = {} }}", amount_of(amount, quoted_duration)),
        Op::Sleep(amount) => format!("{{ sleep = {} }}", amount_of(amount, quoted_duration)),
        Op::Send { channel, bytes } => format!("{{ send = \"c{channel:06}\", bytes = {bytes} }}"),
        Op::Recv { channel, bytes } => format!("{{ recv = \"c{channel:06}\", bytes = {bytes} }}"),
        Op::Wake { gate } => format!("{{ wake = \"g{gate:06}\" }}"),
        Op::WakeAll { gate } => format!("{{ wake_all = \"g{gate:06}\" }}"),
        Op::Wait { gate } => format!("{{ wait = \"g{gate:06}\" }}"),
        Op::Release { every, deadline_ns } => {
            let every = amount_of(every, quoted_duration);
            if *deadline_ns == NO_DEADLINE_NS {
                format!("{{ release = {every} }}")
            } else {
                format!("{{ release = {every}, deadline = {} }}", quoted_duration(*deadline_ns))
            }
        }
        Op::Done => "\"done\"".to_string(),
        Op::Yield => "\"yield\"".to_string(),
        Op::Fork { template } => {
            format!("{{ fork = {} }}", quoted(&workload.templates[*template as usize].name))
        }
        Op::Join => "\"join\"".to_string(),
        Op::Nice(nice) => format!("{{ nice = {nice} }}"),
        Op::Affinity { set } => {
            format!("{{ affinity = {} }}", cpus_text(&workload.cpu_sets[*set as usize]))
        }
        Op::Move { to } => format!("{{ move = {} }}", place_text(*to, workload)),
        Op::Loop { repeat, .. } => {
            let repeat = match repeat {
                Repeat::Times(amount) => amount_of(amount, |number| number.to_string()),
                Repeat::Forever => "\"forever\"".to_string(),
                Repeat::WhileChildren => "\"while-children\"".to_string(),
            };
            format!("{{ repeat = {repeat}, do = [")
        }
        Op::End { .. } => "] }".to_string(),
        Op::Mark => "\"mark\"".to_string(),
        Op::Tare => "\"tare\"".to_string(),
        Op::Exit => "\"exit\"".to_string(),
    }
}

fn amount_of(amount: &Amount, scalar: impl Fn(u64) -> String) -> String {
    match *amount {
        Amount::Fixed(value) => scalar(value),
        Amount::Uniform { low, high } => {
            format!("{{ uniform = [{}, {}] }}", scalar(low), scalar(high))
        }
        Amount::Exponential { mean } => format!("{{ exponential = {} }}", scalar(mean)),
        Amount::Normal { mean, sd } => {
            format!("{{ normal = {{ mean = {}, sd = {} }} }}", scalar(mean), scalar(sd))
        }
        Amount::LogNormal { median, sigma_permille } => format!(
            "{{ log_normal = {{ median = {}, sigma_permille = {sigma_permille} }} }}",
            scalar(median)
        ),
        Amount::Recorded(Quantiles { at, unit, permille }) => {
            let at = at.map(|value| scalar(u64::from(value) * u64::from(unit))).join(", ");
            format!("{{ quantiles = {{ at = [{at}], permille = {permille} }} }}")
        }
    }
}

fn quoted_duration(ns: u64) -> String {
    format!("\"{}\"", duration(ns))
}

// ---- machines -----------------------------------------------------------------------------------

/// The section on the topology, if it says all about the CPUs.
fn topology(machine: &Machine) -> Result<String, Irregular> {
    let count = |number: fn(&Cpu) -> u32| {
        machine.cpus.iter().map(number).max().map_or(1, |last| last as usize + 1)
    };
    let nr_cpus = machine.cpus.len();
    let (nr_cores, nr_caches, nr_nodes) =
        (count(|cpu| cpu.core), count(|cpu| cpu.cache), count(|cpu| cpu.node));
    let threads = nr_cpus / nr_cores;
    let (cores_per_cache, caches_per_node) = (nr_cores / nr_caches, nr_caches / nr_nodes);
    let expected = |number: usize| {
        let core = number % nr_cores;
        let cache = core / cores_per_cache.max(1);
        (core as u32, cache as u32, (cache / caches_per_node.max(1)) as u32)
    };
    let regular = nr_cores * threads == nr_cpus
        && cores_per_cache * nr_caches == nr_cores
        && caches_per_node * nr_nodes == nr_caches
        && (0..nr_cpus).all(|number| {
            let cpu = machine.cpus[number];
            expected(number) == (cpu.core, cpu.cache, cpu.node)
        });
    if !regular {
        return Err(Irregular { machine: machine.name.clone(), cpus: nr_cpus });
    }
    Ok(format!(
        "[topology]\nnuma_nodes = {nr_nodes}\nsockets = {nr_nodes}\n\
         caches_per_socket = {caches_per_node}\ncores_per_cache = {cores_per_cache}\n\
         threads_per_core = {threads}\n"
    ))
}
