//! What came of a play, in the words of the simulator's results.

use crate::player::distribution::Distribution;
use crate::player::requests::PlayedRequests;
use crate::player::setting::Setting;
use crate::player::stage::Stage;
use scenario::workload::Workload;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::SeqCst;

/// How a play ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// All tasks ended, or the workload's own stop was reached.
    Completed,
    /// The caller's time limit was reached.
    Stopped,
}

/// A task of a play. Times on `CLOCK_MONOTONIC`, counted from the workload's time 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlayedTask {
    /// Its number, from 0: the simulator's, where only one task at a time forks.
    pub number: u32,
    /// Index into the workload's templates.
    pub template: u32,
    /// The template's name.
    pub name: String,
    /// Number of the task that forked it; none for an initial task.
    pub parent: Option<u32>,
    /// Thread id: what traces call its pid. 0 if it never ran.
    pub tid: i32,
    /// Nice value at its end.
    pub nice: i32,
    /// When its fork began, or it was to start. Before 0 for nobody.
    pub born_at_ns: u64,
    /// When it ended by itself.
    pub exited_at_ns: Option<u64>,
    /// CPU time up to its end or the play's: that of a forked task's birth is included, that of
    /// exits and of what initial tasks do before time 0 is not.
    pub run_ns: u64,
    /// Times it left its CPU because it blocked or slept.
    pub voluntary_switches: u64,
    /// Times it left its CPU although it could have gone on.
    pub involuntary_switches: u64,
    /// Messages it received since the mark.
    pub messages: u64,
}

/// Tasks of one name and nice value together, as in simulated results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlayedGroup {
    /// Their name.
    pub name: String,
    /// Their nice value at the end.
    pub nice: i32,
    /// How many.
    pub count: u64,
    /// Whether the workload keeps them off some CPUs.
    pub pinned: bool,
    /// CPU time.
    pub run_ns: u64,
    /// End of the first that ended; 0 if none did.
    pub first_exit_ns: u64,
    /// End of the last that ended; 0 if none did.
    pub last_exit_ns: u64,
}

/// What came of a play. What only a trace can tell (waits, migrations, stays) is not here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Played {
    /// How it ended.
    pub status: Status,
    /// The workload's time 0 on `CLOCK_MONOTONIC`.
    pub start_at_monotonic_ns: u64,
    /// From the mark (or the start) to the end of the last task, or of the play, less what the
    /// workload measured to be taken from it.
    pub makespan_ns: u64,
    /// From the start to the end of the play.
    pub elapsed_ns: u64,
    /// When the mark was reached, from the start.
    pub marked_at_ns: Option<u64>,
    /// Messages received since the mark.
    pub messages: u64,
    /// Tasks that ever existed.
    pub nr_tasks: u64,
    /// CPUs that the tasks could use.
    pub nr_cpus: u64,
    /// Sum over the tasks.
    pub voluntary_switches: u64,
    /// Sum over the tasks.
    pub involuntary_switches: u64,
    /// Whether the end was watched with a real-time priority; if not, the stop may come late.
    pub realtime: bool,
    /// Turns of the computing loop in a millisecond.
    pub turns_per_ms: u64,
    /// Requests by the name of the tasks that released them.
    pub requests: Vec<PlayedRequests>,
    /// The response times of all of them.
    pub response_ns: Distribution,
    /// Tasks by name.
    pub task_groups: Vec<PlayedGroup>,
    /// Tasks by number.
    pub tasks: Vec<PlayedTask>,
}

/// Reads the result off the stage once all tasks are gone.
pub fn score(setting: &Setting, status: Status, nr_cpus: u64) -> Played {
    let (stage, workload) = (setting.stage, setting.workload);
    let play = stage.play();
    let start_at_monotonic_ns = play.start_at_ns.load(SeqCst);
    let since_start_ns = |at_ns: u64| at_ns.saturating_sub(start_at_monotonic_ns);
    let nr_tasks = play.nr_tasks.load(SeqCst);
    let tasks: Vec<PlayedTask> =
        (0..nr_tasks).map(|number| played_task(stage, workload, number)).collect();
    let elapsed_ns = since_start_ns(play.ended_at_ns.load(SeqCst));
    let last_exit_ns = tasks.iter().map(|task| task.exited_at_ns).max().flatten();
    let end_ns = match last_exit_ns {
        Some(last_ns) if tasks.iter().all(|task| task.exited_at_ns.is_some()) => last_ns,
        _ => elapsed_ns,
    };
    let mark_ns = play.marked_at_ns.load(SeqCst);
    let (requests, response_ns) = setting
        .requests
        .map_or_else(Default::default, |requests| requests.score(stage, workload, setting.seed));
    let tare_ns = play.tare_ns.load(SeqCst);
    let marked_at_ns = (mark_ns > 0).then(|| since_start_ns(mark_ns));
    Played {
        status,
        start_at_monotonic_ns,
        makespan_ns: end_ns.saturating_sub(marked_at_ns.unwrap_or(0)).saturating_sub(tare_ns),
        elapsed_ns,
        marked_at_ns,
        messages: tasks.iter().map(|task| task.messages).sum(),
        nr_tasks: nr_tasks.into(),
        nr_cpus,
        voluntary_switches: tasks.iter().map(|task| task.voluntary_switches).sum(),
        involuntary_switches: tasks.iter().map(|task| task.involuntary_switches).sum(),
        realtime: play.realtime.load(SeqCst) != 0,
        turns_per_ms: play.turns_per_ms.load(SeqCst),
        requests,
        response_ns,
        task_groups: groups(&tasks, workload),
        tasks,
    }
}

fn played_task(stage: &Stage, workload: &Workload, number: u32) -> PlayedTask {
    let slot = stage.slot(number);
    let start_at_ns = stage.play().start_at_ns.load(SeqCst);
    let template = slot.template.load(SeqCst);
    let exited_at_ns = slot.exited_at_ns.load(SeqCst);
    PlayedTask {
        number,
        template,
        name: workload.templates[template as usize].name.clone(),
        parent: slot.parent.load(SeqCst).checked_sub(1),
        tid: slot.tid.load(SeqCst),
        nice: slot.nice.load(SeqCst),
        born_at_ns: slot.born_at_ns.load(SeqCst).saturating_sub(start_at_ns),
        exited_at_ns: (exited_at_ns > 0).then(|| exited_at_ns.saturating_sub(start_at_ns)),
        run_ns: slot.run_ns.counted(),
        voluntary_switches: slot.voluntary.counted(),
        involuntary_switches: slot.involuntary.counted(),
        messages: slot.messages.load(SeqCst),
    }
}

fn groups(tasks: &[PlayedTask], workload: &Workload) -> Vec<PlayedGroup> {
    let mut groups: BTreeMap<(&str, i32), PlayedGroup> = BTreeMap::new();
    for task in tasks {
        let group = groups.entry((&task.name, task.nice)).or_insert_with(|| PlayedGroup {
            name: task.name.clone(),
            nice: task.nice,
            count: 0,
            pinned: false,
            run_ns: 0,
            first_exit_ns: 0,
            last_exit_ns: 0,
        });
        group.count += 1;
        group.pinned |= workload.templates[task.template as usize].cpus.is_some();
        group.run_ns += task.run_ns;
        if let Some(exited_ns) = task.exited_at_ns {
            group.last_exit_ns = group.last_exit_ns.max(exited_ns);
            if group.first_exit_ns == 0 || exited_ns < group.first_exit_ns {
                group.first_exit_ns = exited_ns;
            }
        }
    }
    groups.into_values().collect()
}
