//! The run-queue race, as Python sees it.

use std::path::PathBuf;

use pyo3::prelude::*;
use simulator::{QueueOperation, QueueRecord, RecordError};

use crate::{NativeError, answering_signals, record, stepping};

pyo3::create_exception!(
    schedlab._native,
    RaceError,
    NativeError,
    "A heat cannot be run, or a plug-in is none, or not what it says."
);

fn race_error(error: race::RaceError) -> PyErr {
    RaceError::new_err(error.to_string())
}

/// What was done to a dispatch queue, as the race replays it.
#[derive(serde::Serialize)]
pub struct QueueTrace {
    queue: String,
    is_policys: bool,
    operations: u64,
    text: String,
}

impl QueueTrace {
    fn of(record: QueueRecord) -> Result<Self, RecordError> {
        let QueueRecord { queue, is_policys, operations } = record;
        let mut end = Ok(());
        let readable = operations.iter().map_while(|operation| match operation {
            Ok(QueueOperation::Push { task, key }) => {
                Some(race::Operation::Push { item: task, key })
            }
            Ok(QueueOperation::Pop) => Some(race::Operation::Pop),
            Ok(QueueOperation::Remove { task }) => Some(race::Operation::Remove { item: task }),
            Err(error) => {
                end = Err(error);
                None
            }
        });
        let text = race::trace_text(readable);
        end.map(|()| QueueTrace { queue, is_policys, operations: operations.len(), text })
    }
}

/// The traces of a run's dispatch queues.
///
/// # Errors
/// If what was recorded cannot be read again.
pub fn traces_of(records: Vec<QueueRecord>) -> Result<Vec<QueueTrace>, RecordError> {
    records.into_iter().map(QueueTrace::of).collect()
}

/// What a kernel did to one run queue, as the race replays it.
#[derive(serde::Serialize)]
struct KernelQueue {
    queue: String,
    operations: usize,
    unseen: u64,
    text: String,
}

impl KernelQueue {
    fn new(queue: String, record: kernel::trace::QueueRecord) -> Self {
        use kernel::trace::QueueOperation;
        KernelQueue {
            queue,
            operations: record.operations.len(),
            unseen: record.unseen,
            text: race::trace_text(record.operations.into_iter().map(
                |operation| match operation {
                    QueueOperation::Push { task, key } => race::Operation::Push { item: task, key },
                    QueueOperation::Pop => race::Operation::Pop,
                    QueueOperation::Remove { task } => race::Operation::Remove { item: task },
                },
            )),
        }
    }
}

/// What a kernel's trace in text comes to.
#[derive(serde::Serialize)]
struct KernelQueues {
    lost: u64,
    queues: Vec<KernelQueue>,
}

/// What a kernel did to its run queues, read from the text of `perf script` or ftrace: those of all
/// CPUs, and the one that they would have shared.
#[pyfunction]
pub fn race_kernel_trace<'py>(py: Python<'py>, path: PathBuf) -> PyResult<Bound<'py, PyAny>> {
    let found = py.detach(|| {
        let found = kernel::trace::TextTrace::read(&path)?;
        let of_each = found.queue_of_each_cpu().into_iter();
        let queues = of_each.map(|(cpu, record)| KernelQueue::new(format!("cpu{cpu}"), record));
        let queues = queues.chain([KernelQueue::new("all".to_owned(), found.queue_of_all())]);
        Ok(KernelQueues { lost: found.trace.lost, queues: queues.collect() })
    });
    record(
        py,
        &found.map_err(|error: kernel::trace::TextError| RaceError::new_err(error.to_string()))?,
    )
}

/// Runs one heat; other Python threads go on meanwhile, and signals are answered between rounds
/// and while it waits. `step` is called then, too.
#[pyfunction]
#[pyo3(signature = (spec_json, step=None))]
pub fn race_heat<'py>(
    py: Python<'py>,
    spec_json: &str,
    step: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let spec = race::HeatSpec::from_json(spec_json).map_err(race_error)?;
    let heat = |goes_on: &mut dyn FnMut() -> bool| race::heat(&spec, goes_on);
    let step = |py: Python<'_>| {
        step.as_ref().map(|step| step.call0(py)).transpose()?;
        py.check_signals()
    };
    record(py, &stepping(py, step, heat, race_error)?)
}

/// Who can take part, the queues of plug-ins included: a list. Loading a plug-in runs what it has
/// of constructors; other Python threads go on meanwhile.
#[pyfunction]
#[pyo3(signature = (plugins=Vec::new()))]
pub fn race_entrants<'py>(py: Python<'py>, plugins: Vec<PathBuf>) -> PyResult<Bound<'py, PyAny>> {
    record(py, &py.detach(|| race::entrants(&plugins)).map_err(race_error)?)
}

/// Builds a plug-in's source into `cache_dir`, or takes it from there: the shared object's path.
#[pyfunction]
pub fn race_compile(
    py: Python<'_>,
    source: PathBuf,
    include_dir: PathBuf,
    cache_dir: PathBuf,
) -> PyResult<PathBuf> {
    let compile = |goes_on: &mut dyn FnMut() -> bool| {
        race::plugin::compile(&source, &include_dir, &cache_dir, goes_on)
    };
    answering_signals(py, compile, race_error)
}
