//! hackbench, as Rusty Russell wrote it and as OSDL ran it in 2003.
//!
//! A group is 20 receivers with a channel each and 20 senders; every sender writes one message to
//! each of the 20 channels, `loops` times. The main task forks all of them, waits until each has
//! reported ready, starts the clock, lets them go and waits for their ends.

use crate::made::builder::ProgramBuilder;
use crate::model::error::ScenarioError;
use crate::model::machine::PIPE_BYTES;
use crate::model::workload::{
    Amount, Channel, InitialTask, Op, Program, Repeat, TaskTemplate, Workload,
};
use crate::reading::parameters::Settings;

/// Senders of a group, and receivers of a group: hackbench's fixed `num_fds`.
pub const TASKS_PER_SIDE: u32 = 20;

/// The most groups: 40 tasks each, and the main task.
pub const GROUPS_MAX: u32 = 24_000;

/// What shapes a hackbench run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hackbench {
    /// Groups of 20 senders and 20 receivers.
    pub groups: u32,
    /// Messages from each sender to each receiver of its group.
    pub loops: u32,
    /// Size of a message.
    pub bytes: u32,
    /// Whether all tasks share one address space (threads) or have their own (processes).
    pub threads: bool,
    /// What a receiver reads from, and what tasks report ready through: a socket pair or a pipe.
    pub channel: Channel,
    /// User time of a sender for each message.
    pub send_work_ns: u64,
    /// User time of a receiver for each message.
    pub recv_work_ns: u64,
    /// Each task computes for a random time up to this once it may go.
    pub stagger_ns: u64,
    /// Memory that each task touches.
    pub footprint_kib: u32,
}

/// Names of the parameters in the workload's file.
pub(crate) const PARAMETERS: [&str; 15] = [
    "groups",
    "loops",
    "bytes",
    "pipe",
    "threads",
    "send_work",
    "recv_work",
    "stagger",
    "footprint_kib",
    "socket_buffer_bytes",
    "socket_overhead_bytes",
    "socket_wake_senders_at_bytes",
    "socket_sync_wakeups",
    "pipe_buffer_bytes",
    "pipe_sync_wakeups",
];

/// The hackbench that the parameters of a file describe.
pub(crate) fn read(settings: &Settings) -> Result<Workload, ScenarioError> {
    let (pipe, socket) = (read_pipe(settings)?, read_socket(settings)?);
    let channel = if settings.truth("pipe")? { pipe } else { socket };
    check_message(settings, &channel)?;
    let hackbench = Hackbench {
        groups: settings.number("groups", 1, GROUPS_MAX)?,
        loops: settings.number("loops", 1, u32::MAX)?,
        bytes: settings.number("bytes", 1, u32::MAX)?,
        threads: settings.truth("threads")?,
        channel,
        send_work_ns: settings.duration_ns("send_work")?,
        recv_work_ns: settings.duration_ns("recv_work")?,
        stagger_ns: settings.duration_ns("stagger")?,
        footprint_kib: settings.number("footprint_kib", 0, u32::MAX)?,
    };
    Ok(hackbench.build())
}

/// A message that never fits would leave its sender waiting for ever.
fn check_message(settings: &Settings, channel: &Channel) -> Result<(), ScenarioError> {
    let bytes = settings.need("bytes")?;
    let said = Some(channel.capacity_bytes).filter(|bytes| *bytes > 0);
    let room = said.unwrap_or(PIPE_BYTES).saturating_sub(channel.overhead_bytes);
    if bytes.unsigned_32(1, u32::MAX)? <= room {
        return Ok(());
    }
    let hint = format!("send at most {room} bytes, or give a larger buffer");
    Err(bytes.bad(format!("only {room} bytes fit in the buffer of a receiver"), hint))
}

fn read_socket(settings: &Settings) -> Result<Channel, ScenarioError> {
    let capacity_bytes = settings.number("socket_buffer_bytes", 1, u32::MAX)?;
    Ok(Channel {
        capacity_bytes,
        overhead_bytes: settings.number("socket_overhead_bytes", 0, u32::MAX)?,
        wake_senders_at_bytes: settings.number(
            "socket_wake_senders_at_bytes",
            0,
            capacity_bytes - 1,
        )?,
        sync_wakeups: settings.truth("socket_sync_wakeups")?,
    })
}

/// A pipe wakes its writers as soon as there is room for one byte.
fn read_pipe(settings: &Settings) -> Result<Channel, ScenarioError> {
    let capacity_bytes = settings.number("pipe_buffer_bytes", 0, u32::MAX)?;
    Ok(Channel {
        capacity_bytes,
        overhead_bytes: 0,
        wake_senders_at_bytes: capacity_bytes.saturating_sub(1),
        sync_wakeups: settings.truth("pipe_sync_wakeups")?,
    })
}

/// The channel through which tasks report ready; group channels follow it.
const READY: u32 = 0;
/// The gate that lets all tasks go.
const GO: u32 = 0;
/// The main task's template; those of the groups follow it.
const MAIN: u32 = 0;

impl Hackbench {
    /// The workload. O(groups) templates: a group's senders share one program.
    pub fn build(&self) -> Workload {
        let nr_channels = 1 + self.groups * TASKS_PER_SIDE;
        let mut templates = vec![self.template("hackbench", self.main_program())];
        for group in 0..self.groups {
            let first = 1 + group * TASKS_PER_SIDE;
            templates.push(self.template("sender", self.sender_program(first)));
            for channel in first..first + TASKS_PER_SIDE {
                templates.push(self.template("receiver", self.receiver_program(channel)));
            }
        }
        Workload {
            name: "hackbench".to_string(),
            templates,
            initial: vec![InitialTask { template: MAIN, start_at_ns: 0 }],
            channels: vec![self.channel; nr_channels as usize],
            nr_gates: 1,
            ..Workload::default()
        }
        .with_digest()
    }

    fn template(&self, name: &str, program: Program) -> TaskTemplate {
        TaskTemplate {
            name: name.to_string(),
            program,
            address_space: self.threads.then_some(0),
            footprint_kib: self.footprint_kib,
            ..TaskTemplate::default()
        }
    }

    /// Forks in hackbench's order: per group first the receivers, then the senders.
    fn main_program(&self) -> Program {
        let mut program = ProgramBuilder::new();
        for group in 0..self.groups {
            let sender = 1 + group * (1 + TASKS_PER_SIDE);
            for receiver in sender + 1..=sender + TASKS_PER_SIDE {
                program.push(Op::Fork { template: receiver });
            }
            program.begin(times(TASKS_PER_SIDE)).push(Op::Fork { template: sender }).end();
        }
        program.begin(times(2 * TASKS_PER_SIDE * self.groups));
        program.push(Op::Recv { channel: READY, bytes: 1 }).end();
        program.push(Op::Mark).push(Op::WakeAll { gate: GO }).push(Op::Join).push(Op::Exit);
        program.build()
    }

    fn ready_then_go(&self) -> ProgramBuilder {
        let mut program = ProgramBuilder::new();
        program.push(Op::Send { channel: READY, bytes: 1 }).push(Op::Wait { gate: GO });
        if self.stagger_ns > 0 {
            program.push(Op::Run(Amount::Uniform { low: 0, high: self.stagger_ns }));
        }
        program
    }

    fn sender_program(&self, first_channel: u32) -> Program {
        let mut program = self.ready_then_go();
        program.begin(times(self.loops));
        for channel in first_channel..first_channel + TASKS_PER_SIDE {
            push_work(&mut program, self.send_work_ns);
            program.push(Op::Send { channel, bytes: self.bytes });
        }
        program.end().push(Op::Exit);
        program.build()
    }

    fn receiver_program(&self, channel: u32) -> Program {
        let mut program = self.ready_then_go();
        let messages = u64::from(TASKS_PER_SIDE) * u64::from(self.loops);
        program.begin(Repeat::Times(Amount::Fixed(messages)));
        program.push(Op::Recv { channel, bytes: self.bytes });
        push_work(&mut program, self.recv_work_ns);
        program.end().push(Op::Exit);
        program.build()
    }
}

fn times(count: u32) -> Repeat {
    Repeat::Times(Amount::Fixed(count.into()))
}

fn push_work(program: &mut ProgramBuilder, work_ns: u64) {
    if work_ns > 0 {
        program.push(Op::Run(Amount::Fixed(work_ns)));
    }
}
