//! How a machine ended.

use std::fmt;
use std::time::Duration;

/// How a machine ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The guest switched it off.
    PoweredOff,
    /// The kernel gave up.
    Panicked {
        /// Its reason, as on the console.
        message: String,
    },
    /// No line of records came in time; we switched it off.
    BootTimedOut {
        /// What it did instead, with the limit that was reached.
        message: String,
    },
    /// A machine that was kept cannot be restored, and is kept no longer.
    NotRestored {
        /// Why not.
        message: String,
    },
    /// It went on for too long; we switched it off.
    TimedOut {
        /// The limit that was reached.
        limit: Duration,
    },
    /// It sent more than can be meant; we switched it off.
    Flooded {
        /// Bytes of records, console and QEMU's own output.
        bytes: u64,
    },
    /// QEMU itself failed.
    QemuFailed {
        /// How, and what it printed.
        message: String,
    },
}

impl End {
    /// One word for programs: `powered_off`, `panicked`, `boot_timed_out`, `not_restored`,
    /// `timed_out`, `flooded`, `qemu_failed`.
    pub fn kind(&self) -> &'static str {
        match self {
            End::PoweredOff => "powered_off",
            End::Panicked { .. } => "panicked",
            End::BootTimedOut { .. } => "boot_timed_out",
            End::NotRestored { .. } => "not_restored",
            End::TimedOut { .. } => "timed_out",
            End::Flooded { .. } => "flooded",
            End::QemuFailed { .. } => "qemu_failed",
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::PoweredOff => write!(formatter, "the guest powered off"),
            End::Panicked { message } => {
                write!(formatter, "the guest's kernel panicked: {message}")
            }
            End::BootTimedOut { message } => {
                write!(formatter, "the guest's kernel started no program: {message}")
            }
            End::NotRestored { message } => {
                write!(formatter, "the machine that was kept cannot be restored: {message}")
            }
            End::TimedOut { limit } => {
                write!(formatter, "the guest was not done after {} s", limit.as_secs_f64())
            }
            End::Flooded { bytes } => {
                write!(formatter, "the guest had written {bytes} bytes and did not stop")
            }
            End::QemuFailed { message } => write!(formatter, "{message}"),
        }
    }
}
