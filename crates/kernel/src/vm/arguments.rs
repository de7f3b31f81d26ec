//! The command line of QEMU, as a pure function of what is wanted.

use super::{Accelerator, Options, Qemu};
use crate::job::{JOB_NAME, POLICY_NAME};
use crate::kernels::Kernel;
use crate::records::PORT_NAME;

/// Paths of the files in memory that a machine reads and writes.
#[derive(Default)]
pub(super) struct Files {
    /// The guest's first file system.
    pub initramfs: String,
    /// What the guest loads once it has booted.
    pub policy: Option<String>,
    /// What it gets then.
    pub job: Option<String>,
    /// Whether the machine has booted before.
    pub is_restored: bool,
    /// Where records go.
    pub records: String,
    /// Where the kernel's console goes.
    pub console: String,
}

/// The arguments for one boot.
///
/// The machine is a bare `pc`: `microvm` boots sooner where it boots at all, but hung in most
/// boots of these kernels.
pub(super) fn of(qemu: &Qemu, kernel: &Kernel, files: &Files, options: &Options) -> Vec<String> {
    let mut arguments: Vec<String> =
        ["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"]
            .map(String::from)
            .into();
    let mut add = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
    let cpus = options.cpus;
    add("-machine", "pc".to_owned());
    add("-accel", accelerator(qemu, options));
    add("-cpu", cpu(options));
    add("-m", format!("{}M", options.memory_mib));
    add(
        "-smp",
        format!(
            "{},sockets={},cores={},threads={}",
            cpus.total(),
            cpus.sockets,
            cpus.cores,
            cpus.threads
        ),
    );
    if options.deterministic {
        // One instruction is one nanosecond; a sleeping guest's clock jumps to its next timer.
        add("-icount", "shift=0,sleep=off".to_owned());
        add("-rtc", "base=2020-01-01T00:00:00,clock=vm".to_owned());
        add("-seed", options.seed.to_string());
    }
    add("-chardev", format!("file,id=console,path={}", files.console));
    add("-serial", "chardev:console".to_owned());
    add("-chardev", format!("file,id=records,path={}", files.records));
    if kernel.virtio_console {
        // Without ioeventfd the port is served by the CPU that writes to it: another thread
        // would be a second clock in a deterministic machine.
        add("-device", "virtio-serial-pci,ioeventfd=off".to_owned());
        add("-device", format!("virtserialport,chardev=records,name={PORT_NAME}"));
    } else {
        add("-serial", "chardev:records".to_owned());
    }
    add("-chardev", "stdio,id=monitor,signal=off".to_owned());
    add("-mon", "chardev=monitor,mode=control".to_owned());
    if let Some(job) = &files.job {
        // The guest stops its machine by this device, and then finds its job by the firmware's.
        let (device, event) =
            if options.deterministic { ("ib700", "watchdog") } else { ("pvpanic", "panic") };
        add("-device", device.to_owned());
        add("-action", format!("{event}=pause"));
        add("-fw_cfg", format!("name={JOB_NAME},file={job}"));
    }
    if let Some(policy) = &files.policy {
        add("-fw_cfg", format!("name={POLICY_NAME},file={policy}"));
    }
    if files.is_restored {
        // From where is said by the monitor.
        add("-incoming", "defer".to_owned());
    }
    add("-kernel", kernel.image.display().to_string());
    add("-initrd", files.initramfs.clone());
    add("-append", command_line(options));
    arguments
}

fn accelerator(qemu: &Qemu, options: &Options) -> String {
    let is_single = options.deterministic || options.cpus.total() == 1 || !qemu.has_sound_threads();
    match options.accelerator {
        Accelerator::Kvm => "kvm".to_owned(),
        Accelerator::Tcg if is_single => "tcg,thread=single".to_owned(),
        Accelerator::Tcg => "tcg,thread=multi".to_owned(),
    }
}

fn cpu(options: &Options) -> String {
    let mut cpu = match options.accelerator {
        Accelerator::Kvm => "host".to_owned(),
        Accelerator::Tcg => "max".to_owned(),
    };
    if options.deterministic {
        cpu += ",rdrand=off,rdseed=off";
    }
    cpu
}

/// Any warning of the kernel goes to the console, so that a panic comes with its story. The
/// kernel's tests of its own cryptography, half a second of each boot, are left out.
fn command_line(options: &Options) -> String {
    let mut words =
        vec!["console=ttyS0", "loglevel=5", "panic=-1", "oops=panic", "cryptomgr.notests"];
    if options.deterministic {
        words.extend(["nokaslr", "mitigations=off"]);
    }
    words.extend(options.kernel_arguments.iter().map(String::as_str));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{SchedExt, Scheduler};
    use crate::vm::Cpus;

    fn kernel(virtio_console: bool) -> Kernel {
        Kernel {
            name: "k".into(),
            release: "6.18.15".into(),
            scheduler: Scheduler::Eevdf,
            sched_ext: SchedExt::Sound,
            virtio_console,
            pvh: true,
            hz: None,
            source: String::new(),
            sha256: String::new(),
            image: "/cache/k/vmlinux".into(),
        }
    }

    fn line(major: u32, virtio_console: bool, options: &Options) -> String {
        let qemu =
            Qemu { program: "qemu".into(), version: (major, 0), version_text: String::new() };
        let files = Files {
            initramfs: "/i".into(),
            records: "/r".into(),
            console: "/c".into(),
            ..Files::default()
        };
        of(&qemu, &kernel(virtio_console), &files, options).join(" ")
    }

    #[test]
    fn threads_are_used_only_where_guests_survive_them_and_there_are_cpus_for_them() {
        let four = Options { cpus: Cpus::count(4), ..Options::default() };
        assert!(line(7, true, &four).contains("tcg,thread=single"));
        assert!(line(10, true, &four).contains("tcg,thread=multi"));
        assert!(line(10, true, &Options::default()).contains("tcg,thread=single"));
        let deterministic = Options { deterministic: true, ..four };
        assert!(line(10, true, &deterministic).contains("tcg,thread=single"));
    }

    #[test]
    fn a_deterministic_machine_has_no_source_of_chance() {
        let options = Options { deterministic: true, seed: 7, ..Options::default() };
        let line = line(7, true, &options);
        for part in [
            "-icount shift=0,sleep=off",
            "-seed 7",
            "clock=vm",
            "max,rdrand=off,rdseed=off",
            "nokaslr mitigations=off",
            "ioeventfd=off",
        ] {
            assert!(line.contains(part), "{part} in {line}");
        }
        assert!(!super::tests::line(7, true, &Options::default()).contains("icount"));
    }

    #[test]
    fn a_kernel_without_virtio_sends_records_over_its_second_serial_line() {
        let line = line(7, false, &Options::default());
        assert!(
            line.contains("-serial chardev:console") && line.contains("-serial chardev:records")
        );
        assert!(!line.contains("virtio"));
    }

    #[test]
    fn a_machine_that_is_given_a_job_can_stop_and_one_that_was_kept_waits_to_be_restored() {
        let qemu = Qemu { program: "qemu".into(), version: (7, 2), version_text: String::new() };
        let (job, policy) = (Some("/j".to_owned()), Some("/p".to_owned()));
        let line = |files: Files| of(&qemu, &kernel(true), &files, &Options::default()).join(" ");
        let given = line(Files { job: job.clone(), policy: policy.clone(), ..Files::default() });
        for part in [
            "-device pvpanic -action panic=pause",
            "-fw_cfg name=opt/schedlab/job,file=/j",
            "-fw_cfg name=opt/schedlab/policy,file=/p",
        ] {
            assert!(given.contains(part), "{part} in {given}");
        }
        let restored = line(Files { job, policy, is_restored: true, ..Files::default() });
        assert_eq!(restored.replace(" -incoming defer", ""), given);
        assert_ne!(restored, given);
        let deterministic = Options { deterministic: true, ..Options::default() };
        let files = Files { job: Some("/j".to_owned()), ..Files::default() };
        let counting = of(&qemu, &kernel(true), &files, &deterministic).join(" ");
        assert!(counting.contains("-device ib700 -action watchdog=pause"), "{counting}");
    }

    #[test]
    fn the_command_line_is_this() {
        let options = Options {
            cpus: Cpus { sockets: 1, cores: 2, threads: 2 },
            kernel_arguments: vec!["quiet".into()],
            ..Options::default()
        };
        assert_eq!(
            line(7, true, &options),
            "-nodefaults -no-user-config -no-reboot -display none -machine pc \
             -accel tcg,thread=single -cpu max -m 1024M -smp 4,sockets=1,cores=2,threads=2 \
             -chardev file,id=console,path=/c -serial chardev:console \
             -chardev file,id=records,path=/r -device virtio-serial-pci,ioeventfd=off \
             -device virtserialport,chardev=records,name=schedlab \
             -chardev stdio,id=monitor,signal=off -mon chardev=monitor,mode=control \
             -kernel /cache/k/vmlinux -initrd /i \
             -append console=ttyS0 loglevel=5 panic=-1 oops=panic cryptomgr.notests quiet"
        );
    }
}
