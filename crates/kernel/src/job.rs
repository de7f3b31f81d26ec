//! What `schedlab-guest` is to do inside a virtual machine.
//!
//! A job is one JSON file at [`JOB_PATH`], among the files that a guest gets once it has booted.
//! `python/schedlab/kernel/play.py` writes it. The guest (`guest.rs`) reads it once; every limit in
//! it is the guest's own and comes on top of the time limit of whoever started the machine.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Where the guest looks for its job.
pub const JOB_PATH: &str = "/job.json";
/// What its machine calls the archive of files that the guest gets once it has booted, a tar.
pub const JOB_NAME: &str = "opt/schedlab/job";
/// Where the guest looks for a policy that it loads before it gets its job, a [`PolicyJob`].
pub const POLICY_PATH: &str = "/policy.json";
/// What its machine calls the archive of that policy's files, a tar.
pub const POLICY_NAME: &str = "opt/schedlab/policy";
/// The word on the kernel's command line that says how long to wait before that, in milliseconds.
pub const SETTLE_VARIABLE: &str = "schedlab_settle_ms";
/// The word that says how large buffers to prepare for recordings, in KiB a CPU.
pub const RECORD_VARIABLE: &str = "schedlab_record_kib";
/// The word that says to bring the kernel's clocks together before that.
pub const ALIGN_VARIABLE: &str = "schedlab_align_clocks";
/// The word that says that the machine's clock counts instructions.
pub const COUNTS_VARIABLE: &str = "schedlab_counts_instructions";

/// Everything that one boot of a guest does, in this order: settle, load, work, unload. A policy
/// that the guest got before its job is loaded already.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// The policy to load; none leaves the kernel to its own scheduler.
    #[serde(default)]
    pub policy: Option<PolicyJob>,
    /// Load the policy for each play anew, when the play's tasks have lain down for their start,
    /// and for these tasks alone. As at the beginning of a simulation it then knows nothing of
    /// them but what they are, not what they inherited and did before; and kernel threads, which
    /// a simulation does not have, are not in its queues.
    #[serde(default)]
    pub isolated_plays: bool,
    /// What to run, one after the other, under the policy.
    #[serde(default)]
    pub work: Vec<Work>,
    /// Nanoseconds between the beginning of the job and the load.
    #[serde(default)]
    pub settle_ns: u64,
    /// Nanoseconds that each piece of work may take before it is killed; 0 is no limit.
    #[serde(default)]
    pub time_limit_ns: u64,
    /// Nanoseconds between two [`Counters`](crate::records::Counters); 0 is none.
    #[serde(default)]
    pub counters_every_ns: u64,
}

/// A policy's object in the guest, and what to set in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyJob {
    /// Path of the BPF object in the guest.
    pub object: PathBuf,
    /// Tunables by name, as written on the command line: decimal, `0x...`, `true`, `false`.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
}

/// One thing that the guest runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Work {
    /// A program of the initramfs. Its output comes back in the record of its end.
    Command {
        /// The program's path and its arguments; never empty.
        argv: Vec<String>,
        /// Nanoseconds that it may take, in place of the job's limit; 0 is the job's.
        #[serde(default)]
        time_limit_ns: u64,
    },
    /// Files by which the kernel tells of itself and its machine, as they are now.
    Read {
        /// Their paths; that of a directory stands for all files in it.
        paths: Vec<PathBuf>,
    },
    /// A scenario's workload, played by real threads.
    Play(Play),
    /// Another policy in the place of the one that schedules, for the work that follows.
    Load(PolicyJob),
    /// Nothing but time, so that the policy can be watched.
    Wait {
        /// How long, in nanoseconds.
        wall_ns: u64,
    },
}

/// A workload to play.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Play {
    /// Path of the workload's file in the guest.
    pub workload: PathBuf,
    /// The workload's parameters by name, as written on the command line.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
    /// Seed of its random choices: the same choices as in a simulation with this seed.
    pub seed: u64,
    /// Whether a nanosecond is an instruction, as where QEMU's clock counts them.
    #[serde(default)]
    pub counts_instructions: bool,
    /// KiB a CPU to record what the scheduler does; 0 records nothing.
    #[serde(default)]
    pub record_kib_per_cpu: u32,
    /// What to look at of the policy meanwhile.
    #[serde(default)]
    pub inside: Inside,
}

/// What to look at of a policy while it schedules a play. Times count from the play's time 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inside {
    /// Numbers that are followed, by expressions.
    #[serde(default)]
    pub watch: Vec<String>,
    /// When to tell the state, in nanoseconds.
    #[serde(default)]
    pub dump_at_ns: Vec<u64>,
    /// Whether to tell that of the end.
    #[serde(default)]
    pub dump_at_end: bool,
}

impl Inside {
    /// Whether nothing is asked for.
    pub fn is_empty(&self) -> bool {
        *self == Inside::default()
    }

    /// Whether a state is asked for.
    pub fn has_dumps(&self) -> bool {
        self.dump_at_end || !self.dump_at_ns.is_empty()
    }
}

impl Work {
    /// A few words for messages: the command line, or what is done instead.
    pub fn title(&self) -> String {
        match self {
            Work::Command { argv, .. } => argv.join(" "),
            Work::Read { paths } => format!("read {} files", paths.len()),
            Work::Play(play) => format!("play {} {}", play.workload.display(), play.seed),
            Work::Load(policy) => format!("load {}", policy.object.display()),
            Work::Wait { wall_ns } => format!("wait {wall_ns} ns"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(argv: &[&str]) -> Work {
        let argv = argv.iter().map(ToString::to_string).collect();
        Work::Command { argv, time_limit_ns: 7 }
    }

    #[test]
    fn a_job_survives_its_file() {
        let policy = PolicyJob {
            object: "/policy.o".into(),
            set: BTreeMap::from([("slice_ns".into(), "3000000".into())]),
        };
        let job = Job {
            policy: Some(policy.clone()),
            work: vec![
                command(&["/bin/hackbench", "-g", "1"]),
                Work::Load(policy),
                Work::Read { paths: vec!["/proc/cmdline".into()] },
                Work::Wait { wall_ns: 5 },
            ],
            settle_ns: 1,
            time_limit_ns: 2,
            counters_every_ns: 3,
            isolated_plays: true,
        };
        let text = serde_json::to_string(&job).unwrap();
        assert_eq!(serde_json::from_str::<Job>(&text).unwrap(), job);
    }

    #[test]
    fn an_empty_job_boots_and_powers_off() {
        assert_eq!(serde_json::from_str::<Job>("{}").unwrap(), Job::default());
    }

    #[test]
    fn a_misspelt_field_is_refused_with_its_name() {
        let refused = serde_json::from_str::<Job>(r#"{"setle_ns": 1}"#).unwrap_err();
        assert!(refused.to_string().contains("setle_ns"), "{refused}");
    }
}
