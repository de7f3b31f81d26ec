//! Reads a workload from its TOML file: a built-in with its parameters, or tasks written out.

use crate::file::cgroups::{find_cgroup, read_cgroups};
use crate::file::changes::{ChangeKeys, read_changes, read_cpu_set};
use crate::file::memory::read_memory;
use crate::file::program::{Names, Ranges, SCALE_PERMILLE_MAX, read_program};
use crate::made::{counter, ffmpeg, hackbench, lat_ctx, lrzip};
use crate::model::check::{
    CHANNELS_MAX, TASK_NAME_BYTES_MAX, TASKS_MAX, find_problem, too_many_ops,
};
use crate::model::error::{ScenarioError, choices};
use crate::model::fit;
use crate::model::place::{Origin, Place};
use crate::model::text::EVERY_CPU;
use crate::model::workload::{Channel, InitialTask, TaskTemplate, Workload};
use crate::reading::parameters::{Parameter, Settings, declared, effective, shown};
use crate::reading::{Document, Node, TableNode, parse_table, read_table, stem};
use std::collections::BTreeMap;
use std::path::Path;
use toml::Table;

const BUILTIN_KEYS: [&str; 5] = ["description", "source", "builtin", "parameters", "memory"];
const FREE_KEYS: [&str; 15] = [
    "description",
    "source",
    "parameters",
    "memory",
    "run_permille",
    "channels",
    "gates",
    "templates",
    "tasks",
    "hotplug",
    "affinity",
    "cgroups",
    "moves",
    "start_on",
    "stop",
];
const CHANNEL_KEYS: [&str; 5] =
    ["count", "capacity_bytes", "overhead_bytes", "wake_senders_at_bytes", "sync_wakeups"];
const TEMPLATE_KEYS: [&str; 6] =
    ["nice", "cpus", "address_space", "footprint_kib", "cgroup", "program"];
const TASK_KEYS: [&str; 9] = [
    "name",
    "count",
    "start",
    "nice",
    "cpus",
    "address_space",
    "footprint_kib",
    "cgroup",
    "program",
];

/// A workload written in Rust because a file cannot say it well.
struct Builtin {
    name: &'static str,
    parameters: &'static [&'static str],
    read: fn(&Settings) -> Result<Workload, ScenarioError>,
}

const BUILTINS: [Builtin; 5] = [
    Builtin { name: "counter", parameters: &counter::PARAMETERS, read: counter::read },
    Builtin { name: "ffmpeg", parameters: &ffmpeg::PARAMETERS, read: ffmpeg::read },
    Builtin { name: "hackbench", parameters: &hackbench::PARAMETERS, read: hackbench::read },
    Builtin { name: "lat_ctx", parameters: &lat_ctx::PARAMETERS, read: lat_ctx::read },
    Builtin { name: "lrzip", parameters: &lrzip::PARAMETERS, read: lrzip::read },
];

/// Reads the workload in the file at `path` with the given values for its parameters; its name
/// is the file's without `.toml`.
///
/// # Errors
/// If the file cannot be read, is not TOML, has no such parameter, or says something that a
/// workload cannot be.
pub fn load_workload(
    path: &Path,
    parameters: &BTreeMap<String, String>,
) -> Result<Workload, ScenarioError> {
    let (file, table) = read_table(path)?;
    workload_of(file, &table, parameters)
}

/// The workload that `text` describes; `file` names it in errors and gives it its name.
///
/// # Errors
/// As [`load_workload`].
pub fn parse_workload(
    file: &str,
    text: &str,
    parameters: &BTreeMap<String, String>,
) -> Result<Workload, ScenarioError> {
    workload_of(file.to_string(), &parse_table(file, text)?, parameters)
}

/// The parameters that the workload in the file at `path` declares, in the order of their names.
///
/// # Errors
/// If the file cannot be read, is not TOML, or declares a parameter wrongly.
pub fn workload_parameters(path: &Path) -> Result<Vec<Parameter>, ScenarioError> {
    let (file, table) = read_table(path)?;
    let document = Document { file, parameters: BTreeMap::new() };
    let declared = declared(&TableNode::root(&document, &table))?;
    Ok(declared.into_iter().map(|one| one.parameter).collect())
}

fn workload_of(
    file: String,
    table: &Table,
    given: &BTreeMap<String, String>,
) -> Result<Workload, ScenarioError> {
    let bare = Document { file: file.clone(), parameters: BTreeMap::new() };
    let declared = declared(&TableNode::root(&bare, table))?;
    let document = Document { parameters: effective(&file, &declared, given)?, file };
    let root = TableNode::root(&document, table);
    let workload = if root.has("builtin") { read_builtin(&root)? } else { read_free(&root)? };
    let description = root.need("description", "say in a sentence what the tasks do")?;
    root.need("source", "say where it comes from, or \"own\"")?.text()?;
    let values = document.parameters.iter().map(|(name, value)| (name.clone(), shown(value)));
    let origin = Origin { file: Some(document.file.clone()), keys: workload.origin.keys };
    let workload = Workload {
        origin,
        name: stem(&document.file),
        description: description.text()?.to_string(),
        parameters: values.collect(),
        lines_per_ms: read_memory(&root)?,
        ..workload
    };
    Ok(workload.with_digest())
}

fn read_builtin(root: &TableNode) -> Result<Workload, ScenarioError> {
    for key in FREE_KEYS.iter().filter(|key| !BUILTIN_KEYS.contains(key)) {
        if let Some(node) = root.get(key)? {
            let builtin = root.need("builtin", "")?.value().to_string();
            return Err(node.bad(
                format!("a workload with builtin = {builtin} brings its own tasks and all else"),
                format!("leave out {key}, or leave out builtin and write all of it out"),
            ));
        }
    }
    root.check_keys(&BUILTIN_KEYS)?;
    let names = BUILTINS.map(|builtin| builtin.name);
    let node = root.need("builtin", "name a built-in workload")?;
    let name = node.text()?;
    let Some(builtin) = BUILTINS.iter().find(|builtin| builtin.name == name) else {
        return Err(node.bad("no such built-in", choices("built-ins", name, &names)));
    };
    if let Some(table) = root.get("parameters")? {
        table.table(builtin.parameters)?;
    }
    let document = node.document();
    let workload = (builtin.read)(&Settings { builtin: name, document })?;
    find_problem(&workload).map_err(|found| ScenarioError::BadValue {
        file: document.file.clone(),
        key: "parameters".to_string(),
        value: found.value,
        problem: found.problem,
        hint: found.hint,
    })?;
    Ok(workload)
}

/// What has been read of a free-form file, with the key of each part.
#[derive(Default)]
struct Draft {
    /// Operations of all programs.
    nr_ops: usize,
    channels: Vec<Channel>,
    channel_places: Vec<String>,
    templates: Vec<TaskTemplate>,
    /// Key of each template, and of each of its operations.
    template_places: Vec<(String, Vec<String>)>,
    initial: Vec<InitialTask>,
    address_spaces: BTreeMap<String, u32>,
    change_keys: Vec<ChangeKeys>,
    cgroup_places: Vec<String>,
}

impl Draft {
    /// Refuses what is more than a workload may have before all of it is in memory; `node` is what
    /// made it so many.
    fn refuse_too_many(&self, node: &Node) -> Result<(), ScenarioError> {
        if self.initial.len() as u64 > TASKS_MAX {
            let hint = format!("stay within {TASKS_MAX} tasks: lower the counts");
            return Err(node.bad("too many tasks", hint));
        }
        match too_many_ops(self.nr_ops) {
            Some((problem, hint)) => Err(node.bad(problem, hint)),
            None => Ok(()),
        }
    }

    /// The key in the file of a place in the workload.
    fn key(&self, place: Place) -> String {
        match place {
            Place::Whole => "tasks".to_string(),
            Place::Channel(i, key) => format!("{}.{key}", self.channel_places[i]),
            Place::Template(i, key) => format!("{}.{key}", self.template_places[i].0),
            Place::Op(i, op) => self.template_places[i].1[op].clone(),
            Place::Change(i, key) => self.change_keys[i][key].clone(),
            Place::Cgroup(i, key) => format!("{}.{key}", self.cgroup_places[i]),
        }
    }
}

fn read_free(root: &TableNode) -> Result<Workload, ScenarioError> {
    root.check_keys(&FREE_KEYS)?;
    let mut draft = Draft::default();
    let mut names = Names { channels: read_channels(root, &mut draft)?, ..Names::default() };
    names.run_permille = root
        .get("run_permille")?
        .map(|scale| scale.unsigned_32(1, SCALE_PERMILLE_MAX))
        .transpose()?;
    let nr_gates;
    (names.gates, nr_gates) = read_gates(root)?;
    let of_groups;
    (names.cgroups, draft.cgroup_places, of_groups) = read_cgroups(root)?;
    let templates = match root.get("templates")? {
        Some(node) => node.any_table()?.entries()?,
        None => Vec::new(),
    };
    for (i, (name, _)) in templates.iter().enumerate() {
        names.templates.insert(name.to_string(), i as u32);
    }
    for (name, node) in &templates {
        read_template(name, node, &names, &mut draft)?;
    }
    let hint = "add a task: [[tasks]] with name and program";
    for task in root.need("tasks", hint)?.elements()? {
        read_task(&task, &names, &mut draft)?;
    }
    let changes;
    (changes, draft.change_keys) = read_changes(root, of_groups)?;
    let mut workload = Workload {
        name: String::new(),
        description: String::new(),
        parameters: Vec::new(),
        templates: std::mem::take(&mut draft.templates),
        initial: std::mem::take(&mut draft.initial),
        channels: std::mem::take(&mut draft.channels),
        nr_gates,
        cpu_sets: names.cpu_sets.into_inner(),
        changes,
        cgroups: names.cgroups,
        lines_per_ms: Vec::new(),
        origin: Origin::default(),
        starts_everywhere: root
            .get("start_on")?
            .map(|on| read_start_on(&on))
            .transpose()?
            .is_some(),
        stop_at_ns: root.get("stop")?.map(|stop| read_stop(&stop)).transpose()?,
        digest: String::new(),
    };
    find_problem(&workload).map_err(|found| ScenarioError::BadValue {
        file: root.file().to_string(),
        key: draft.key(found.place),
        value: found.value,
        problem: found.problem,
        hint: found.hint,
    })?;
    workload.origin.keys = fit::places(&workload).map(|at| (at, draft.key(at))).collect();
    Ok(workload)
}

fn read_start_on(node: &Node) -> Result<(), ScenarioError> {
    match node.text()? {
        EVERY_CPU => Ok(()),
        _ => Err(node.bad(
            "is no place to start tasks on",
            "write \"every-cpu\", or leave it out: tasks are then started on the first",
        )),
    }
}

fn read_stop(node: &Node) -> Result<u64, ScenarioError> {
    match node.duration_ns()? {
        0 => Err(node.bad(
            "the run would end before it begins",
            "write a later time, such as stop = \"10s\"",
        )),
        stop_ns => Ok(stop_ns),
    }
}

fn read_channels(root: &TableNode, draft: &mut Draft) -> Result<Ranges, ScenarioError> {
    let mut ranges = Ranges::new();
    let Some(node) = root.get("channels")? else { return Ok(ranges) };
    for (name, node) in node.any_table()?.entries()? {
        let table = node.table(&CHANNEL_KEYS)?;
        let count = read_count(&table, CHANNELS_MAX as u32)?;
        let number = |key: &str, default: u32| {
            table.get(key)?.map_or(Ok(default), |node| node.unsigned_32(0, u32::MAX))
        };
        let overhead_bytes = number("overhead_bytes", 0)?;
        let said = table.get("capacity_bytes")?;
        if said.is_none() && (overhead_bytes > 0 || table.has("wake_senders_at_bytes")) {
            table.need("capacity_bytes", "say how many bytes fit; only a pipe may leave it out")?;
        }
        let capacity_bytes = said.map_or(Ok(0), |node| node.unsigned_32(1, u32::MAX))?;
        let channel = Channel {
            capacity_bytes,
            overhead_bytes,
            wake_senders_at_bytes: number(
                "wake_senders_at_bytes",
                capacity_bytes.saturating_sub(1),
            )?,
            sync_wakeups: table.get("sync_wakeups")?.map_or(Ok(false), |node| node.boolean())?,
        };
        ranges.insert(name.to_string(), (draft.channels.len() as u32, count));
        let new_len = draft.channels.len() + count as usize;
        check_total(&node, new_len)?;
        draft.channels.resize(new_len, channel);
        draft.channel_places.resize(new_len, node.path.clone());
    }
    Ok(ranges)
}

fn read_gates(root: &TableNode) -> Result<(Ranges, u32), ScenarioError> {
    let mut ranges = Ranges::new();
    let mut nr_gates = 0;
    let Some(node) = root.get("gates")? else { return Ok((ranges, 0)) };
    for (name, node) in node.any_table()?.entries()? {
        let count = read_count(&node.table(&["count"])?, CHANNELS_MAX as u32)?;
        check_total(&node, (nr_gates + count) as usize)?;
        ranges.insert(name.to_string(), (nr_gates, count));
        nr_gates += count;
    }
    Ok((ranges, nr_gates))
}

fn check_total(node: &Node, total: usize) -> Result<(), ScenarioError> {
    if total <= CHANNELS_MAX {
        return Ok(());
    }
    Err(node.bad(format!("{total} in all"), format!("stay within {CHANNELS_MAX}: lower a count")))
}

fn read_count(table: &TableNode, max: u32) -> Result<u32, ScenarioError> {
    table.get("count")?.map_or(Ok(1), |node| node.unsigned_32(1, max))
}

fn read_template(
    name: &str,
    node: &Node,
    names: &Names,
    draft: &mut Draft,
) -> Result<(), ScenarioError> {
    let table = node.table(&TEMPLATE_KEYS)?;
    add_template(name, node, &table, names, 0, draft)?;
    Ok(())
}

fn read_task(node: &Node, names: &Names, draft: &mut Draft) -> Result<(), ScenarioError> {
    let table = node.table(&TASK_KEYS)?;
    let hint = format!("name the task, with at most {TASK_NAME_BYTES_MAX} bytes");
    let name = table.need("name", &hint)?.text()?;
    // No task at all is a value that a parameter may well have.
    let count = table.get("count")?.map_or(Ok(1), |node| node.unsigned_32(0, TASKS_MAX as u32))?;
    let (from_ns, span_ns) = table.get("start")?.map_or(Ok((0, 0)), |node| read_start(&node))?;
    let mut depends_on_instance = false;
    for instance in 0..count {
        if instance == 0 || depends_on_instance {
            depends_on_instance = add_template(name, node, &table, names, instance, draft)?;
        }
        let template = draft.templates.len() as u32 - 1;
        let turn_ns = u128::from(span_ns) * u128::from(instance) / u128::from(count);
        let start_at_ns = from_ns + turn_ns as u64;
        draft.initial.push(InitialTask { template, start_at_ns });
        draft.refuse_too_many(node)?;
    }
    Ok(())
}

/// When the first of some tasks starts, and within how long the others follow, at equal distances.
fn read_start(node: &Node) -> Result<(u64, u64), ScenarioError> {
    if !node.value().is_table() {
        return Ok((node.duration_ns()?, 0));
    }
    let table = node.table(&["from", "to"])?;
    let hint = "write start = { from = \"0ms\", to = \"5ms\" }";
    let [from, to] = ["from", "to"].map(|key| table.need(key, hint));
    let (from_ns, to) = (from?.duration_ns()?, to?);
    match to.duration_ns()?.checked_sub(from_ns) {
        Some(span_ns) => Ok((from_ns, span_ns)),
        None => Err(to.bad("the last would start before the first", "write a later time")),
    }
}

/// Reads what tasks and templates have in common; says whether it depends on `instance`.
fn add_template(
    name: &str,
    node: &Node,
    table: &TableNode,
    names: &Names,
    instance: u32,
    draft: &mut Draft,
) -> Result<bool, ScenarioError> {
    let program = table.need("program", "list the steps: program = [ ... ]")?;
    let placed = read_program(&program, names, instance)?;
    draft.nr_ops += placed.program.len();
    let address_space = match table.get("address_space")? {
        None => None,
        Some(label) => {
            let next = draft.address_spaces.len() as u32;
            Some(*draft.address_spaces.entry(label.text()?.to_string()).or_insert(next))
        }
    };
    draft.templates.push(TaskTemplate {
        name: name.to_string(),
        program: placed.program,
        nice: table.get("nice")?.map_or(Ok(0), |nice| nice.integer(-20..=19))? as i8,
        cpus: table.get("cpus")?.map_or(Ok(None), |cpus| read_cpu_set(&cpus))?,
        address_space,
        footprint_kib: table
            .get("footprint_kib")?
            .map_or(Ok(0), |footprint| footprint.unsigned_32(0, u32::MAX))?,
        cgroup: table.get("cgroup")?.map(|path| find_cgroup(&path, &names.cgroups)).transpose()?,
    });
    draft.template_places.push((node.path.clone(), placed.places));
    Ok(placed.depends_on_instance)
}
