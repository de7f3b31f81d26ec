//! Makes a failing scenario as small as it can be while it fails in the same way.
//!
//! Greedy: whatever can be left out is left out, the largest parts first, until nothing can. What
//! remains is minimal in that no single change that is tried here keeps the failure.

use crate::scenarios::{Scenario, no_costs};
use scenario::machine::{Cpu, Machine};
use scenario::workload::{
    Amount, Change, ChangeKind, InitialTask, Op, Repeat, TaskTemplate, Workload,
};
use std::collections::BTreeSet;
use std::sync::Arc;

mod steps;

use steps::Step;

/// What came of making a scenario smaller.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The smallest one that was found.
    pub scenario: Scenario,
    /// Runs that it took.
    pub tried: u64,
    /// Whether the limit on runs was reached before nothing could be left out any more.
    pub is_cut_short: bool,
}

/// Makes `scenario` smaller as long as `fails_alike` says that it fails in the same way, with
/// `tries_max` runs at the most. `scenario` itself must.
pub fn shrink(
    scenario: &Scenario,
    tries_max: u64,
    fails_alike: &mut dyn FnMut(&Scenario) -> bool,
) -> Shrunk {
    let mut search = Search { smallest: scenario.clone(), tried: 0, tries_max, fails_alike };
    loop {
        let before = search.smallest.clone();
        search.drop_tasks();
        for changes in [disturbances, machines, templates, unused_parts] {
            search.take_all(changes);
        }
        if search.smallest == before || search.is_exhausted() {
            break;
        }
    }
    let is_cut_short = search.is_exhausted();
    Shrunk { scenario: search.smallest, tried: search.tried, is_cut_short }
}

struct Search<'a> {
    smallest: Scenario,
    tried: u64,
    tries_max: u64,
    fails_alike: &'a mut dyn FnMut(&Scenario) -> bool,
}

impl Search<'_> {
    fn is_exhausted(&self) -> bool {
        self.tried >= self.tries_max
    }

    /// Keeps a smaller scenario if it fails alike.
    fn takes(&mut self, candidate: Scenario) -> bool {
        let Scenario { machine, mut workload } = candidate;
        drop_idle_changes(&machine, &mut workload);
        let candidate =
            Scenario { machine: machine.with_digest(), workload: workload.as_written() };
        let is_sound = candidate.workload.check().is_ok()
            && candidate.workload.check_on(&candidate.machine).is_ok();
        if candidate == self.smallest || !is_sound || self.is_exhausted() {
            return false;
        }
        self.tried += 1;
        let taken = (self.fails_alike)(&candidate);
        if taken {
            self.smallest = candidate;
        }
        taken
    }

    /// Leaves out tasks: half of them, a quarter, … one.
    fn drop_tasks(&mut self) {
        let mut size = self.smallest.workload.initial.len() / 2;
        while size > 0 {
            let mut from = 0;
            while from < self.smallest.workload.initial.len() && !self.is_exhausted() {
                let mut candidate = self.smallest.clone();
                let to = (from + size).min(candidate.workload.initial.len());
                candidate.workload.initial.drain(from..to);
                if !self.takes(candidate) {
                    from += size;
                }
            }
            size /= 2;
        }
    }

    /// Makes every change that can be made, each as often as it can be.
    fn take_all(&mut self, changes: fn(&Scenario) -> Vec<Scenario>) {
        let mut place = 0;
        let mut is_smaller = true;
        while is_smaller && !self.is_exhausted() {
            is_smaller = false;
            for candidate in changes(&self.smallest).into_iter().skip(place) {
                if self.takes(candidate) {
                    // The changes after this one are now changes of something else.
                    is_smaller = true;
                    break;
                }
                place += 1;
            }
        }
    }
}

// ---- what is done from outside ------------------------------------------------------------------

/// Without one change from outside, or with it at a rounder time. A CPU's going and coming back are
/// left out together, so that what remains makes sense.
fn disturbances(scenario: &Scenario) -> Vec<Scenario> {
    let changes = &scenario.workload.changes;
    let with = |changes: Vec<Change>| {
        let mut smaller = scenario.clone();
        smaller.workload.changes = changes;
        smaller.workload.changes.sort_by_key(|change| change.at_ns);
        smaller
    };
    let mut found = vec![with(Vec::new())];
    for (number, change) in changes.iter().enumerate() {
        let mut fewer = changes.clone();
        fewer.remove(number);
        if let ChangeKind::Hotplug { cpu, online: false } = change.what {
            let back = ChangeKind::Hotplug { cpu, online: true };
            if let Some(place) = fewer[number..].iter().position(|later| later.what == back) {
                fewer.remove(number + place);
            }
        }
        found.push(with(fewer));
    }
    found.extend(with_lower_cpu(changes).map(with));
    for (number, change) in changes.iter().enumerate() {
        let ms = 1_000_000;
        for at_ns in [change.at_ns / (10 * ms) * 10 * ms, change.at_ns / ms * ms] {
            if at_ns < change.at_ns {
                let mut rounder = changes.clone();
                rounder[number].at_ns = at_ns;
                found.push(with(rounder));
            }
        }
    }
    found
}

/// The same with the lowest CPU that stays in the place of a higher one that goes, so that the
/// machine needs fewer.
fn with_lower_cpu(changes: &[Change]) -> Option<Vec<Change>> {
    let plugged = |change: &Change| match change.what {
        ChangeKind::Hotplug { cpu, .. } => Some(cpu),
        _ => None,
    };
    let goes: BTreeSet<u32> = changes.iter().filter_map(plugged).collect();
    let high = *goes.last()?;
    let low = (1..high).find(|cpu| !goes.contains(cpu))?;
    let mut lower = changes.to_vec();
    for change in &mut lower {
        if let ChangeKind::Hotplug { cpu, .. } = &mut change.what
            && *cpu == high
        {
            *cpu = low;
        }
    }
    Some(lower)
}

/// Leaves out changes of CPUs and tasks that there are no more.
fn drop_idle_changes(machine: &Machine, workload: &mut Workload) {
    let nr_cpus = machine.cpus.len() as u32;
    let names: BTreeSet<&str> =
        workload.templates.iter().map(|template| template.name.as_str()).collect();
    workload.changes.retain(|change| match &change.what {
        ChangeKind::Hotplug { cpu, .. } => *cpu < nr_cpus,
        ChangeKind::Affinity { task, .. } | ChangeKind::Move { task, .. } => {
            names.contains(task.as_str())
        }
        ChangeKind::Cgroup { .. } => true,
    });
}

// ---- machines -----------------------------------------------------------------------------------

/// Simpler machines: fewer CPUs, one cache for all, no costs.
fn machines(scenario: &Scenario) -> Vec<Scenario> {
    let nr_cpus = scenario.machine.cpus.len();
    let flat = |nr_cpus: usize| {
        let mut smaller = scenario.clone();
        let core = |core| Cpu { core, cache: 0, node: 0, speed_permille: 1000 };
        smaller.machine.cpus = (0..nr_cpus as u32).map(core).collect();
        for template in &mut smaller.workload.templates {
            template.cpus = template.cpus.as_deref().map(|cpus| within(cpus, nr_cpus as u32));
        }
        for set in &mut smaller.workload.cpu_sets {
            *set = set.as_deref().map(|cpus| within(cpus, nr_cpus as u32));
        }
        for change in &mut smaller.workload.changes {
            if let ChangeKind::Affinity { cpus: Some(cpus), .. } = &mut change.what {
                *cpus = within(cpus, nr_cpus as u32);
            }
        }
        smaller
    };
    let mut found: Vec<Scenario> = (1..=nr_cpus).map(flat).collect();
    let mut costless = scenario.clone();
    costless.machine.costs = no_costs(&scenario.machine.costs);
    costless.machine.costs_by_policy.clear();
    let mut plain = scenario.clone();
    plain.machine.hz = 1000;
    plain.machine.sync_wakeups = false;
    plain.machine.hz_by_policy.clear();
    plain.machine.one_lock.clear();
    plain.machine.sync_wakeups_by_policy.clear();
    found.extend([costless, plain]);
    found
}

/// Those CPUs that there still are; the first if there are none.
fn within(cpus: &[u32], nr_cpus: u32) -> Arc<[u32]> {
    let left: Vec<u32> = cpus.iter().copied().filter(|&cpu| cpu < nr_cpus).collect();
    if left.is_empty() { Arc::new([0]) } else { left.into() }
}

// ---- tasks --------------------------------------------------------------------------------------

/// Simpler tasks: plain ones, at once, with shorter programs.
fn templates(scenario: &Scenario) -> Vec<Scenario> {
    let workload = &scenario.workload;
    let with = |workload: Workload| Scenario { machine: scenario.machine.clone(), workload };
    let mut found = Vec::new();
    for number in 0..workload.templates.len() {
        for template in plainer(&workload.templates[number]) {
            let mut smaller = workload.clone();
            smaller.templates[number] = template;
            found.push(with(smaller));
        }
    }
    for number in 0..workload.initial.len() {
        let mut smaller = workload.clone();
        smaller.initial[number].start_at_ns = 0;
        found.push(with(smaller));
    }
    found
}

/// Every template that is one change simpler.
fn plainer(template: &TaskTemplate) -> Vec<TaskTemplate> {
    let mut found: Vec<TaskTemplate> = steps::shorter(&Step::of(&template.program))
        .into_iter()
        .map(|steps| TaskTemplate { program: Step::program(&steps), ..template.clone() })
        .collect();
    found.push(TaskTemplate { nice: 0, ..template.clone() });
    found.push(TaskTemplate { cpus: None, ..template.clone() });
    found.push(TaskTemplate { address_space: None, footprint_kib: 0, ..template.clone() });
    found
}

/// An amount that is easier to read: fixed, then rounded, then shorter.
fn plainer_amount(amount: &Amount) -> Vec<Amount> {
    let ms = 1_000_000;
    let typical = match *amount {
        Amount::Fixed(value) => value,
        Amount::Uniform { low, high } => (low + high) / 2,
        Amount::Exponential { mean } | Amount::Normal { mean, .. } => mean,
        Amount::LogNormal { median, .. } => median,
        Amount::Recorded(quantiles) => quantiles.mean() as u64,
    };
    let rounded = if typical > ms { typical / ms * ms } else { typical };
    let mut found = vec![Amount::Fixed(ms), Amount::Fixed(rounded), Amount::Fixed(typical)];
    found.retain(|simpler| match (simpler, amount) {
        (Amount::Fixed(simpler), Amount::Fixed(value)) => simpler < value,
        _ => true,
    });
    found
}

/// Fewer rounds.
fn plainer_repeat(repeat: &Repeat) -> Vec<Repeat> {
    let Repeat::Times(amount) = repeat else { return Vec::new() };
    let Amount::Fixed(rounds) = *amount else { return vec![Repeat::Times(Amount::Fixed(1))] };
    let fewer = [rounds / 2, rounds.saturating_sub(1)].into_iter();
    let fewer = fewer.filter(|&fewer| fewer > 0 && fewer < rounds);
    fewer.map(|fewer| Repeat::Times(Amount::Fixed(fewer))).collect()
}

// ---- what nobody uses ---------------------------------------------------------------------------

/// Scenarios without one channel or gate and all steps that use it, and without templates, channels
/// and gates that nobody uses.
fn unused_parts(scenario: &Scenario) -> Vec<Scenario> {
    let workload = &scenario.workload;
    let mut found = vec![tidied(workload)];
    for channel in 0..workload.channels.len() as u32 {
        let uses = move |op: &Op| match op {
            Op::Send { channel: used, .. } | Op::Recv { channel: used, .. } => *used == channel,
            _ => false,
        };
        found.push(tidied(&steps::without(workload, &uses)));
    }
    for gate in 0..workload.nr_gates {
        let uses = move |op: &Op| match op {
            Op::Wake { gate: used } | Op::WakeAll { gate: used } | Op::Wait { gate: used } => {
                *used == gate
            }
            _ => false,
        };
        found.push(tidied(&steps::without(workload, &uses)));
    }
    let with = |workload: Workload| Scenario { machine: scenario.machine.clone(), workload };
    found.into_iter().map(with).collect()
}

/// The workload without templates, channels and gates that nobody uses.
fn tidied(workload: &Workload) -> Workload {
    let mut tidy = workload.clone();
    let used = |keep: &dyn Fn(&Op) -> Option<u32>| {
        let ops = workload.templates.iter().flat_map(|template| template.program.iter());
        let mut used: Vec<u32> = ops.filter_map(keep).collect();
        used.sort_unstable();
        used.dedup();
        used
    };
    let channels = used(&|op| match op {
        Op::Send { channel, .. } | Op::Recv { channel, .. } => Some(*channel),
        _ => None,
    });
    let gates = used(&|op| match op {
        Op::Wake { gate } | Op::WakeAll { gate } | Op::Wait { gate } => Some(*gate),
        _ => None,
    });
    let mut templates = used(&|op| match op {
        Op::Fork { template } => Some(*template),
        _ => None,
    });
    templates.extend(workload.initial.iter().map(|task| task.template));
    templates.sort_unstable();
    templates.dedup();
    let place = |kept: &[u32], number: u32| kept.partition_point(|&other| other < number) as u32;
    let keep = |all: &[u32], number: u32| all.binary_search(&number).is_ok();
    let renumber = |op: &Op| match *op {
        Op::Send { channel, bytes } => Op::Send { channel: place(&channels, channel), bytes },
        Op::Recv { channel, bytes } => Op::Recv { channel: place(&channels, channel), bytes },
        Op::Wake { gate } => Op::Wake { gate: place(&gates, gate) },
        Op::WakeAll { gate } => Op::WakeAll { gate: place(&gates, gate) },
        Op::Wait { gate } => Op::Wait { gate: place(&gates, gate) },
        Op::Fork { template } => Op::Fork { template: place(&templates, template) },
        op => op,
    };
    let mut number = 0..;
    tidy.templates.retain(|_| keep(&templates, number.next().unwrap_or(0)));
    let mut number = 0..;
    tidy.channels.retain(|_| keep(&channels, number.next().unwrap_or(0)));
    tidy.nr_gates = gates.len() as u32;
    for template in &mut tidy.templates {
        template.program = template.program.iter().map(renumber).collect();
    }
    let renumbered = |task: &InitialTask| InitialTask {
        template: place(&templates, task.template),
        start_at_ns: task.start_at_ns,
    };
    tidy.initial = workload.initial.iter().map(renumbered).collect();
    tidy
}
