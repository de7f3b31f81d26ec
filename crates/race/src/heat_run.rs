//! One heat from beginning to end.

use std::panic::{self, AssertUnwindSafe};
use std::time::{Duration, Instant};

use runqueue::{RedBlackTree, RunQueue};

use crate::counters::{self, Counters};
use crate::course::{self, Meter, Runner};
use crate::cpu_core::{Calm, CpuCore};
use crate::entrants::{self, Entrant};
use crate::heat::{Heat, Row};
use crate::order::{Popped, Pops};
use crate::pin::Pinned;
use crate::setting::Setting;
use crate::spec::Order;
use crate::trace::Trace;
use crate::{HeatSpec, RaceError, Workload, clock, memory};

/// Items of a heat that does not say how many.
const ITEMS: u32 = 100;
/// How often a stretch is run again in which another thread had the CPU or a half of its core.
const RERUNS_MAX: u32 = 3;
/// A stretch that takes longer meets another thread on any busy machine, and is not run again.
const RERUN_LONGEST: Duration = Duration::from_millis(5);
/// What the times of a pop and a push take that were timed alone, or those of a removal and a push:
/// four bytes each, in vectors that grow by doubling, and their sum.
const SAMPLE_BYTES: u64 = 20;

/// Runs one heat: one workload, one size, all entrants.
///
/// This thread stays on one CPU meanwhile. Each entrant's order is verified, its queue is brought
/// into a steady state, and then the entrants take turns, so that whatever disturbs the machine
/// disturbs all of them alike. `watch` is asked before each entrant gets ready, between rounds, and
/// while a heat waits for a core of its own, whether to go on.
///
/// # Errors
///
/// [`RaceError`] if the heat asks for what is not there, if an entrant that calls itself exact is
/// not or one loses items, if a structure panics, or [`RaceError::Stopped`].
pub fn heat(spec: &HeatSpec, watch: &mut dyn FnMut() -> bool) -> Result<Heat, RaceError> {
    // Everything that a heat has is its own, so nothing is left half done behind it.
    panic::catch_unwind(AssertUnwindSafe(|| run_heat(spec, watch))).unwrap_or_else(|panicked| {
        let text = panicked.downcast_ref::<String>().map(String::as_str);
        let cause = text.or_else(|| panicked.downcast_ref::<&str>().copied());
        Err(RaceError::BrokeOff { cause: cause.unwrap_or("no reason is known").to_owned() })
    })
}

fn run_heat(spec: &HeatSpec, watch: &mut dyn FnMut() -> bool) -> Result<Heat, RaceError> {
    let keys = spec.keys()?;
    let trace = recorded(spec)?;
    let n = spec.n.or(trace.as_ref().map(|trace| trace.items)).unwrap_or(ITEMS);
    let recorded = trace.as_ref().map_or(0, |trace| trace.operations.len() as u64);
    let mut spec = spec.filled_in(n, recorded)?;
    let entrants = entrants::asked_for(&spec)?;
    let setting = Setting::new(&spec, keys, n, trace);
    let (racing, resting): (Vec<_>, Vec<_>) = entrants
        .into_iter()
        .map(|entrant| (entrant.left_out(&setting, keys), entrant))
        .partition(|(left_out, _)| left_out.is_empty());
    if racing.is_empty() {
        return Err(nobody_left(&setting, &resting));
    }
    there_is_room(&racing, &setting, samples(&setting, &spec))?;

    let pinned = Pinned::to(spec.cpu)?;
    let mut field = Vec::new();
    let reference = reference(&setting)?;
    for (_, entrant) in &racing {
        if !watch() {
            return Err(RaceError::Stopped);
        }
        field.push(Racer::ready(entrant, &setting, &reference)?);
    }
    let mut core = CpuCore::of_this_thread(spec.pace, watch);
    for round in 0..spec.rounds as usize {
        core.goes_on()?;
        run_round(&mut field, &setting, spec.order, round, &mut core)?;
    }
    for racer in &mut field {
        racer.row.disturbed = racer.calms.iter().filter(|calm| !core.was_ours(**calm)).count();
    }
    spec.pace = Some(core.pace());
    let mut counters = Counters::of_this_thread();
    let counting = counters::state_of(&counters);
    for racer in &mut field {
        core.goes_on()?;
        racer.finish(&setting, counters.as_mut().ok());
    }
    let large_page_bytes = memory::large_bytes();
    for racer in &mut field {
        core.goes_on()?;
        racer.conclude()?;
    }

    let cpu = pinned.cpu;
    spec.cpu = Some(cpu);
    spec.structures = Some(field.iter().map(|racer| racer.row.structure.clone()).collect());
    let raced = field.into_iter().map(|racer| racer.row);
    let rows = raced.chain(resting.into_iter().map(|(why, entrant)| row(&entrant, why)));
    Ok(Heat {
        rows: rows.collect(),
        per: spec.workload.per(),
        spec,
        ticks_per_s: clock::ticks_per_s(),
        clock: clock::NAME,
        cpu,
        counters: counting,
        large_page_bytes,
    })
}

/// Whether all who race can be kept in memory at one time, which taking turns needs. Each is asked
/// what it takes: at few items in many queues that is far more than its items.
fn there_is_room(
    racing: &[(String, Entrant)],
    setting: &Setting,
    samples: u64,
) -> Result<(), RaceError> {
    let Some(available) = memory::available_bytes() else { return Ok(()) };
    let timed = samples.saturating_mul(SAMPLE_BYTES);
    let mut needed = timed.saturating_mul(racing.len() as u64);
    let mut largest = (0, "");
    for (_, entrant) in racing {
        let bytes = entrant.bytes_needed(setting)?;
        needed = needed.saturating_add(bytes);
        largest = largest.max((bytes, &entrant.facts.structure));
    }
    if needed <= available {
        return Ok(());
    }
    Err(RaceError::Memory {
        entrants: racing.len(),
        items: setting.room(),
        samples,
        needed_mib: needed >> 20,
        available_mib: available >> 20,
        largest: largest.1.to_owned(),
        largest_mib: largest.0 >> 20,
    })
}

/// How often an entrant runs in a round: twice where all go there and back.
fn runs_of_a_round(order: Order) -> u64 {
    match order {
        Order::Rotating => 1,
        Order::Abcba => 2,
    }
}

/// Pairs of operations timed alone whose times an entrant keeps.
fn samples(setting: &Setting, spec: &HeatSpec) -> u64 {
    let runs = u64::from(spec.rounds) * runs_of_a_round(spec.order) + 1;
    let pairs = match setting.workload {
        Workload::Single => 1,
        Workload::SingleRemove => 2,
        _ => 0,
    };
    runs.saturating_mul(setting.loops).saturating_mul(pairs)
}

/// The trace of a heat that replays one.
fn recorded(spec: &HeatSpec) -> Result<Option<Trace>, RaceError> {
    match (&spec.trace, spec.workload) {
        (Some(path), Workload::Trace) => Trace::read(path, spec.n).map(Some),
        (None, Workload::Trace) => {
            Err(RaceError::TraceAndWorkload { found: "the workload trace needs a trace".into() })
        }
        (Some(path), workload) => Err(RaceError::TraceAndWorkload {
            found: format!("the workload {} takes no trace: {}", workload.name(), path.display()),
        }),
        (None, _) => Ok(None),
    }
}

fn nobody_left(setting: &Setting, resting: &[(String, Entrant)]) -> RaceError {
    let reason =
        |(why, entrant): &(String, Entrant)| format!("  {}: {why}", entrant.facts.structure);
    RaceError::NobodyLeft {
        workload: setting.workload.name(),
        n: setting.n,
        reasons: resting.iter().map(reason).collect::<Vec<_>>().join("\n"),
    }
}

/// The pops that every exact entrant must give.
fn reference(setting: &Setting) -> Result<Vec<Popped>, RaceError> {
    let mut pops = Pops::recording();
    let make = |capacity| Ok(RedBlackTree::with_capacity(capacity as usize));
    course::runner::<RedBlackTree>(setting, &make)?.examine(&mut pops);
    Ok(pops.into_recorded())
}

/// An entrant in a heat.
struct Racer<'s> {
    runner: Box<dyn Runner + 's>,
    row: Row,
    /// Of each figure: what is known of the core at the end of a heat says which were disturbed.
    calms: Vec<Calm>,
}

impl<'s> Racer<'s> {
    /// Verified and warmed up.
    fn ready(
        entrant: &Entrant,
        setting: &'s Setting,
        reference: &[Popped],
    ) -> Result<Self, RaceError> {
        if !entrant.facts.exact {
            // With queues of its own: who is not exact races as it was filled.
            let kept = entrant.start(setting)?.conserve();
            kept.map_err(|problem| {
                items_error(&entrant.facts.structure, &entrant.facts.source, problem)
            })?;
        }
        let mut row = row(entrant, String::new());
        if entrant.facts.exact {
            // Likewise: what the check leaves behind is nobody's workload.
            let mut examined = entrant.start(setting)?;
            row.order_hash = Some(verify(entrant, examined.as_mut(), reference)?);
        }
        let mut runner = entrant.start(setting)?;
        memory::ask_for_large();
        // Now the queue is full, which it is not at the end of every workload.
        row.bytes_per_item = runner.bytes_per_item();
        runner.warm_up();
        Ok(Racer { runner, row, calms: Vec::new() })
    }

    /// A stretch: ticks of a loop or an operation. Where another thread had the CPU or a half of
    /// its core meanwhile, it is run again; if that happens each time, the least of all counts.
    fn run(&mut self, setting: &Setting, core: &mut CpuCore) -> Result<(f64, Calm), RaceError> {
        let mut least = (f64::INFINITY, Calm { is_interrupted: true, pace: f64::MAX });
        for attempt in 0..=RERUNS_MAX {
            if attempt > 0 {
                self.runner.forget_last_run();
            }
            core.wait()?;
            self.runner.run_up();
            let (begin, begun) = (Instant::now(), core.begin());
            let mut meter = Meter::new(setting, None);
            let loops = self.runner.run(&mut meter);
            let ticks = meter.ticks as f64 / loops as f64;
            let calm = core.end(&begun);
            if core.was_ours(calm) {
                return Ok((ticks, calm));
            }
            if ticks < least.0 {
                least = (ticks, calm);
            }
            if begin.elapsed() > RERUN_LONGEST {
                break;
            }
        }
        Ok(least)
    }

    /// Looks at what the race has left behind.
    fn conclude(&mut self) -> Result<(), RaceError> {
        let concluded = self.runner.conclude(self.row.exact);
        concluded.map_err(|problem| {
            let problem = format!("after the race, {problem}");
            items_error(&self.row.structure, &self.row.source, problem)
        })
    }

    /// Sums up what was timed; then a stretch that is counted and not timed.
    fn finish(&mut self, setting: &Setting, counters: Option<&mut Counters>) {
        self.row.single = self.runner.single();
        let Some(counters) = counters else { return };
        self.runner.run_up();
        let loops = self.runner.run(&mut Meter::new(setting, Some(&mut *counters)));
        let Some(counted) = counters.take() else { return };
        let per_loop = |count: u64| count as f64 / loops as f64;
        self.row.instructions_per_loop = Some(per_loop(counted.instructions));
        self.row.cache_misses_per_loop = counted.cache_misses.map(per_loop);
    }
}

fn items_error(structure: &str, origin: &str, problem: String) -> RaceError {
    RaceError::Items { structure: structure.to_owned(), origin: origin.to_owned(), problem }
}

/// The hash of the entrant's order, which is the reference's.
fn verify(
    entrant: &Entrant,
    runner: &mut dyn Runner,
    reference: &[Popped],
) -> Result<String, RaceError> {
    let mut pops = Pops::like(reference);
    runner.examine(&mut pops);
    let Some((pop, was, expected)) = pops.different else { return Ok(pops.hash()) };
    let said = |popped: Popped| match popped {
        Some((item, key)) => format!("item {item} with key {key}"),
        None => "nothing".to_owned(),
    };
    Err(RaceError::Order {
        structure: entrant.facts.structure.clone(),
        origin: entrant.facts.source.clone(),
        reference: RedBlackTree::NAME,
        pop,
        was: said(was),
        expected: said(expected),
    })
}

fn row(entrant: &Entrant, left_out: String) -> Row {
    let facts = &entrant.facts;
    Row {
        structure: facts.structure.clone(),
        exact: facts.exact,
        source: facts.source.clone(),
        ticks_per_loop: Vec::new(),
        instructions_per_loop: None,
        cache_misses_per_loop: None,
        bytes_per_item: 0.0,
        disturbed: 0,
        paces: Vec::new(),
        single: None,
        order_hash: None,
        left_out,
    }
}

/// Everybody runs; each gets one more figure.
fn run_round(
    field: &mut [Racer],
    setting: &Setting,
    order: Order,
    round: usize,
    core: &mut CpuCore,
) -> Result<(), RaceError> {
    let mut figures = vec![(0.0, 0u32, Calm { is_interrupted: false, pace: 0.0 }); field.len()];
    for place in places(order, field.len(), round) {
        let (ticks, calm) = field[place].run(setting, core)?;
        let (sum, times, all) = &mut figures[place];
        *sum += ticks;
        *times += 1;
        all.is_interrupted |= calm.is_interrupted;
        all.pace = all.pace.max(calm.pace);
    }
    for (racer, (sum, times, calm)) in field.iter_mut().zip(figures) {
        racer.row.ticks_per_loop.push(sum / f64::from(times));
        racer.row.paces.push(calm.pace);
        racer.calms.push(calm);
    }
    Ok(())
}

/// Who runs when in a round of so many entrants.
fn places(order: Order, entrants: usize, round: usize) -> Vec<usize> {
    match order {
        Order::Rotating => (0..entrants).map(|step| (round + step) % entrants).collect(),
        Order::Abcba => (0..entrants).chain((0..entrants - 1).rev()).collect(),
    }
}

#[cfg(test)]
mod tests {
    //! Goal: the orders are those that are promised. Method: three entrants.

    use super::*;
    use runqueue::hold::{Increments, Keys};

    #[test]
    fn everybody_races_with_the_keys_of_the_workload_and_not_with_what_the_check_left() {
        let (field, mut setting) = everybody(&HeatSpec::new(Workload::Hold, 40), 40);
        setting.increments = Increments::new(Keys::Ties, 1);
        let reference = reference(&setting).expect("a reference");
        for (_, entrant) in &field {
            let racer = Racer::ready(entrant, &setting, &reference).expect("a racer");
            let keys = racer.runner.keys();
            assert_eq!(keys.len(), 40);
            // Ticks of a coarse clock, which the bursts of the check are not.
            let spread = keys.iter().filter(|key| *key % (1 << 19) != 0).count();
            assert_eq!(spread, 0, "{}: {keys:?}", entrant.facts.structure);
        }
    }

    fn everybody(spec: &HeatSpec, n: u32) -> (Vec<(String, Entrant)>, Setting) {
        let setting = Setting::new(spec, Keys::Uniform, n, None);
        let entrants = entrants::asked_for(spec).expect("entrants").into_iter();
        let racing =
            entrants.filter(|entrant| entrant.left_out(&setting, Keys::Uniform).is_empty());
        (racing.map(|entrant| (String::new(), entrant)).collect(), setting)
    }

    #[test]
    fn who_needs_more_memory_than_there_is_learns_how_much() {
        let small = everybody(&HeatSpec::new(Workload::Hold, 1000), 1000);
        assert!(there_is_room(&small.0, &small.1, 0).is_ok());
        let error = there_is_room(&small.0, &small.1, 1 << 40).expect_err("too many times");
        assert!(error.to_string().contains("1099511627776 timed operations"), "{error}");
        // A queue of an exact time ring is large however few items it has.
        let many = HeatSpec { queues: 1 << 22, ..HeatSpec::new(Workload::Cold, 4) };
        let (racing, setting) = everybody(&many, 4);
        let error = there_is_room(&racing, &setting, 0).expect_err("too much").to_string();
        assert!(error.contains("16777216 items"), "{error}");
        assert!(error.contains("exact_time_ring_"), "the largest is named: {error}");
    }

    #[test]
    fn what_an_entrant_needs_is_what_it_takes() {
        for (workload, n, queues) in [(Workload::Cold, 4, 64), (Workload::Storm, 3000, 1)] {
            let spec = HeatSpec { queues, ..HeatSpec::new(workload, n) };
            let (racing, setting) = everybody(&spec, n);
            for (_, entrant) in &racing {
                let needed = entrant.bytes_needed(&setting).expect("needed") as f64;
                let runner = entrant.start(&setting).expect("started");
                let taken = runner.bytes_per_item() * setting.room() as f64;
                let who = &entrant.facts.structure;
                assert!((0.8..1.25).contains(&(needed / taken)), "{who}: {needed} of {taken}");
            }
        }
    }

    #[test]
    fn all_queues_and_all_times_are_counted() {
        let room = |workload| {
            let setting = Setting::new(&HeatSpec::new(workload, 100), Keys::Uniform, 100, None);
            (setting.room(), samples(&setting, &HeatSpec::new(workload, 100)))
        };
        assert_eq!(room(Workload::Hold), (100, 0));
        assert_eq!(room(Workload::Drain), (200, 0));
        assert_eq!(room(Workload::Markov), (150, 0));
        assert_eq!(room(Workload::Single), (100, 10));
        assert_eq!(room(Workload::SingleRemove), (100, 20));
    }

    #[test]
    fn each_round_begins_with_another_entrant() {
        let rounds = [0, 1, 2, 3].map(|round| places(Order::Rotating, 3, round));
        assert_eq!(rounds, [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]);
    }

    #[test]
    fn the_order_of_2007_goes_there_and_back() {
        assert_eq!(places(Order::Abcba, 3, 1), [0, 1, 2, 1, 0]);
        assert_eq!(places(Order::Abcba, 1, 0), [0]);
    }
}
