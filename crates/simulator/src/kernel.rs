//! The whole simulated machine: the kernel that calls from the policy reach, what its tasks do, and
//! how long it runs.

use crate::Options;
use crate::agenda::{TIME_NS_MAX, When};
use crate::allocator::Allocator;
use crate::background::Background;
use crate::buses::Buses;
use crate::caches::Caches;
use crate::choices::Choices;
use crate::core::Core;
use crate::cpus::Cpus;
use crate::failure::FailureKind;
use crate::groups::{Groups, ROOT};
use crate::idle::Idle;
use crate::linked::{Adopted, Mode, Refusal};
use crate::picking::Picking;
use crate::policy_state::{Given, Load, PolicyState};
use crate::policy_time::PolicyTime;
use crate::programs::Programs;
use crate::queues::Queues;
use crate::recorder::Recorder;
use crate::releases;
use crate::task::Tasks;
use crate::time::Time;
use crate::visible::Visible;
use crate::world::{WorldKind, world};
use scenario::machine::Machine;
use scenario::workload::Workload;

/// The whole simulated machine.
pub struct Kernel<'a> {
    /// What calls from the policy can reach.
    pub core: Core<'a>,
    /// What tasks do.
    pub programs: Programs<'a>,
    /// Which of several CPUs goes first, if that is chosen.
    pub choices: Option<Box<Choices>>,
    /// Nothing happens after this time.
    pub until_ns: u64,
    /// Whether the state is to be told if the run fails.
    pub dumps_failure: bool,
}

impl<'a> Kernel<'a> {
    /// A machine with the policy loaded and no task yet. `name` is the policy's.
    pub fn new(
        policy: policy::Loaded,
        load: Load<'a>,
        machine: &'a Machine,
        workload: &'a Workload,
        name: &str,
        options: &Options,
    ) -> Result<Box<Self>, Refusal> {
        let (nr_cpus, hz, mode) = (machine.cpus.len(), machine.hz_for(name), Mode::of(options));
        let mut visible = Visible::new(hz, nr_cpus as u32, options.strict)?;
        let release = machine.release;
        visible.facts.version = releases::version(release);
        let costs = machine.costs_for(name);
        let time = PolicyTime::new(costs.policy);
        let kind = WorldKind::of(&policy, visible.width(), time.is_taken());
        let world = world(kind, release);
        let how = (mode, time.costs());
        let adopted = Adopted::new(&policy, &mut visible, world, release, nr_cpus, how)?;
        let cpus = Cpus::new(machine, costs, workload);
        visible.facts.lock_ns = cpus.costs().lock_ns + cpus.transfer_ns(0, 0);
        let spaces = workload.templates.iter().filter_map(|kind| kind.address_space);
        let nr_spaces = spaces.max().map_or(0, |number| number + 1);
        let given = Given::new(&mut visible, mode, release, &policy, time.is_taken());
        let mut core = Core {
            time: Time::new(nr_cpus, hz, machine.skew_tick),
            tasks: Tasks::new(&mut visible, nr_cpus, nr_spaces),
            queues: Queues::new(&mut visible, nr_cpus, cpus.nr_nodes()),
            cpus,
            buses: Buses::new(machine, costs),
            caches: Caches::new(machine, costs),
            allocator: Allocator::new(machine, costs.allocator),
            background: Background::new(machine, options.seed),
            groups: Groups::new(&mut visible, workload),
            idle: Idle::new(&machine.cpus, &mut visible),
            picking: Picking::new(machine.one_lock.contains(name)),
            recorder: Recorder::of(options, &policy.object, nr_cpus).map_err(Refusal::Watch)?,
            policy: PolicyState::new(adopted, load, given, options, time),
            visible,
        };
        let (masks, visible) = (core.idle.masks(), &mut core.visible);
        visible.facts.idle_cpus = visible.room.address(masks.idle_cpus.bits.as_ptr());
        visible.facts.idle_cores = visible.room.address(masks.idle_cores.bits.as_ptr());
        let root = core.groups.seen(ROOT);
        core.tasks.idle_tasks().for_each(|task| (task.cgroups, task.task_group) = (root, root));
        Ok(Box::new(Kernel {
            core,
            programs: Programs::new(workload, machine, name, options.seed),
            choices: options.choices.clone().map(Choices::of).map(Box::new),
            until_ns: options.until_ns.unwrap_or(TIME_NS_MAX).min(TIME_NS_MAX),
            dumps_failure: options.dumps.on_failure || options.dumps.at_end,
        }))
    }

    /// What must hold after an event: tasks have places, and time did not go back.
    pub fn check_event(&mut self, when: When) {
        let core = &mut self.core;
        core.check_places();
        // Where the order of a time's events is chosen, their turns say nothing.
        let is_chosen = || self.choices.is_some() && core.time.first().0.at_ns == when.at_ns;
        let in_order = core.time.is_after(when) || is_chosen();
        if !in_order {
            self.time_went_back(when);
        }
        if core.recorder.is_due(when.at_ns) {
            if let Some(message) = core.recorder.exceeded() {
                core.fail(FailureKind::Limit, message);
            }
            core.check_all();
        }
    }
    #[cold]
    #[inline(never)]
    fn time_went_back(&self, when: When) -> ! {
        panic!("time went back: {:?} after {when:?}", self.core.time.first().0);
    }
}
