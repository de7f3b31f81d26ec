//! What we tell a running QEMU, and what it tells us, by its machine protocol.
//!
//! One JSON text a line, ours to its standard input, its own from its standard output. Source:
//! QEMU, docs/interop/qmp-spec and qapi/{run-state,migration}.json.

use std::io::{self, Write};
use std::process::ChildStdin;

use serde_json::{Value, json};

use crate::sink::Sink;

/// The line to one QEMU.
pub(super) struct Monitor {
    to: ChildStdin,
    from: Sink,
    unread: Vec<u8>,
}

/// What matters of what QEMU says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// The machine stopped: no instruction is executed until it is told to go on.
    Stopped,
    /// It was saved, or restored.
    Migrated,
    /// It could not be.
    NotMigrated,
    /// A command was refused, with this reason.
    Refused(String),
}

/// No limit for what goes into a file: bytes a second.
const BANDWIDTH: u64 = 1 << 40;

impl Monitor {
    /// Opens the protocol. QEMU reads what is written here as soon as it is ready.
    pub fn open(to: ChildStdin, from: Sink) -> Monitor {
        let mut monitor = Monitor { to, from, unread: vec![] };
        monitor.say("qmp_capabilities", json!({}));
        let events = json!([{"capability": "events", "state": true}]);
        monitor.say("migrate-set-capabilities", json!({"capabilities": events}));
        monitor
    }

    /// Begins to save the stopped machine into the file at `path`. QEMU says that it is done before
    /// the last of it is written; something is written to `mark` after that.
    pub fn save(&mut self, path: &str, mark: &str) {
        self.say("migrate-set-parameters", json!({"max-bandwidth": BANDWIDTH}));
        self.say("migrate", json!({"uri": format!("exec:cat >{path} && echo >{mark}")}));
    }

    /// Begins to restore a machine from the file at `path`.
    pub fn restore(&mut self, path: &str) {
        self.say("migrate-incoming", json!({"uri": format!("exec:cat <{path}")}));
    }

    /// Lets a stopped machine go on.
    pub fn go_on(&mut self) {
        self.say("cont", json!({}));
    }

    /// What was said since the last time.
    pub fn heard(&mut self) -> io::Result<Vec<Told>> {
        self.from.read_new(&mut self.unread)?;
        let Some(last) = self.unread.iter().rposition(|&byte| byte == b'\n') else {
            return Ok(vec![]);
        };
        let lines: Vec<u8> = self.unread.drain(..=last).collect();
        let values = lines.split(|&byte| byte == b'\n').map(serde_json::from_slice::<Value>);
        Ok(values.filter_map(Result::ok).filter_map(|value| told(&value)).collect())
    }

    /// Bytes that it said so far.
    pub fn said_bytes(&self) -> u64 {
        self.from.length()
    }

    fn say(&mut self, command: &str, arguments: Value) {
        let line = format!("{}\n", json!({"execute": command, "arguments": arguments}));
        // A QEMU that has gone away is seen by its end.
        let _ = self.to.write_all(line.as_bytes());
    }
}

fn told(value: &Value) -> Option<Told> {
    if let Some(error) = value.get("error") {
        return Some(Told::Refused(error["desc"].as_str().unwrap_or_default().to_owned()));
    }
    match (value["event"].as_str()?, value["data"]["status"].as_str()) {
        ("STOP", _) => Some(Told::Stopped),
        ("MIGRATION", Some("completed")) => Some(Told::Migrated),
        ("MIGRATION", Some("failed" | "cancelled")) => Some(Told::NotMigrated),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_is_said_only_what_matters_is_heard() {
        let lines = [
            r#"{"QMP": {"version": {}, "capabilities": ["oob"]}}"#,
            r#"{"return": {}}"#,
            r#"{"event": "WATCHDOG", "data": {"action": "pause"}}"#,
            r#"{"event": "STOP"}"#,
            r#"{"event": "MIGRATION", "data": {"status": "active"}}"#,
            r#"{"event": "MIGRATION", "data": {"status": "completed"}}"#,
            r#"{"event": "MIGRATION", "data": {"status": "failed"}}"#,
            r#"{"error": {"class": "GenericError", "desc": "not yet"}}"#,
        ];
        let values = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
        let heard: Vec<Told> = values.iter().filter_map(told).collect();
        let refused = Told::Refused("not yet".to_owned());
        assert_eq!(heard, [Told::Stopped, Told::Migrated, Told::NotMigrated, refused]);
    }
}
