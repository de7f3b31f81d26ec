//! What executes a guest's instructions: the processor itself, or QEMU.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{End, Options, Qemu, Step, VmError, boot};
use crate::initramfs::Initramfs;
use crate::kernels::Kernel;

/// What executes a guest's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Accelerator {
    /// The processor, by the host's kernel.
    Kvm,
    /// QEMU translates them. Works everywhere, some ten times slower.
    Tcg,
}

/// What became of a trial of KVM: valid for one boot of the host and one QEMU.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Verdict {
    boot_id: String,
    qemu: String,
    works: bool,
}

const DEVICE: &str = "/dev/kvm";
const VERDICT: &str = "kvm.json";
/// A kernel gets to its end within a second under KVM. Inside other virtual machines KVM is there
/// at times and yet slower than TCG by orders of magnitude, or dies of instructions that its own
/// host does not emulate.
const TRIAL_LIMIT: Duration = Duration::from_secs(6);

/// Whether `/dev/kvm` can be opened: `Err` is the reason why not, in words.
pub fn kvm_state() -> Result<(), String> {
    match OpenOptions::new().read(true).write(true).open(DEVICE) {
        Ok(_) => Ok(()),
        Err(cause) => Err(format!("{DEVICE}: {cause}")),
    }
}

/// KVM where it boots this kernel, else TCG. The first call on a host that has KVM tries it, for
/// some seconds, and keeps the verdict in `directory` until the host's next boot.
pub fn fastest(qemu: &Qemu, kernel: &Kernel, directory: &Path) -> Result<Accelerator, VmError> {
    if kvm_state().is_err() {
        return Ok(Accelerator::Tcg);
    }
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let path = directory.join(VERDICT);
    let read = fs::read(&path).ok().and_then(|text| serde_json::from_slice::<Verdict>(&text).ok());
    let known = read.filter(|known| known.boot_id == boot_id && known.qemu == qemu.version_text);
    let works = match known {
        Some(verdict) => verdict.works,
        None => {
            let works = kvm_boots(qemu, kernel)?;
            let verdict = Verdict { boot_id, qemu: qemu.version_text.clone(), works };
            let text = serde_json::to_vec(&verdict).expect("a verdict is plain data");
            // Not kept, it is found again the next time.
            let _ = fs::write(&path, text);
            works
        }
    };
    Ok(if works { Accelerator::Kvm } else { Accelerator::Tcg })
}

/// Boots a kernel without anything to start: it has to get as far as to panic for that.
fn kvm_boots(qemu: &Qemu, kernel: &Kernel) -> Result<bool, VmError> {
    let options = Options {
        accelerator: Accelerator::Kvm,
        boot_limit: TRIAL_LIMIT,
        wall_limit: TRIAL_LIMIT,
        ..Options::default()
    };
    let mut machine = boot(qemu, kernel, &Initramfs::default(), None, &options)?;
    loop {
        match machine.next(TRIAL_LIMIT)? {
            Step::Ended(end) => return Ok(matches!(end, End::Panicked { .. })),
            Step::Line(_) | Step::Quiet => {}
        }
    }
}
