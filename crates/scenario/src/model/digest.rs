//! A digest of everything in a machine or workload that can influence a run.
//!
//! The bytes are written by hand, not by a serialisation library, so that the digest changes only
//! when what it stands for changes. Descriptions and the names of files are left out; the names of
//! tasks are kept, because a policy can read them (`comm`).

use crate::model::machine::{
    AllocatorCosts, Bus, Costs, Interrupts, Machine, PolicyCosts, SpeedStep,
};
use crate::model::workload::{
    Amount, Cgroup, ChangeKind, CpuSet, Op, Quantiles, Repeat, TaskTemplate, Workload,
};
use sha2::{Digest, Sha256};

impl Machine {
    /// The machine with its digest brought up to date: call it after changing any field.
    #[must_use]
    pub fn with_digest(mut self) -> Machine {
        let mut encoder = Encoder::new(b"schedlab machine 1");
        encode_machine(&mut encoder, &self);
        self.digest = encoder.finish();
        self
    }
}

impl Workload {
    /// The workload with its digest brought up to date: call it after changing any field.
    #[must_use]
    pub fn with_digest(mut self) -> Workload {
        let mut encoder = Encoder::new(b"schedlab workload 1");
        encode_workload(&mut encoder, &self);
        self.digest = encoder.finish();
        self
    }
}

fn encode_machine(out: &mut Encoder, machine: &Machine) {
    out.number(machine.cpus.len() as u64);
    for cpu in &machine.cpus {
        for number in [cpu.core, cpu.cache, cpu.node, cpu.speed_permille] {
            out.number(number.into());
        }
    }
    out.number(machine.hz.into());
    out.number(u64::from(machine.sync_wakeups));
    out.number(machine.sync_wakeups_by_policy.len() as u64);
    for (policy, sync) in &machine.sync_wakeups_by_policy {
        out.text(policy);
        out.number(u64::from(*sync));
    }
    out.number(machine.watchdog_ns);
    out.number(machine.hz_by_policy.len() as u64);
    for (policy, hz) in &machine.hz_by_policy {
        out.text(policy);
        out.number((*hz).into());
    }
    encode_costs(out, &machine.costs);
    // Last and only if there is one: machines without it keep the digests that they had.
    if let Some(release) = machine.release {
        out.text(&release.to_string());
    }
    if let Some(linux) = machine.linux {
        out.tagged(1).text(&linux.to_string());
    }
    if !machine.turbo_permille.is_empty() {
        out.text("turbo");
        machine.turbo_permille.iter().for_each(|speed| out.number((*speed).into()));
    }
    if let Some(Bus { caches, mb_per_s }) = machine.bus {
        out.text("bus");
        out.number(caches.into());
        out.number(mb_per_s);
    }
    for Interrupts { name: _, cpus, every_ns, takes_ns } in &machine.interrupts {
        out.text("interrupts");
        out.number(*every_ns);
        out.number(*takes_ns);
        out.numbers(cpus);
    }
    for SpeedStep { at_ns, cpus, permille } in &machine.speeds {
        out.text("speed");
        out.number(*at_ns);
        out.number((*permille).into());
        out.numbers(cpus);
    }
    if machine.skew_tick {
        out.text("skew tick");
    }
    for policy in &machine.one_lock {
        out.text("one lock");
        out.text(policy);
    }
    for (policy, costs) in &machine.costs_by_policy {
        out.text("costs");
        out.text(policy);
        encode_costs(out, costs);
    }
}

fn encode_costs(out: &mut Encoder, costs: &Costs) {
    costs.values().into_iter().for_each(|cost| out.number(cost));
    // Machines that were described before there were these keep their digests.
    if costs.cold_write_ns_per_kib > 0 {
        out.text("cold writes");
        out.number(costs.cold_write_ns_per_kib);
    }
    if costs.vtime_op_ns > 0 {
        out.text("by virtual time");
        out.number(costs.vtime_op_ns);
    }
    if costs.memory_ns > 0 {
        out.text("memory");
        out.number(costs.memory_ns);
    }
    if costs.allocator != AllocatorCosts::default() {
        out.text("allocator");
        let AllocatorCosts {
            objects,
            kept,
            batch,
            shared,
            slab,
            get_lines,
            free_lines,
            free_writes,
        } = costs.allocator;
        let all = [objects, kept, batch, shared, slab, get_lines, free_lines, free_writes];
        all.into_iter().for_each(|number| out.number(number));
    }
    if costs.policy.any() {
        let PolicyCosts { instruction_ps, division_ps, call_ps, wide_ps } = costs.policy;
        out.text("instructions");
        [instruction_ps, division_ps, call_ps].into_iter().for_each(|ps| out.number(ps));
        if wide_ps > 0 {
            out.text("wide numbers");
            out.number(wide_ps);
        }
    }
}

fn encode_workload(out: &mut Encoder, workload: &Workload) {
    out.number(workload.templates.len() as u64);
    for template in &workload.templates {
        encode_template(out, template, &workload.cpu_sets);
    }
    out.number(workload.initial.len() as u64);
    for task in &workload.initial {
        out.number(task.template.into());
        out.number(task.start_at_ns);
    }
    out.number(workload.channels.len() as u64);
    for channel in &workload.channels {
        out.number(channel.capacity_bytes.into());
        out.number(channel.overhead_bytes.into());
        out.number(channel.wake_senders_at_bytes.into());
        out.number(channel.sync_wakeups.into());
    }
    out.number(workload.nr_gates.into());
    out.optional(workload.stop_at_ns);
    // Last and only if there are any: workloads without them keep the digests that they had.
    for change in &workload.changes {
        out.number(change.at_ns);
        match &change.what {
            ChangeKind::Hotplug { cpu, online } => {
                out.tagged(1).pair(*cpu, u32::from(*online));
            }
            ChangeKind::Affinity { task, cpus } => {
                out.tagged(2).text(task);
                encode_cpus(out, cpus);
            }
            ChangeKind::Move { task, to } => {
                out.tagged(3).text(task);
                out.optional(to.map(u64::from));
            }
            ChangeKind::Cgroup { number, now } => {
                out.tagged(4).number((*number).into());
                encode_cgroup(out, now);
            }
        }
    }
    if !workload.cgroups.is_empty() {
        encode_cgroups(out, workload);
    }
    if workload.starts_everywhere {
        out.text("starts everywhere");
    }
    if !workload.lines_per_ms.is_empty() {
        out.text("memory");
        workload.lines_per_ms.iter().for_each(|&(kib, lines)| out.pair(kib, lines));
    }
}

fn encode_cgroups(out: &mut Encoder, workload: &Workload) {
    // No time of a change, so that this is no change.
    out.number(u64::MAX);
    out.number(workload.cgroups.len() as u64);
    workload.cgroups.iter().for_each(|group| encode_cgroup(out, group));
    for template in &workload.templates {
        out.optional(template.cgroup.map(u64::from));
    }
}

fn encode_cgroup(out: &mut Encoder, group: &Cgroup) {
    let Cgroup { path, weight, idle, quota_ns, period_ns, burst_ns } = group;
    out.text(path);
    out.number((*weight).into());
    out.number((*idle).into());
    out.optional(*quota_ns);
    out.number(*period_ns);
    out.number(*burst_ns);
}

fn encode_cpus(out: &mut Encoder, cpus: &CpuSet) {
    match cpus {
        None => out.tag(0),
        Some(cpus) => {
            out.tagged(1).numbers(cpus);
        }
    }
}

fn encode_template(out: &mut Encoder, template: &TaskTemplate, cpu_sets: &[CpuSet]) {
    out.text(&template.name);
    out.signed(template.nice);
    encode_cpus(out, &template.cpus);
    out.optional(template.address_space.map(u64::from));
    out.number(template.footprint_kib.into());
    out.number(template.program.len() as u64);
    template.program.iter().for_each(|op| encode_op(out, op, cpu_sets));
}

fn encode_op(out: &mut Encoder, op: &Op, cpu_sets: &[CpuSet]) {
    match *op {
        Op::Run(amount) => encode_amount(out.tagged(1), amount),
        Op::Sleep(amount) => encode_amount(out.tagged(2), amount),
        Op::Send { channel, bytes } => out.tagged(3).pair(channel, bytes),
        Op::Recv { channel, bytes } => out.tagged(4).pair(channel, bytes),
        Op::Wake { gate } => out.tagged(5).number(gate.into()),
        Op::WakeAll { gate } => out.tagged(6).number(gate.into()),
        Op::Wait { gate } => out.tagged(7).number(gate.into()),
        Op::Yield => out.tag(8),
        Op::Fork { template } => out.tagged(9).number(template.into()),
        Op::Join => out.tag(10),
        Op::Nice(nice) => out.tagged(11).signed(nice),
        Op::Loop { repeat, end } => {
            encode_repeat(out.tagged(12), repeat);
            out.number(end.into());
        }
        Op::End { start } => out.tagged(13).number(start.into()),
        Op::Mark => out.tag(14),
        Op::Tare => out.tag(20),
        Op::Exit => out.tag(15),
        Op::Release { every, deadline_ns } => {
            encode_amount(out.tagged(16), every);
            out.number(deadline_ns);
        }
        Op::Done => out.tag(17),
        // The CPUs themselves: a set's number has no meaning of its own.
        Op::Affinity { set } => {
            out.tag(18);
            if let Some(cpus) = cpu_sets.get(set as usize) {
                encode_cpus(out, cpus);
            }
        }
        Op::Move { to } => out.tagged(19).optional(to.map(u64::from)),
    }
}

fn encode_repeat(out: &mut Encoder, repeat: Repeat) {
    match repeat {
        Repeat::Times(amount) => encode_amount(out.tagged(1), amount),
        Repeat::Forever => out.tag(2),
        Repeat::WhileChildren => out.tag(3),
    }
}

fn encode_amount(out: &mut Encoder, amount: Amount) {
    let (tag, numbers) = match amount {
        Amount::Fixed(value) => (1, [value, 0]),
        Amount::Uniform { low, high } => (2, [low, high]),
        Amount::Exponential { mean } => (3, [mean, 0]),
        Amount::Normal { mean, sd } => (4, [mean, sd]),
        Amount::LogNormal { median, sigma_permille } => (5, [median, sigma_permille]),
        Amount::Recorded(Quantiles { at, unit, permille }) => {
            out.tag(6);
            at.iter().chain([&unit, &permille]).for_each(|&number| out.number(number.into()));
            return;
        }
    };
    out.tag(tag);
    numbers.iter().for_each(|&number| out.number(number));
}

/// Writes values so that different sequences of values give different bytes: numbers have one
/// width, texts and lists carry their length, variants a tag.
struct Encoder(Sha256);

impl Encoder {
    fn new(kind: &[u8]) -> Encoder {
        let mut encoder = Encoder(Sha256::new());
        encoder.number(kind.len() as u64);
        encoder.0.update(kind);
        encoder
    }

    fn tag(&mut self, tag: u8) {
        self.0.update([tag]);
    }

    fn tagged(&mut self, tag: u8) -> &mut Encoder {
        self.tag(tag);
        self
    }

    fn number(&mut self, number: u64) {
        self.0.update(number.to_le_bytes());
    }

    fn numbers(&mut self, numbers: &[u32]) {
        self.number(numbers.len() as u64);
        numbers.iter().for_each(|&number| self.number(number.into()));
    }

    fn signed(&mut self, number: i8) {
        self.0.update(number.to_le_bytes());
    }

    fn pair(&mut self, a: u32, b: u32) {
        self.number(a.into());
        self.number(b.into());
    }

    fn optional(&mut self, number: Option<u64>) {
        match number {
            None => self.tag(0),
            Some(number) => self.tagged(1).number(number),
        }
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.update(text.as_bytes());
    }

    fn finish(self) -> String {
        self.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
