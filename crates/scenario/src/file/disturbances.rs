//! What disturbs the CPUs of a machine: interrupts beside what tasks do, and changes of speed.
//!
//! `[[interrupts]]` and `[[speeds]]` of a machine's file.

use crate::file::sourced::need_source;
use crate::model::duration::duration;
use crate::model::error::ScenarioError;
use crate::model::machine::{CPUS_MAX, Interrupts, Machine, SpeedStep};
use crate::model::text::{ALL_CPUS, quoted};
use crate::reading::{Node, TableNode};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Interrupts of a kind come no more often than this on the mean.
pub const INTERRUPT_EVERY_NS_MIN: u64 = 1_000;
/// The longest interrupt: a second.
pub const INTERRUPT_NS_MAX: u64 = 1_000_000_000;
/// The most of a CPU's time that interrupts may take on the mean, in millionths: a CPU that takes
/// them all the time comes to nothing else.
const INTERRUPTED_PPM_MAX: u64 = 900_000;
/// The fastest that a change may make a CPU: ten times as fast as it is.
pub const SPEED_STEP_PERMILLE_MAX: u32 = 10_000;

const INTERRUPT_KEYS: [&str; 5] = ["name", "source", "cpus", "every", "takes_ns"];
const SPEED_KEYS: [&str; 3] = ["at", "cpus", "permille"];
const CPUS_HINT: &str = "list them, as in [0, 2] or \"0-3\", or write \"all\"";

// ---- reading ------------------------------------------------------------------------------------

/// What interrupts the CPUs, of which there are so many.
pub(crate) fn read_interrupts(
    root: &TableNode,
    nr_cpus: usize,
) -> Result<Vec<Interrupts>, ScenarioError> {
    let Some(list) = root.get("interrupts")? else { return Ok(Vec::new()) };
    let mut taken_ppm = vec![0; nr_cpus];
    let read = |node: &Node| {
        let table = node.table(&INTERRUPT_KEYS)?;
        let interrupts = read_interrupt(&table, nr_cpus)?;
        add_to_time(&table, &interrupts, &mut taken_ppm)?;
        Ok(interrupts)
    };
    list.elements()?.iter().map(read).collect()
}

fn read_interrupt(table: &TableNode, nr_cpus: usize) -> Result<Interrupts, ScenarioError> {
    let name = table.need("name", "say what they are of, such as name = \"network\"")?;
    let name = name.text()?.to_string();
    need_source(table)?;
    let cpus = read_cpus(table, nr_cpus)?;
    let hint = "say the mean time from one to the next on a CPU, such as every = \"1ms\"";
    let every = table.need("every", hint)?;
    let every_ns = every.duration_ns()?;
    if every_ns < INTERRUPT_EVERY_NS_MIN {
        let least = duration(INTERRUPT_EVERY_NS_MIN);
        return Err(every.bad("more interrupts than a CPU takes", format!("write {least} or more")));
    }
    let hint = "say how long one takes, such as takes_ns = 5000";
    let takes_ns = table.need("takes_ns", hint)?.unsigned(1, INTERRUPT_NS_MAX)?;
    Ok(Interrupts { name, cpus, every_ns, takes_ns })
}

/// Refuses interrupts that leave a CPU no time for its tasks. What each CPU's take so far is in
/// `taken_ppm`.
fn add_to_time(
    table: &TableNode,
    interrupts: &Interrupts,
    taken_ppm: &mut [u64],
) -> Result<(), ScenarioError> {
    let ppm = (interrupts.takes_ns * 1_000_000).div_ceil(interrupts.every_ns);
    for &cpu in &interrupts.cpus {
        let taken_ppm = &mut taken_ppm[cpu as usize];
        *taken_ppm += ppm;
        if *taken_ppm > INTERRUPTED_PPM_MAX {
            let (percent, most) = (taken_ppm.div_ceil(10_000), INTERRUPTED_PPM_MAX / 10_000);
            return Err(table.need("takes_ns", "")?.bad(
                format!("interrupts would take {percent} % of the time of CPU {cpu}"),
                format!("make them shorter or rarer: all together may take {most} %"),
            ));
        }
    }
    Ok(())
}

/// How the speed of the CPUs, of which there are so many, changes.
pub(crate) fn read_speed_steps(
    root: &TableNode,
    nr_cpus: usize,
) -> Result<Vec<SpeedStep>, ScenarioError> {
    let Some(list) = root.get("speeds")? else { return Ok(Vec::new()) };
    // When the speed of each CPU changes for the last time so far.
    let mut changed_ns = BTreeMap::new();
    let mut steps: Vec<SpeedStep> = Vec::new();
    for node in list.elements()? {
        let table = node.table(&SPEED_KEYS)?;
        let hint = "say when, counted from the start, such as at = \"1s\"";
        let at = table.need("at", hint)?;
        let at_ns = at.duration_ns()?;
        let before_ns = steps.last().map_or(0, |step| step.at_ns);
        if at_ns < before_ns {
            let problem = format!("the one above it is later: at {}", duration(before_ns));
            return Err(at.bad(problem, "write speeds in the order of time"));
        }
        let cpus = read_cpus(&table, nr_cpus)?;
        let twice = |&&cpu: &&u32| changed_ns.insert(cpu, at_ns) == Some(at_ns);
        if let Some(cpu) = cpus.iter().find(twice) {
            let problem = format!("another entry says the speed of CPU {cpu} from this time on");
            let hint =
                format!("write another time, or leave CPU {cpu} out of `cpus` of one of them");
            return Err(at.bad(problem, hint));
        }
        let hint = "say how fast, in thousandths of the CPU's own speed, such as permille = 500";
        let permille = table.need("permille", hint)?.unsigned_32(1, SPEED_STEP_PERMILLE_MAX)?;
        steps.push(SpeedStep { at_ns, cpus, permille });
    }
    Ok(steps)
}

/// CPU numbers in increasing order, each once: those of `cpus`, or all if it is left out.
fn read_cpus(table: &TableNode, nr_cpus: usize) -> Result<Vec<u32>, ScenarioError> {
    let all = || (0..nr_cpus as u32).collect();
    let Some(node) = table.get("cpus")? else { return Ok(all()) };
    let mut cpus = match node.value().as_str() {
        Some(ALL_CPUS) => return Ok(all()),
        Some(text) => {
            let parsed =
                parse_cpus(text).ok_or_else(|| node.bad("not a set of CPUs", CPUS_HINT))?;
            let last = parsed.iter().map(|&(_, last)| last).max();
            refuse_unknown(&node, last, nr_cpus)?;
            parsed.into_iter().flat_map(|(first, last)| first..=last).collect()
        }
        None if node.value().is_array() => {
            let read = |node: &Node| {
                let cpu = node.unsigned_32(0, CPUS_MAX as u32 - 1)?;
                refuse_unknown(node, Some(cpu), nr_cpus)?;
                Ok(cpu)
            };
            node.elements()?.iter().map(read).collect::<Result<Vec<u32>, _>>()?
        }
        None => return Err(node.bad("not a set of CPUs", CPUS_HINT)),
    };
    if cpus.is_empty() {
        return Err(node.bad("no CPU", CPUS_HINT));
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

fn refuse_unknown(node: &Node, cpu: Option<u32>, nr_cpus: usize) -> Result<(), ScenarioError> {
    let Some(cpu) = cpu.filter(|&cpu| cpu as usize >= nr_cpus) else { return Ok(()) };
    let there = if nr_cpus == 1 { "CPU 0".into() } else { format!("CPUs 0 to {}", nr_cpus - 1) };
    let problem = format!("there is no CPU {cpu}, only {there}");
    Err(node.bad(problem, format!("name {there} only, or add CPUs to the topology")))
}

/// The ranges of a text such as "0-3,6", both ends included.
fn parse_cpus(text: &str) -> Option<Vec<(u32, u32)>> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse::<u32>().ok();
        let (first, last) = (number(first)?, number(last)?);
        (first <= last).then_some((first, last))
    };
    text.split(',').map(range).collect()
}

// ---- writing ------------------------------------------------------------------------------------

/// Appends the sections that are read here; `source` is a text in quotes.
pub(crate) fn write_disturbances(text: &mut String, machine: &Machine, source: &str) {
    for Interrupts { name, cpus, every_ns, takes_ns } in &machine.interrupts {
        let (name, every) = (quoted(name), duration(*every_ns));
        let _ = write!(
            text,
            "\n[[interrupts]]\nname = {name}\nsource = {source}\ncpus = {cpus:?}\n\
             every = \"{every}\"\ntakes_ns = {takes_ns}\n"
        );
    }
    for SpeedStep { at_ns, cpus, permille } in &machine.speeds {
        let at = duration(*at_ns);
        let _ =
            write!(text, "\n[[speeds]]\nat = \"{at}\"\ncpus = {cpus:?}\npermille = {permille}\n");
    }
}
