//! A CPU that the guest leaves alone, for kernels that would wait for their second one for ever.
//!
//! Where the clock counts instructions, QEMU's CPUs take turns. Before 8.1 a turn may last until
//! the machine's next timer, and the CPU whose turn is next then gets no instruction, only the
//! timer is served (`icount_get_limit` and `icount_prepare_for_run` in `accel/tcg` of 7.2; 8.1
//! gives each CPU its part of the time: "ensure fairness with icount"). Linux before 6.5 waits for
//! a CPU that it starts in a loop without a pause (`do_boot_cpu`), uses up every turn in it, and
//! the CPU that would end the loop never runs. Later kernels pause there, which ends a turn.
//!
//! A CPU that does nothing, second in the order of turns, takes the empty turn in place of the one
//! that is waited for.

use super::{Cpus, Options, Qemu, VmError};
use crate::kernels::{Kernel, Release};

/// The first with a part of the time for each CPU. Not tried here.
const FIRST_WITH_FAIR_TURNS: (u32, u32) = (8, 1);

/// The same options, with one more CPU if this kernel needs it in order to start its second one.
pub(super) fn with_spare_cpu(
    options: Options,
    qemu: &Qemu,
    kernel: &Kernel,
) -> Result<Options, VmError> {
    let cpus = options.cpus;
    if !options.deterministic || cpus.total() == 1 || !is_needed(qemu, kernel) {
        return Ok(options);
    }
    if cpus != Cpus::count(cpus.cores) {
        // The second in turn would be a part of the topology that was asked for.
        let release = kernel.release.clone();
        return Err(VmError::NoSpareCpu { cpus, release, qemu: qemu.version_text.clone() });
    }
    let mut options = options;
    options.cpus.cores += 1;
    let possible = format!("possible_cpus={}", cpus.cores);
    options.kernel_arguments.extend(["disable_cpu_apicid=1".to_owned(), possible]);
    Ok(options)
}

fn is_needed(qemu: &Qemu, kernel: &Kernel) -> bool {
    let pauses = Release::parse(&kernel.release)
        .is_none_or(|release| release >= Release::FIRST_TO_PAUSE_FOR_CPUS);
    !pauses && qemu.version < FIRST_WITH_FAIR_TURNS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{SchedExt, Scheduler};

    const SEVEN: (u32, u32) = (7, 2);

    fn made(release: &str, qemu: (u32, u32), cpus: Cpus) -> Result<Options, VmError> {
        let kernel = Kernel {
            name: "k".into(),
            release: release.into(),
            scheduler: Scheduler::Cfs,
            sched_ext: SchedExt::Absent,
            virtio_console: true,
            pvh: true,
            hz: None,
            source: String::new(),
            sha256: String::new(),
            image: "/cache/k/vmlinux".into(),
        };
        let qemu = Qemu { program: "qemu".into(), version: qemu, version_text: "7.2.22".into() };
        let options = Options { cpus, deterministic: true, ..Options::default() };
        with_spare_cpu(options, &qemu, &kernel)
    }

    #[test]
    fn a_kernel_that_does_not_pause_gets_a_cpu_more_and_is_told_to_leave_it_alone() {
        let options = made("6.1.0-50-cloud-amd64", SEVEN, Cpus::count(2)).unwrap();
        assert_eq!(options.cpus, Cpus::count(3));
        assert_eq!(options.kernel_arguments, ["disable_cpu_apicid=1", "possible_cpus=2"]);
    }

    #[test]
    fn whoever_needs_no_other_cpu_gets_none() {
        let cases = [
            ("6.1.0-50", SEVEN, 1),
            ("6.1.0-50", (8, 1), 2),
            ("6.5.13", SEVEN, 2),
            ("6.18.15+deb13-cloud-amd64", SEVEN, 2),
        ];
        for (release, qemu, cores) in cases {
            let options = made(release, qemu, Cpus::count(cores)).unwrap();
            assert_eq!(options.cpus, Cpus::count(cores), "{release}");
            assert!(options.kernel_arguments.is_empty(), "{release}");
        }
    }

    #[test]
    fn a_topology_without_a_place_for_it_is_refused_with_a_way_out() {
        let cpus = Cpus { sockets: 2, cores: 2, threads: 1 };
        let told = made("6.1.0-50", SEVEN, cpus).unwrap_err().to_string();
        assert!(told.contains("Linux 6.1.0-50") && told.contains("4,2,2,1"), "{told}");
        assert!(told.contains("hint: --cpus 4, a kernel from 6.5 on"), "{told}");
    }
}
