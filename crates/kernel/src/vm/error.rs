//! What keeps a virtual machine from starting.

use std::io;

use super::cpus::{Cpus, CpusError};

/// Why there is no machine.
///
/// The text names the bad value and, where there is one, a way out. What happens to a machine
/// after its start is no error but its [`End`](super::End).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VmError {
    /// QEMU is not there.
    #[error(
        "virtual machines need QEMU, and `{program}` was not found\n\
         hint: apt-get install qemu-system-x86, or name yours: \
         SCHEDLAB_QEMU=/path/to/qemu-system-x86_64"
    )]
    QemuMissing {
        /// The program that was tried.
        program: String,
    },

    /// QEMU is there and does not work as expected.
    #[error(
        "`{program}` cannot be used: {reason}\n\
         hint: name another: SCHEDLAB_QEMU=/path/to/qemu-system-x86_64"
    )]
    QemuUnusable {
        /// The program that was tried.
        program: String,
        /// What is wrong.
        reason: String,
    },

    /// QEMU cannot do what is needed in this version.
    #[error(
        "`{program}` is version {found}; schedlab needs {needed} or later\n\
         hint: apt-get install qemu-system-x86, or name another: \
         SCHEDLAB_QEMU=/path/to/qemu-system-x86_64"
    )]
    QemuTooOld {
        /// The program that was tried.
        program: String,
        /// Its version.
        found: String,
        /// The oldest that will do.
        needed: String,
    },

    /// A process could not be started or waited for.
    #[error("cannot {action} `{program}`: {cause}")]
    Process {
        /// What was tried, as a verb.
        action: &'static str,
        /// On which program.
        program: String,
        /// The system's reason.
        #[source]
        cause: io::Error,
    },

    /// A file in memory could not be made, written or read.
    #[error("cannot use a file in memory for a virtual machine: {0}")]
    Memory(#[source] io::Error),

    /// A number of CPUs that cannot be.
    #[error(transparent)]
    Cpus(#[from] CpusError),

    /// Too little memory to boot in.
    #[error("a guest cannot boot in {memory_mib} MiB: give it 128 or more")]
    TooLittleMemory {
        /// What was asked for.
        memory_mib: u32,
    },

    /// A clock of instructions under KVM.
    #[error(
        "a deterministic machine counts its instructions, which KVM does not do\n\
         hint: leave the choice of the accelerator to schedlab"
    )]
    DeterministicNeedsTcg,

    /// A topology in which the CPU that nobody uses has no place.
    #[error(
        "under a clock that counts instructions, QEMU {qemu} starts Linux {release} on several \
         CPUs only if they are cores of one socket, and these are {cpus}\n\
         hint: --cpus {}, a kernel from 6.5 on, or QEMU 8.1 or later", cpus.total()
    )]
    NoSpareCpu {
        /// What was asked for.
        cpus: Cpus,
        /// The kernel.
        release: String,
        /// Version of QEMU.
        qemu: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_names_a_path_that_can_be_whatever_was_tried() {
        for program in ["qemu", "/nowhere/bin/qemu"] {
            let missing = VmError::QemuMissing { program: program.into() }.to_string();
            let (found, needed) = ("1.0".into(), "6.2".into());
            let too_old = VmError::QemuTooOld { program: program.into(), found, needed };
            for told in [missing, too_old.to_string()] {
                assert!(told.ends_with("SCHEDLAB_QEMU=/path/to/qemu-system-x86_64"), "{told}");
            }
        }
    }
}
