//! Why a policy was not loaded, each with a way out.

use std::path::{Path, PathBuf};

use thiserror::Error;

use super::reason;
use super::status::Status;
use crate::records::{Exit, Record, Refused, Stage, shortened};

/// Why a policy does not schedule the machine.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The file could not be read.
    #[error("cannot read the policy's object {}: {source}", path.display())]
    NoObject {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not what a BPF compiler writes.
    #[error("not a BPF object: {reason}")]
    NotAnObject {
        /// What is wrong with it.
        reason: String,
    },
    /// The object could not be opened by the loader.
    #[error("cannot open the policy's object {}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
        /// All that the loader said.
        log: String,
    },
    /// The object has programs, but no policy.
    #[error("the object has no `struct {wanted}`")]
    NoPolicy {
        /// The structure's name.
        wanted: &'static str,
    },
    /// `set` names something that cannot be set.
    #[error("the policy has no tunable {name:?}")]
    NoTunable {
        /// The name as it was given.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// `set` names an array or a structure.
    #[error("{name} is not a number")]
    NotANumber {
        /// The name as it was given.
        name: String,
    },
    /// `set` gives a value that the tunable's type cannot hold.
    #[error("{value:?} is not a value of {name}: it takes {least} to {most}")]
    BadValue {
        /// The tunable.
        name: String,
        /// The value as it was given.
        value: String,
        /// Least value of its type.
        least: i128,
        /// Greatest value of its type.
        most: i128,
    },
    /// What the policy's own front end would do cannot be done.
    #[error("{reason}")]
    FrontEnd {
        /// What is wrong.
        reason: String,
        /// What to do about it; empty where nothing is known.
        hint: String,
    },
    /// The running kernel has no sched_ext.
    #[error("Linux {kernel_release} has no sched_ext")]
    NoSchedExt {
        /// `uname -r`.
        kernel_release: String,
    },
    /// Only root may replace the scheduler.
    #[error("not root: only root may give the kernel a scheduler")]
    NotRoot,
    /// One policy at a time.
    #[error("the policy {ops:?} already schedules this machine")]
    Occupied {
        /// Its name.
        ops: String,
    },
    /// The kernel's verifier, or a relocation, refused a program.
    #[error("{reason}")]
    Verifier {
        /// The kernel's reason in plain words.
        reason: String,
        /// What to do about it; empty where nothing is known.
        hint: String,
        /// All that verifier and loader said.
        log: String,
    },
    /// The kernel would not enable the policy.
    #[error("the kernel would not enable the policy: {reason}")]
    Attach {
        /// Its reason.
        reason: String,
        /// What to do about it; empty where nothing is known.
        hint: String,
        /// All that the kernel and the loader said.
        log: String,
    },
    /// The policy ended while it was enabled: its `init` failed, or it broke a rule at once.
    #[error("the policy ended at once: {}", exit.sentence())]
    Ended {
        /// Its end.
        exit: Box<Exit>,
    },
    /// The kernel says that all went well, and has no policy.
    #[error("the kernel took the policy but did not enable it: sched_ext is {state:?}")]
    NotEnabled {
        /// The state of sched_ext now.
        state: String,
    },
}

impl LoadError {
    pub(super) fn unreadable(path: &Path, error: &std::io::Error, log: String) -> Self {
        LoadError::Unreadable { path: path.to_owned(), reason: error.to_string(), log }
    }

    pub(super) fn verifier(error: &libbpf_rs::Error, log: String) -> Self {
        let found = reason::of_load(&log);
        let found = found.or_else(|| reason::of_length(error));
        let reason = found.as_ref().map_or_else(|| error.to_string(), ToString::to_string);
        let hint = found.map_or_else(String::new, |found| found.hint().to_owned());
        LoadError::Verifier { reason, hint, log }
    }

    pub(super) fn attach(
        error: &libbpf_rs::Error,
        before: &Status,
        kernel_log: &str,
        loader_log: String,
    ) -> Self {
        let (reason, hint) = reason::of_attach(error, before, kernel_log);
        LoadError::Attach { reason, hint, log: format!("{kernel_log}{loader_log}") }
    }

    /// The record that tells whoever watches. Who breaks a rule while the kernel still hands tasks
    /// over is ejected, just like one who breaks it a moment later.
    pub fn record(&self) -> Record {
        match self {
            LoadError::Ended { exit } if exit.breaks_a_rule() => Record::Ejected((**exit).clone()),
            _ => Record::Refused(self.refused()),
        }
    }

    fn refused(&self) -> Refused {
        Refused {
            stage: self.stage(),
            reason: self.to_string(),
            hint: self.hint(),
            log: shortened(self.log()),
        }
    }

    /// How far loading came.
    pub fn stage(&self) -> Stage {
        match self {
            LoadError::Verifier { .. } => Stage::Load,
            LoadError::Attach { .. } | LoadError::Ended { .. } | LoadError::NotEnabled { .. } => {
                Stage::Attach
            }
            _ => Stage::Open,
        }
    }

    /// What to do about it; empty where nothing is known.
    pub fn hint(&self) -> String {
        match self {
            LoadError::Verifier { hint, .. }
            | LoadError::Attach { hint, .. }
            | LoadError::FrontEnd { hint, .. } => hint.clone(),
            LoadError::NoPolicy { .. } => {
                "a policy ends with SCX_OPS_DEFINE(...); see policies/fifo.bpf.c".into()
            }
            LoadError::NoTunable { known, .. } if known.is_empty() => "this policy has none".into(),
            LoadError::NoTunable { known, .. } => format!("it has {}", known.join(", ")),
            LoadError::NoSchedExt { .. } => {
                "it needs Linux 6.12 or later built with CONFIG_SCHED_CLASS_EXT=y; \
                 a virtual machine can have one: schedlab kernels fetch"
                    .into()
            }
            LoadError::NotRoot => "use sudo, or a virtual machine: --on vm".into(),
            LoadError::Occupied { .. } => "stop the program that loaded it".into(),
            LoadError::Ended { exit } => exit.hint.clone(),
            _ => String::new(),
        }
    }

    /// All that the verifier and the loader said.
    pub fn log(&self) -> &str {
        match self {
            LoadError::Verifier { log, .. }
            | LoadError::Attach { log, .. }
            | LoadError::Unreadable { log, .. } => log,
            LoadError::Ended { exit } => &exit.dump,
            _ => "",
        }
    }
}
