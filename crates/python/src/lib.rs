//! The Rust core as the Python module `schedlab._native`: names and conversions, no decisions.
//!
//! Everything here can be had from Rust alone. Python learns of a problem through three exceptions
//! whose text is complete, so that nothing above needs to know where it came from.
//! `python/schedlab/_native.pyi` describes the module to people and to type checkers.

mod conformance;
mod kernel;
mod race;

use scenario::machine::Release;
use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr};
use std::path::PathBuf;

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use simulator::SimulateError;

pyo3::create_exception!(
    schedlab._native,
    NativeError,
    PyException,
    "Base of the core's errors; its text is a complete message for a user."
);
pyo3::create_exception!(
    schedlab._native,
    PolicyError,
    NativeError,
    "A policy does not compile, does not load, or refuses a tunable."
);
pyo3::create_exception!(
    schedlab._native,
    ScenarioError,
    NativeError,
    "A machine or workload file, or one of its parameters, cannot be used."
);

/// A compiled policy.
#[pyclass(frozen, module = "schedlab._native")]
struct Policy(policy::Policy);

#[pymethods]
impl Policy {
    /// Name of its file, without `.bpf.c` or `.bpf.o`.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// Path of its C file, or of the object that was given.
    #[getter]
    fn source(&self) -> &OsStr {
        self.0.source.as_os_str()
    }

    /// SHA-256 of its object: equal digests behave equally.
    #[getter]
    fn digest(&self) -> &str {
        &self.0.digest
    }

    /// What the compiler complained about, if it was this call that had it built; else empty.
    #[getter]
    fn warnings(&self) -> &str {
        &self.0.warnings
    }

    /// Path of its object.
    #[getter]
    fn object_path(&self) -> &OsStr {
        self.0.object_path.as_os_str()
    }

    /// What its header comment says of it in one line.
    #[getter]
    fn description(&self) -> &str {
        &self.0.description
    }

    /// Its `const volatile` variables: name, C type, default and the comment above each.
    #[getter]
    fn tunables<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let as_dict = |tunable: &policy::Tunable| {
            let dict = PyDict::new(py);
            dict.set_item("name", &tunable.name)?;
            dict.set_item("type", &tunable.type_name)?;
            dict.set_item("default", tunable.default)?;
            dict.set_item("doc", &tunable.doc)?;
            Ok(dict)
        };
        self.0.tunables.iter().map(as_dict).collect()
    }

    /// Raises PolicyError if one of these numbers cannot be followed on a machine of so many CPUs.
    fn refuse_unknown(&self, numbers: Vec<String>, nr_cpus: usize) -> PyResult<()> {
        let find = |expression: &String| {
            policy::inside::find_number(&self.0.object, expression, nr_cpus)
                .map_err(|why| PolicyError::new_err(format!("policy {}: {why}", self.0.name)))
        };
        numbers.iter().try_for_each(|number| find(number).map(drop))
    }

    /// Its named tunable sets: name, description, source, the value of each tunable, and whether
    /// the policy's name alone means it.
    #[getter]
    fn sets<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let as_dict = |set: &policy::TunableSet| {
            let dict = PyDict::new(py);
            dict.set_item("name", &set.name)?;
            dict.set_item("description", &set.description)?;
            dict.set_item("source", &set.source)?;
            dict.set_item("tunables", &set.values)?;
            dict.set_item("is_plain", set.is_plain)?;
            Ok(dict)
        };
        self.0.sets.iter().map(as_dict).collect()
    }

    fn __repr__(&self) -> String {
        format!("<Policy {} of {}>", self.0.name, self.0.source.display())
    }
}

/// A machine: its CPUs and what each kernel operation costs on it.
#[pyclass(frozen, module = "schedlab._native")]
struct Machine(scenario::machine::Machine);

#[pymethods]
impl Machine {
    /// Name of its file, without `.toml`.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// What its file says of it.
    #[getter]
    fn description(&self) -> &str {
        &self.0.description
    }

    /// How many logical CPUs it has.
    #[getter]
    fn nr_cpus(&self) -> usize {
        self.0.cpus.len()
    }

    /// Scheduler ticks a second, for policies the file does not single out.
    #[getter]
    fn hz(&self) -> u32 {
        self.0.hz
    }

    /// The policies that the file does single out.
    #[getter]
    fn policies(&self) -> Vec<&str> {
        self.0.policies().collect()
    }

    /// Digest of all it says: equal digests simulate equally.
    #[getter]
    fn digest(&self) -> &str {
        &self.0.digest
    }

    fn __repr__(&self) -> String {
        format!("<Machine {}, {} CPUs>", self.0.name, self.0.cpus.len())
    }
}

/// A workload with its parameters filled in.
#[pyclass(frozen, module = "schedlab._native")]
struct Workload(scenario::workload::Workload);

#[pymethods]
impl Workload {
    /// Name of its file, without `.toml`.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    /// What its file says of it.
    #[getter]
    fn description(&self) -> &str {
        &self.0.description
    }

    /// Digest of tasks, programs and parameters: equal digests simulate equally.
    #[getter]
    fn digest(&self) -> &str {
        &self.0.digest
    }

    /// Every parameter and its value, defaults included, in the order of the file.
    #[getter]
    fn parameters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, value) in &self.0.parameters {
            dict.set_item(name, value)?;
        }
        Ok(dict)
    }

    /// Raises `ScenarioError` if the workload names a CPU beyond the `nr_cpus` of `machine`.
    fn check_cpus(&self, machine: &str, nr_cpus: usize) -> PyResult<()> {
        self.0.check_cpus(machine, nr_cpus).map_err(scenario_error)
    }

    /// Raises `ScenarioError` if real tasks, of whatever machine, cannot do what the workload says.
    fn check_playable(&self) -> PyResult<()> {
        let unplayable = |error: benchmarks::PlayError| ScenarioError::new_err(error.to_string());
        benchmarks::check_playable(&self.0).map_err(unplayable)
    }

    fn __repr__(&self) -> String {
        format!("<Workload {} {}>", self.0.name, self.0.digest)
    }
}

/// Version of schedlab this module was built from.
#[pyfunction]
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Compiles the policy in `source` into `cache`, or takes it from there, or from `shipped`.
#[pyfunction]
#[pyo3(signature = (source, include_dirs, cache, shipped=None, zig=None, linker=None))]
fn compile_policy(
    py: Python<'_>,
    source: PathBuf,
    include_dirs: Vec<PathBuf>,
    cache: PathBuf,
    shipped: Option<PathBuf>,
    zig: Option<PathBuf>,
    linker: Option<PathBuf>,
) -> PyResult<Policy> {
    let objects = policy::Objects { cache, shipped, linker };
    let compile = |goes_on: &mut dyn FnMut() -> bool| {
        let compiler = || policy::Compiler::find(zig.as_deref(), Some(&objects.cache));
        policy::compile_while(&source, &include_dirs, &objects, compiler, goes_on)
    };
    answering_signals(py, compile, policy_error).map(Policy)
}

/// What builds policies, with `zig` where no clang is: its command, and what it says of itself.
#[pyfunction]
#[pyo3(signature = (zig=None))]
fn policy_compiler(py: Python<'_>, zig: Option<PathBuf>) -> PyResult<(String, String)> {
    py.detach(|| policy::Compiler::find(zig.as_deref(), None)?.describe()).map_err(policy_error)
}

/// Reads the policy in the BPF object at `path`, as a kernel loads it.
#[pyfunction]
fn read_policy(path: PathBuf) -> PyResult<Policy> {
    policy::Policy::read(&path).map(Policy).map_err(policy_error)
}

/// Does `work`, which asks often whether it goes on; other Python threads do, and signals are
/// answered. `told` makes an error Python's.
fn answering_signals<T: Send, E: Send>(
    py: Python<'_>,
    work: impl FnOnce(&mut dyn FnMut() -> bool) -> Result<T, E> + Send,
    told: impl FnOnce(E) -> PyErr,
) -> PyResult<T> {
    stepping(py, |py| py.check_signals(), work, told)
}

/// Does `work` as [`answering_signals`] does, with this `step` each time that it asks.
fn stepping<T: Send, E: Send>(
    py: Python<'_>,
    step: impl Fn(Python<'_>) -> PyResult<()> + Send + Sync,
    work: impl FnOnce(&mut dyn FnMut() -> bool) -> Result<T, E> + Send,
    told: impl FnOnce(E) -> PyErr,
) -> PyResult<T> {
    let mut interrupt = None;
    let done = py.detach(|| {
        work(&mut || match Python::attach(&step) {
            Ok(()) => true,
            Err(error) => {
                interrupt = Some(error);
                false
            }
        })
    });
    interrupt.map_or_else(|| done.map_err(told), Err)
}

/// Reads the machine in the TOML file at `path`; with `cpus` the same with so many CPUs, from 1 to
/// 4096, with `kernel` the same with the sched_ext of that release.
#[pyfunction]
#[pyo3(signature = (path, cpus=None, kernel=None))]
fn load_machine(path: PathBuf, cpus: Option<usize>, kernel: Option<&str>) -> PyResult<Machine> {
    let mut machine = scenario::load_machine(&path).map_err(scenario_error)?;
    if let Some(cpus) = cpus {
        machine = machine.with_cpus(cpus);
    }
    if let Some(release) = kernel.and_then(Release::named) {
        machine = machine.with_release(release);
    }
    Ok(Machine(machine))
}

/// Reads the workload in the TOML file at `path`, with `parameters` in place of its defaults.
#[pyfunction]
fn load_workload(
    py: Python<'_>,
    path: PathBuf,
    parameters: BTreeMap<String, String>,
) -> PyResult<Workload> {
    py.detach(|| scenario::load_workload(&path, &parameters)).map(Workload).map_err(scenario_error)
}

/// The parameters that the workload at `path` takes: name, default and doc of each.
#[pyfunction]
fn workload_parameters(py: Python<'_>, path: PathBuf) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let as_dict = |parameter: &scenario::Parameter| {
        let dict = PyDict::new(py);
        dict.set_item("name", &parameter.name)?;
        dict.set_item("default", &parameter.default)?;
        dict.set_item("doc", &parameter.doc)?;
        Ok(dict)
    };
    let parameters = scenario::workload_parameters(&path).map_err(scenario_error)?;
    parameters.iter().map(as_dict).collect()
}

/// Simulates; other Python threads go on meanwhile.
#[pyfunction]
#[pyo3(signature = (policy, machine, workload, seed, tunables, until_ns=None, prints=None, *,
    timeline=false, queues=false, profile=false, strict=false, watch=vec![],
    dump_at_ns=vec![], dump_at_end=false, dump_on_failure=false))]
#[expect(clippy::too_many_arguments, reason = "the Python signature, where they are keywords")]
fn simulate<'py>(
    py: Python<'py>,
    policy: &Policy,
    machine: &Machine,
    workload: &Workload,
    seed: u64,
    tunables: BTreeMap<String, i64>,
    until_ns: Option<u64>,
    prints: Option<Py<PyAny>>,
    timeline: bool,
    queues: bool,
    profile: bool,
    strict: bool,
    watch: Vec<String>,
    dump_at_ns: Vec<u64>,
    dump_at_end: bool,
    dump_on_failure: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let (at_ns, at_end, on_failure) = (dump_at_ns, dump_at_end, dump_on_failure);
    let options = simulator::Options {
        seed,
        until_ns,
        timeline,
        queues,
        profile,
        strict,
        tunables,
        watch,
        dumps: simulator::Dumps { at_ns, at_end, on_failure },
        prints: prints.map(shown_by),
        ..simulator::Options::default()
    };
    let result = py.detach(|| simulator::simulate(&policy.0, &machine.0, &workload.0, &options));
    let mut result = result.map_err(simulate_error)?;
    let queue_traces = result.queues.take().map(race::traces_of).transpose();
    let queue_traces = queue_traces.map_err(|error| NativeError::new_err(error.to_string()))?;
    record(py, &Simulated { result, queue_traces })
}

/// Who has `callable` called with each line.
fn shown_by(callable: Py<PyAny>) -> simulator::Show {
    simulator::Show::new(move |line| {
        // Nobody may be there any more to read it, which is no reason to end the run.
        let _ = Python::attach(|py| callable.call1(py, (line,)));
    })
}

/// Has this process, which leads a group, end with its group when `parent`, its parent, does.
#[pyfunction]
fn end_with_parent(parent: i32) -> PyResult<()> {
    Ok(child::end_with_parent(parent)?)
}

/// `value` as dicts, lists, numbers and texts; `_native.pyi` names the keys.
///
/// It takes the way through JSON: a store keeps records as JSON, and what was just made must be
/// equal to what is read again. A direct conversion makes tuples of pairs, and numbers of keys.
fn record<'py>(py: Python<'py>, value: &impl serde::Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(value).map_err(|e| NativeError::new_err(e.to_string()))?;
    py.import("json")?.call_method1("loads", (text,))
}

/// A result, and what was done to dispatch queues if that was asked for.
#[derive(serde::Serialize)]
struct Simulated {
    #[serde(flatten)]
    result: simulator::RunResult,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_traces: Option<Vec<race::QueueTrace>>,
}

fn policy_error(error: policy::PolicyError) -> PyErr {
    PolicyError::new_err(error.to_string())
}

fn scenario_error(error: scenario::ScenarioError) -> PyErr {
    ScenarioError::new_err(error.to_string())
}

fn simulate_error(error: SimulateError) -> PyErr {
    let mut message = error.to_string();
    // As for a kernel's refusal.
    if let (SimulateError::Object { .. }, Some(hint)) = (&error, ::kernel::way_out(&message))
        && !message.contains("\nhint: ")
    {
        message += &format!("\nhint: {hint}");
    }
    match error {
        SimulateError::Policy(_)
        | SimulateError::Map { .. }
        | SimulateError::Object { .. }
        | SimulateError::Watch { .. } => PolicyError::new_err(message),
        SimulateError::Cpus { .. } | SimulateError::Workload(_) => ScenarioError::new_err(message),
        SimulateError::Addresses(_) | SimulateError::Record(_) => NativeError::new_err(message),
    }
}

/// The two parts of an error's text, as Python's properties: a class made by the stable interface
/// of Python 3.11 has no fields of its own.
const PARTS: [(&str, &CStr); 2] = [
    ("message", c"property(lambda error: str(error).partition('\\nhint: ')[0])"),
    ("hint", c"property(lambda error: str(error).partition('\\nhint: ')[2] or None)"),
];

/// The module itself: what Python finds in `schedlab._native`.
#[pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let error = module.py().get_type::<super::NativeError>();
        module.add("RELEASES", super::Release::ALL.map(|release| release.to_string()))?;
        let mut parts = super::PARTS.iter();
        parts.try_for_each(|(name, code)| error.setattr(name, module.py().eval(code, None, None)?))
    }

    #[pymodule_export]
    use super::conformance::{
        check_files, check_made, check_names, check_random, check_small, shrink_random,
    };
    #[pymodule_export]
    use super::kernel::{
        Initramfs, KernelError, Vm, VmError, boot, fastest_accelerator, find_qemu, kernels_add,
        kernels_damaged, kernels_default_series, kernels_fetch, kernels_find, kernels_list,
        kernels_on_this_machine, kvm_obstacle, way_out,
    };
    #[pymodule_export]
    use super::race::{RaceError, race_compile, race_entrants, race_heat, race_kernel_trace};
    #[pymodule_export]
    use super::{
        Machine, NativeError, Policy, PolicyError, ScenarioError, Workload, compile_policy,
        end_with_parent, load_machine, load_workload, policy_compiler, read_policy, simulate,
        version, workload_parameters,
    };
}
