//! The process that starts the tasks of a play, waits for their end, and ends them.
//!
//! It sleeps while the play goes on and has a real-time priority where that is allowed, so that
//! it stops the play in time whatever the scheduler under test thinks. Whoever dies, no task is
//! left behind: the conductor is told when its caller dies, and the leader of the tasks' group
//! kills the group when the conductor dies.

use crate::player::changes::{Changes, bring_all_up};
use crate::player::error::Step;
use crate::player::setting::Setting;
use crate::player::stage::{Ending, Failure, Start};
use crate::system::{self, Fork};
use scenario::draw::Lineage;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, Ordering};

/// The longest that an initial task may take to come to its start.
const REPORT_NS_MAX: u64 = 30_000_000_000;
/// From the choice of time 0 to time 0, at first: for itself, and for each initial task. Where time
/// is not counted by instructions, the machine may stand still for a moment, as a virtual one does.
const MARGIN_NS: u64 = 100_000_000;
const MARGIN_COUNTED_NS: u64 = 20_000_000;
const MARGIN_NS_A_TASK: u64 = 1_000_000;
/// Time 0 is a multiple of this on `CLOCK_MONOTONIC`, where kernels since 6.4 place their ticks:
/// a play then begins with a tick, as a simulation does, whether ticks are 1, 4 or 10 ms apart.
const START_GRID_NS: u64 = 20_000_000;
/// Between two looks at whether a task sleeps.
const LOOK_NS: u64 = 30_000;
/// Between two looks for tasks that died without a word: at least this, and so long that the
/// looks take a hundredth of it.
const ROUND_NS_MIN: u64 = 1_000_000_000;
const ROUND_NS_A_TASK: u64 = 100_000;

/// Somebody asked the conductor to end.
static ASKED_TO_END: AtomicBool = AtomicBool::new(false);

extern "C" fn ask_to_end(_signal: libc::c_int) {
    ASKED_TO_END.store(true, Ordering::SeqCst);
}

extern "C" fn end_the_group(_signal: libc::c_int) {
    // SAFETY: plain numbers; 0 is the caller's own group, which holds only tasks.
    unsafe { libc::kill(0, libc::SIGKILL) };
}

/// Life of the conductor's process, forked by `caller`: until the play is over or `limit_ns` have
/// passed since time 0.
pub fn conduct(setting: &Setting, caller: i32, limit_ns: u64) -> ! {
    let handler = ask_to_end as extern "C" fn(libc::c_int);
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        system::on_signal(signal, handler as libc::sighandler_t);
    }
    system::on_signal(libc::SIGCHLD, libc::SIG_DFL);
    system::unblock_signals();
    // Out of the caller's group: what is typed at a terminal goes to the caller alone.
    let _ = system::join_group(0, 0);
    system::set_process(libc::PR_SET_PDEATHSIG, libc::SIGTERM as u64);
    if system::parent_pid() != caller {
        system::exit_process(1);
    }
    system::set_process(libc::PR_SET_CHILD_SUBREAPER, 1);
    system::set_process(libc::PR_SET_TIMERSLACK, 1);
    let realtime = system::set_class(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, 1).is_ok();
    let play = setting.stage.play();
    play.realtime.store(realtime.into(), SeqCst);
    setting.become_the_play();
    let ending = lead(setting, limit_ns);
    end_all(setting);
    bring_all_up(setting.workload);
    play.ending.store(ending as u32, SeqCst);
    system::exit_process(0)
}

fn lead(setting: &Setting, limit_ns: u64) -> Ending {
    let play = setting.stage.play();
    if let Err(failure) = make_group(setting).and_then(|()| create_initial(setting)) {
        play.fail(failure);
        return Ending::Failed;
    }
    if let Err(ending) = arm(setting) {
        return ending;
    }
    let ending = wait_for_end(setting, limit_ns);
    play.ended_at_ns.store(system::now_ns(), SeqCst);
    if ending != Ending::AllEnded {
        measure_living(setting);
    }
    ending
}

fn failure(step: Step, task: Option<u32>, errno: i32) -> Failure {
    Failure { step: step as u8, task, errno }
}

/// The leader of the tasks' group does nothing but kill the group when the conductor dies.
fn make_group(setting: &Setting) -> Result<(), Failure> {
    let conductor = system::pid();
    let failed = |errno| failure(Step::Group, None, errno);
    match system::fork().map_err(failed)? {
        Fork::Parent(leader) => {
            // Both sides do it, so that neither need wait for the other.
            let _ = system::join_group(leader, leader);
            setting.stage.play().group.store(leader, SeqCst);
            Ok(())
        }
        Fork::Child => {
            let _ = system::join_group(0, 0);
            let handler = end_the_group as extern "C" fn(libc::c_int);
            system::on_signal(libc::SIGTERM, handler as libc::sighandler_t);
            system::set_process(libc::PR_SET_PDEATHSIG, libc::SIGTERM as u64);
            while system::parent_pid() == conductor {
                system::pause();
            }
            system::exit_process(0)
        }
    }
}

// ---- beginning ----------------------------------------------------------------------------------

/// Creates the initial tasks in their order; one process for each address space that is shared.
fn create_initial(setting: &Setting) -> Result<(), Failure> {
    let play = setting.stage.play();
    let initial = &setting.workload.initial;
    let space_of =
        |task: usize| setting.workload.templates[initial[task].template as usize].address_space;
    for (task, first) in initial.iter().enumerate() {
        let slot = setting.stage.slot(task as u32);
        slot.template.store(first.template, SeqCst);
        slot.stream.store(Lineage::initial(task as u32).stream(), SeqCst);
    }
    play.nr_tasks.store(initial.len() as u32, SeqCst);
    play.alive.store(initial.len() as u32, SeqCst);
    let group = play.group.load(SeqCst);
    let mut expected = 0;
    for task in 0..initial.len() {
        let space = space_of(task);
        if space.is_some() && (0..task).any(|earlier| space_of(earlier) == space) {
            continue;
        }
        let failed = |errno| failure(Step::Create, Some(task as u32), errno);
        match system::fork().map_err(failed)? {
            Fork::Parent(_) => {}
            Fork::Child => {
                for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
                    system::on_signal(signal, libc::SIG_DFL);
                }
                // Nobody waits for the tasks' children: they vanish when they end.
                system::on_signal(libc::SIGCHLD, libc::SIG_IGN);
                let _ = system::join_group(0, group);
                setting.live_as_initial(task as u32)
            }
        }
        expected += match space {
            None => 1,
            Some(_) => (task..initial.len()).filter(|&other| space_of(other) == space).count(),
        };
        await_ready(setting, task as u32, expected as u32)?;
    }
    Ok(())
}

fn await_ready(setting: &Setting, task: u32, expected: u32) -> Result<(), Failure> {
    let play = setting.stage.play();
    let deadline_ns = system::now_ns() + REPORT_NS_MAX;
    loop {
        let news = play.news.load(SeqCst);
        if let Some(first) = play.first_failure() {
            return Err(first);
        }
        if play.nr_ready.load(SeqCst) >= expected {
            return Ok(());
        }
        if ASKED_TO_END.load(SeqCst) || system::now_ns() >= deadline_ns {
            return Err(failure(Step::Report, Some(task), libc::ETIMEDOUT));
        }
        system::futex_wait(&play.news, news, system::EVERY_BIT, Some(deadline_ns));
    }
}

/// Chooses time 0 and lets the initial tasks lie down for it. If it comes before all lie, as it
/// may on a busy machine, they get up, and a later one is chosen.
fn arm(setting: &Setting) -> Result<(), Ending> {
    let play = setting.stage.play();
    let nr_initial = setting.workload.initial.len() as u32;
    let own_ns = if setting.burner.looks_at_clock { MARGIN_NS } else { MARGIN_COUNTED_NS };
    let mut margin_ns = own_ns + u64::from(nr_initial) * MARGIN_NS_A_TASK;
    let mut nr_ready = play.nr_ready.load(SeqCst);
    let give_up_at_ns = system::now_ns() + REPORT_NS_MAX;
    for attempt in 1.. {
        let earliest_ns = system::now_ns() + margin_ns + setting.lead_ns;
        play.start_at_ns.store(first_on_grid_ns(earliest_ns), SeqCst);
        play.open_start();
        let nr_armed = lay_down(setting, attempt, give_up_at_ns)?;
        if nr_armed == nr_initial && play.settle_start(Start::Counts) == Start::Counts {
            break;
        }
        play.settle_start(Start::Missed);
        for task in 0..nr_armed {
            let slot = setting.stage.slot(task);
            slot.armed.store(0, SeqCst);
            system::futex_wake(&slot.armed, system::EVERY_BIT);
        }
        nr_ready += nr_armed;
        await_ready(setting, 0, nr_ready).map_err(|failure| {
            play.fail(failure);
            Ending::Failed
        })?;
        margin_ns *= 2;
    }
    Ok(())
}

/// Lets the initial tasks lie down, one after the other: tasks that begin at the same time then
/// wake in their order. Returns how many were told to before time 0 came: all, if it did not.
fn lay_down(setting: &Setting, attempt: u32, give_up_at_ns: u64) -> Result<u32, Ending> {
    let play = setting.stage.play();
    let nr_initial = setting.workload.initial.len() as u32;
    let start_at_ns = play.start_at_ns.load(SeqCst);
    for task in 0..nr_initial {
        let slot = setting.stage.slot(task);
        slot.armed.store(attempt, SeqCst);
        system::futex_wake(&slot.armed, system::EVERY_BIT);
        while slot.waits.load(SeqCst) != attempt || state_of(setting, task) == Some('R') {
            if play.first_failure().is_some() {
                return Err(Ending::Failed);
            }
            if ASKED_TO_END.load(SeqCst) {
                return Err(Ending::Interrupted);
            }
            let now_ns = system::now_ns();
            if now_ns >= give_up_at_ns {
                play.fail(failure(Step::Report, Some(task), libc::ETIMEDOUT));
                return Err(Ending::Failed);
            }
            // Whoever was told to lie down is waited for: only then will it hear of the next start.
            if now_ns >= start_at_ns && slot.waits.load(SeqCst) == attempt {
                return Ok(task + 1);
            }
            system::sleep_ns(LOOK_NS);
        }
    }
    Ok(nr_initial)
}

/// The first time not before `at_ns` at which a play may begin.
fn first_on_grid_ns(at_ns: u64) -> u64 {
    at_ns.next_multiple_of(START_GRID_NS)
}

fn proc_file(setting: &Setting, task: u32, file: &str) -> Option<String> {
    let slot = setting.stage.slot(task);
    let (pid, tid) = (slot.pid.load(SeqCst), slot.tid.load(SeqCst));
    std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/{file}")).ok()
}

/// The kernel's letter for what the task does.
fn state_of(setting: &Setting, task: u32) -> Option<char> {
    proc_file(setting, task, "stat")?.rsplit_once(") ")?.1.chars().next()
}

// ---- waiting ------------------------------------------------------------------------------------

fn wait_for_end(setting: &Setting, limit_ns: u64) -> Ending {
    let play = setting.stage.play();
    let start_at_ns = play.start_at_ns.load(SeqCst);
    let after_start = |ns: u64| start_at_ns.saturating_add(ns);
    let stop_at_ns = setting.workload.stop_at_ns.map_or(u64::MAX, after_start);
    let limit_at_ns = after_start(limit_ns);
    let mut next_round_ns = after_start(ROUND_NS_MIN);
    let mut changes = Changes::new(setting, start_at_ns);
    loop {
        let news = play.news.load(SeqCst);
        let now_ns = system::now_ns();
        if play.first_failure().is_some() {
            return Ending::Failed;
        }
        if play.alive.load(SeqCst) == 0 {
            return Ending::AllEnded;
        }
        if now_ns >= stop_at_ns {
            return Ending::WorkloadStopped;
        }
        if now_ns >= limit_at_ns {
            return Ending::TimeIsUp;
        }
        if ASKED_TO_END.load(SeqCst) {
            return Ending::Interrupted;
        }
        if let Err(failure) = changes.make_due() {
            play.fail(failure);
            return Ending::Failed;
        }
        if now_ns >= next_round_ns {
            look_for_dead(setting);
            let alive = u64::from(play.alive.load(SeqCst));
            next_round_ns = system::now_ns() + ROUND_NS_MIN.max(alive * ROUND_NS_A_TASK);
        }
        let wake_at_ns = stop_at_ns.min(limit_at_ns).min(next_round_ns).min(changes.due_at_ns());
        system::futex_wait(&play.news, news, system::EVERY_BIT, Some(wake_at_ns));
    }
}

/// Finds tasks that were killed: they never told that they ended.
fn look_for_dead(setting: &Setting) {
    let play = setting.stage.play();
    while let Ok(Some((pid, status))) = system::reap(false) {
        if libc::WIFSIGNALED(status) {
            let task =
                living(setting).find(|&task| setting.stage.slot(task).pid.load(SeqCst) == pid);
            play.fail(failure(Step::Death, task, libc::WTERMSIG(status)));
        }
    }
    let lost = living(setting).find(|&task| {
        let slot = setting.stage.slot(task);
        let tid = slot.tid.load(SeqCst);
        // It may have ended between the two looks.
        tid != 0
            && !system::exists(slot.pid.load(SeqCst), tid)
            && slot.exited_at_ns.load(SeqCst) == 0
    });
    if let Some(task) = lost {
        play.fail(failure(Step::Death, Some(task), 0));
    }
}

fn living<'a>(setting: &'a Setting) -> impl Iterator<Item = u32> + 'a {
    let nr_tasks = setting.stage.play().nr_tasks.load(SeqCst);
    (0..nr_tasks).filter(|&task| setting.stage.slot(task).exited_at_ns.load(SeqCst) == 0)
}

// ---- ending -------------------------------------------------------------------------------------

/// Notes what the tasks that have not ended have done so far.
fn measure_living(setting: &Setting) {
    // CPU time first and at once: it is what runs on while one looks.
    for task in living(setting) {
        let slot = setting.stage.slot(task);
        let pid = slot.pid.load(SeqCst);
        let template = slot.template.load(SeqCst) as usize;
        let is_process = setting.workload.templates[template].address_space.is_none();
        let run_ns = if is_process && pid != 0 {
            system::clock_ns(system::cpu_clock_of(pid))
        } else {
            first_number(setting, task).unwrap_or(0)
        };
        slot.run_ns.set(run_ns);
    }
    for task in living(setting) {
        let slot = setting.stage.slot(task);
        let status = proc_file(setting, task, "status").unwrap_or_default();
        let count = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key));
            line.and_then(|rest| rest.trim().parse().ok()).unwrap_or(0)
        };
        slot.voluntary.set(count("voluntary_ctxt_switches:"));
        slot.involuntary.set(count("nonvoluntary_ctxt_switches:"));
    }
}

/// CPU time of a thread, to within a tick where it runs at the moment.
fn first_number(setting: &Setting, task: u32) -> Option<u64> {
    proc_file(setting, task, "schedstat")?.split(' ').next()?.parse().ok()
}

/// Kills what is left and waits until all are gone.
fn end_all(setting: &Setting) {
    let group = setting.stage.play().group.load(SeqCst);
    if group != 0 {
        system::send_signal(-group, libc::SIGKILL);
    }
    while system::reap(true).is_ok() {}
}

#[cfg(test)]
mod tests {
    //! Goal: plays begin with a tick, whatever its length. Method: examples.
    use super::*;

    #[test]
    fn a_play_begins_with_a_tick_and_not_early() {
        for at_ns in [0, 1, 20_000_000, 9_907_612_257] {
            let start_ns = first_on_grid_ns(at_ns);
            assert!((at_ns..at_ns + START_GRID_NS).contains(&start_ns));
            assert!(
                [1_000_000, 4_000_000, 10_000_000]
                    .iter()
                    .all(|tick_ns| start_ns.is_multiple_of(*tick_ns))
            );
        }
    }
}
