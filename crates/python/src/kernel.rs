//! Kernels and the virtual machines they are booted in, for Python.

use std::path::PathBuf;
use std::time::Duration;

use ::kernel::initramfs::{Initramfs as Files, InitramfsError};
use ::kernel::kernels::{self, Cache, Kernel};
use ::kernel::vm::{self, Accelerator, Options, Qemu, Step};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::{NativeError, record};

pyo3::create_exception!(
    schedlab._native,
    KernelError,
    NativeError,
    "A kernel cannot be had, kept or used."
);
pyo3::create_exception!(
    schedlab._native,
    VmError,
    NativeError,
    "A virtual machine cannot be started."
);

/// Every kernel of the cache that can be used, oldest release first.
#[pyfunction]
pub fn kernels_list<'py>(py: Python<'py>, cache_dir: PathBuf) -> PyResult<Bound<'py, PyAny>> {
    let kernels = Cache::new(cache_dir).list().map_err(kernel_error)?;
    record(py, &kernels.iter().map(KernelRecord::of).collect::<Vec<_>>())
}

/// Each kernel of the cache that cannot be used: its name; what is wrong with it and what to do.
#[pyfunction]
pub fn kernels_damaged(cache_dir: PathBuf) -> PyResult<Vec<(String, String)>> {
    let damaged = Cache::new(cache_dir).damaged().map_err(kernel_error)?;
    let with_name = |error: kernels::KernelError| {
        let told = error.to_string();
        match error {
            kernels::KernelError::Damaged { name, .. } => (name, told),
            _ => (String::new(), told),
        }
    };
    Ok(damaged.into_iter().map(with_name).collect())
}

/// One kernel of the cache: by name, or the newest that policies can be loaded into.
#[pyfunction]
#[pyo3(signature = (cache_dir, name=None))]
pub fn kernels_find<'py>(
    py: Python<'py>,
    cache_dir: PathBuf,
    name: Option<&str>,
) -> PyResult<Bound<'py, PyAny>> {
    record(py, &KernelRecord::of(&find(cache_dir, name)?))
}

/// Takes the image at `path` into the cache; gives its record.
#[pyfunction]
#[pyo3(signature = (cache_dir, path, name=None, replace=false))]
pub fn kernels_add<'py>(
    py: Python<'py>,
    cache_dir: PathBuf,
    path: PathBuf,
    name: Option<&str>,
    replace: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let add = || Cache::new(cache_dir).add(&path, name, replace);
    let added = py.detach(add).map_err(kernel_error)?;
    record(py, &KernelRecord::of(&added))
}

/// A fetched kernel's record, or the text of an error.
type Fetched<'py> = (Option<Bound<'py, PyAny>>, Option<String>);

/// Gets kernels from Debian's packages: for each series a record, or the text of an error.
///
/// `note` is called with what is being done. What it raises ends the fetch at once, and so does
/// what a signal's handler raises; either comes out of here as it is.
#[pyfunction]
pub fn kernels_fetch<'py>(
    py: Python<'py>,
    cache_dir: PathBuf,
    series: Vec<String>,
    note: Py<PyAny>,
) -> PyResult<Vec<Fetched<'py>>> {
    let mut caller = Caller { note, raised: None };
    let names: Vec<&str> = series.iter().map(String::as_str).collect();
    let outcomes = py.detach(|| Cache::new(cache_dir).fetch(&names, &mut caller));
    if let Some(raised) = caller.raised {
        return Err(raised);
    }
    let as_pair = |outcome: Result<Kernel, kernels::KernelError>| match outcome {
        Ok(kernel) => Ok((Some(record(py, &KernelRecord::of(&kernel))?), None)),
        Err(error) => Ok((None, Some(error.to_string()))),
    };
    outcomes.map_err(kernel_error)?.into_iter().map(as_pair).collect()
}

/// Who waits in Python, and the first exception that was raised there.
struct Caller {
    note: Py<PyAny>,
    raised: Option<PyErr>,
}

impl kernels::Listener for Caller {
    fn note(&mut self, text: &str) {
        if self.raised.is_none() {
            self.raised = Python::attach(|py| self.note.call1(py, (text,)).err());
        }
    }

    fn goes_on(&mut self) -> bool {
        if self.raised.is_none() {
            self.raised = Python::attach(|py| py.check_signals().err());
        }
        self.raised.is_none()
    }
}

/// Paths of the images that this machine has of its own.
#[pyfunction]
pub fn kernels_on_this_machine() -> Vec<PathBuf> {
    kernels::on_this_machine()
}

/// The series that are fetched if none is named.
#[pyfunction]
pub fn kernels_default_series() -> Vec<&'static str> {
    kernels::DEFAULT_SERIES.to_vec()
}

/// What to do about what a message says of a policy's mistake, if that is known.
#[pyfunction]
pub fn way_out(words: &str) -> Option<&'static str> {
    kernel::way_out(words)
}

/// The QEMU that would be used: program, version, and whether guests survive its threads.
#[pyfunction]
pub fn find_qemu(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let qemu = Qemu::find().map_err(vm_error)?;
    let dict = PyDict::new(py);
    dict.set_item("program", &qemu.program)?;
    dict.set_item("version", &qemu.version_text)?;
    dict.set_item("sound_threads", qemu.has_sound_threads())?;
    Ok(dict)
}

/// Why KVM is out of the question, or `None` if its device can be opened.
#[pyfunction]
pub fn kvm_obstacle() -> Option<String> {
    vm::kvm_state().err()
}

/// "kvm" where it boots this kernel, else "tcg"; the first call may try for some seconds.
#[pyfunction]
#[pyo3(signature = (cache_dir, kernel=None))]
pub fn fastest_accelerator(
    py: Python<'_>,
    cache_dir: PathBuf,
    kernel: Option<&str>,
) -> PyResult<&'static str> {
    let kernel = find(cache_dir.clone(), kernel)?;
    let fastest = || vm::fastest(&Qemu::find()?, &kernel, &cache_dir);
    Ok(match py.detach(fastest).map_err(vm_error)? {
        Accelerator::Kvm => "kvm",
        Accelerator::Tcg => "tcg",
    })
}

/// A guest's first file system, made in memory.
#[pyclass(module = "schedlab._native")]
pub struct Initramfs(Files);

#[pymethods]
impl Initramfs {
    #[new]
    fn new() -> Initramfs {
        Initramfs(Files::new())
    }

    /// Puts `content` at the absolute path `to`.
    #[pyo3(signature = (to, content, executable=false))]
    fn file(&mut self, to: &str, content: &[u8], executable: bool) -> PyResult<()> {
        self.0.file(to, content, executable).map(|_| ()).map_err(initramfs_error)
    }

    /// Puts a copy of this machine's file at `to`.
    fn copy(&mut self, source: PathBuf, to: &str) -> PyResult<()> {
        self.0.copy(&source, to).map(|_| ()).map_err(initramfs_error)
    }

    /// The archive that the guest's kernel unpacks.
    fn archive(&self) -> Vec<u8> {
        self.0.archive()
    }
}

/// A running virtual machine; it ends with this object.
#[pyclass(module = "schedlab._native")]
pub struct Vm(Option<vm::Vm>);

#[pymethods]
impl Vm {
    /// What happens next, within `wait_s`: ("line", text), ("quiet", "") or (end, in words).
    fn next(&mut self, py: Python<'_>, wait_s: f64) -> PyResult<(&'static str, String)> {
        let machine = self.machine()?;
        let wait = seconds(wait_s)?;
        Ok(match py.detach(|| machine.next(wait)).map_err(vm_error)? {
            Step::Line(line) => ("line", line),
            Step::Quiet => ("quiet", String::new()),
            Step::Ended(end) => (end.kind(), end.to_string()),
        })
    }

    /// The end of what the kernel wrote to its console.
    fn console_tail(&mut self) -> PyResult<String> {
        Ok(self.machine()?.console_tail())
    }

    /// Nanoseconds from power on to the first line, once there was one.
    #[getter]
    fn booted_after_ns(&mut self) -> PyResult<Option<u64>> {
        let after = self.machine()?.booted_after();
        Ok(after.map(|after| u64::try_from(after.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// The process of QEMU.
    #[getter]
    fn pid(&mut self) -> PyResult<u32> {
        Ok(self.machine()?.pid())
    }

    /// Which boot of which machine this is; empty if it is neither kept nor given a job.
    #[getter]
    fn boot(&mut self) -> PyResult<String> {
        Ok(self.machine()?.boot().to_owned())
    }

    /// "booting", "saving", "restoring" or "working".
    #[getter]
    fn stage(&mut self) -> PyResult<&'static str> {
        Ok(self.machine()?.stage())
    }

    /// Keeps this machine with its policy, if it was saved so.
    fn keep_policy(&mut self) -> PyResult<()> {
        self.machine()?.keep_policy();
        Ok(())
    }

    /// Keeps no machine with this one's policy.
    fn forget_policy(&mut self) -> PyResult<()> {
        self.machine()?.forget_policy();
        Ok(())
    }

    /// Ends the machine now.
    fn close(&mut self) {
        self.0 = None;
    }
}

impl Vm {
    fn machine(&mut self) -> PyResult<&mut vm::Vm> {
        self.0.as_mut().ok_or_else(|| PyRuntimeError::new_err("this virtual machine is closed"))
    }
}

/// Starts a machine. It is killed when the thread that called this ends.
#[pyfunction]
#[pyo3(signature = (cache_dir, kernel, initramfs, job=None, policy=None, *, cpus="1",
    memory_mib=1024, accelerator="tcg", deterministic=false, seed=1, settle_s=0.0,
    align_clocks=false, record_kib_per_cpu=0, keep_in=None, keep_with_policy=false,
    boot_effort_s, boot_limit_s=600.0, wall_limit_s=600.0, kernel_arguments=vec![]))]
#[expect(clippy::too_many_arguments, reason = "the Python signature, where they are keywords")]
pub fn boot(
    py: Python<'_>,
    cache_dir: PathBuf,
    kernel: &str,
    initramfs: &Initramfs,
    job: Option<&Initramfs>,
    policy: Option<&Initramfs>,
    cpus: &str,
    memory_mib: u32,
    accelerator: &str,
    deterministic: bool,
    seed: u32,
    settle_s: f64,
    align_clocks: bool,
    record_kib_per_cpu: u32,
    keep_in: Option<PathBuf>,
    keep_with_policy: bool,
    boot_effort_s: f64,
    boot_limit_s: f64,
    wall_limit_s: f64,
    kernel_arguments: Vec<String>,
) -> PyResult<Vm> {
    let kernel = find(cache_dir, Some(kernel))?;
    let options = Options {
        cpus: cpus.parse::<vm::Cpus>().map_err(|error| vm_error(error.into()))?,
        memory_mib,
        accelerator: if accelerator == "kvm" { Accelerator::Kvm } else { Accelerator::Tcg },
        deterministic,
        seed,
        settle: seconds(settle_s)?,
        align_clocks,
        record_kib_per_cpu,
        keep_in,
        keep_with_policy,
        boot_effort: seconds(boot_effort_s)?,
        boot_limit: seconds(boot_limit_s)?,
        wall_limit: seconds(wall_limit_s)?,
        kernel_arguments,
    };
    let policy = policy.map(|files| &files.0);
    let given = job.map(|files| vm::Given { policy, job: &files.0 });
    let start = || vm::boot(&Qemu::find()?, &kernel, &initramfs.0, given, &options);
    Ok(Vm(Some(py.detach(start).map_err(vm_error)?)))
}

fn find(cache_dir: PathBuf, name: Option<&str>) -> PyResult<Kernel> {
    let cache = Cache::new(cache_dir);
    let found = match name {
        Some(name) => cache.find(name),
        None => cache.newest_with_sched_ext(),
    };
    found.map_err(kernel_error)
}

/// What the cache knows of a kernel, with the path of its image.
#[derive(serde::Serialize)]
struct KernelRecord<'a> {
    #[serde(flatten)]
    kernel: &'a Kernel,
    image: String,
}

impl<'a> KernelRecord<'a> {
    fn of(kernel: &'a Kernel) -> Self {
        KernelRecord { kernel, image: kernel.image.display().to_string() }
    }
}

fn seconds(given_s: f64) -> PyResult<Duration> {
    let checked = Duration::try_from_secs_f64(given_s);
    checked.map_err(|error| VmError::new_err(format!("{given_s} s is no time limit: {error}")))
}

fn kernel_error(error: kernels::KernelError) -> PyErr {
    KernelError::new_err(error.to_string())
}

fn vm_error(error: vm::VmError) -> PyErr {
    VmError::new_err(error.to_string())
}

fn initramfs_error(error: InitramfsError) -> PyErr {
    VmError::new_err(error.to_string())
}
