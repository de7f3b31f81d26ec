//! What a policy knows: its variables and maps, by the types that its object describes.

use super::{Dumping, LISTED_MAX, more};
use crate::core::Core;
use crate::linked::Linked;
use crate::place::TaskId;
use bytecode::{Btf, Key, Memory, Type, kind, map_kind_name};

/// What a policy is called that has no name of its own.
const UNNAMED: &str = "policy";

impl Core<'_> {
    /// `ops.name`
    pub(super) fn policy_name(&self) -> String {
        let bytes = self.policy.code().and_then(|linked| linked.value("name")).unwrap_or_default();
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        match &bytes[..end] {
            [] => UNNAMED.to_owned(),
            name => String::from_utf8_lossy(name).into_owned(),
        }
    }

    /// What the policy calls the number of a queue: an enumerator of its own that says so.
    pub(super) fn dsq_name(&self, id: u64) -> Option<String> {
        let btf = &self.policy.code()?.object.btf;
        let enumerators = btf.types().filter_map(|(_, of)| match of {
            Type::Enumeration { values, .. } => Some(values),
            _ => None,
        });
        let is_name = |name: &str| name.contains("DSQ") && !name.starts_with("SCX_");
        let named =
            enumerators.flatten().find(|(name, value)| is_name(name) && *value as u64 == id);
        named.map(|(name, _)| name.clone())
    }

    pub(super) fn dump_policy(&self, dumping: &mut Dumping) {
        let Some(linked) = self.policy.code() else { return };
        self.dump_variables(dumping, linked);
        if linked.object.maps.is_empty() {
            return;
        }
        dumping.heading("Maps");
        for (number, map) in linked.object.maps.iter().enumerate() {
            let (kind, btf) = (map_kind_name(map.kind), &linked.object.btf);
            let types = [map.key_type, map.value_type].map(|of| match of {
                0 => "?".to_owned(),
                of => btf.declaration(of, ""),
            });
            let types = if map.key_type == 0 { types[1].clone() } else { types.join(" -> ") };
            let nr = self.policy.maps.nr_entries(number);
            let nr = nr.map(|nr| format!(", {nr} of {}", map.entries_max)).unwrap_or_default();
            dumping.lines([String::new(), format!("{}: {kind}{nr}, {types}", map.name)]);
            match map.kind {
                kind::TASK_STORAGE => self.dump_storage(dumping, linked, number),
                _ => self.dump_entries(dumping, linked, number),
            }
        }
    }

    fn dump_variables(&self, dumping: &mut Dumping, linked: &Linked) {
        dumping.heading("Variables");
        for (section, &begin) in linked.object.data.iter().zip(&linked.data) {
            // Texts of messages, and what the kernel's configuration says, are no state.
            if section.name.starts_with(".rodata.") || section.name == ".kconfig" {
                continue;
            }
            for (name, variable) in &section.variables {
                let is_hidden = name.split('.').any(|part| part.starts_with("__"));
                if is_hidden || name == "_license" || variable.of == 0 {
                    continue;
                }
                let declaration = linked.object.btf.declaration(variable.of, name);
                let address = begin + variable.offset;
                let what = (variable.of, address, variable.bytes);
                dumping.line(&self.value_line(linked, &declaration, what));
            }
        }
    }

    /// `label = value`, in lines.
    fn value_line(
        &self,
        linked: &Linked,
        label: &str,
        (of, address, bytes): (u32, u64, u64),
    ) -> String {
        let label = format!("{label} = ");
        let memory = linked.machine.memory();
        let Some(bytes) = memory.bytes(address, bytes) else { return label + "?" };
        let name_of = |address: u64| {
            let task = self.visible.task_number(address)?;
            Some(self.tasks.label(task as TaskId))
        };
        let indent = label.len() - label.trim_start().len();
        let place = (label.len(), indent / 4);
        label.clone() + &linked.object.btf.value_text(of, bytes, place, &name_of)
    }

    fn dump_storage(&self, dumping: &mut Dumping, linked: &Linked, number: usize) {
        let (map, view) = (&linked.object.maps[number], self.policy.maps.view(number));
        let mut count = 0;
        for task in 0..self.tasks.len() as TaskId {
            let address = self.tasks.seen(task).storage[view.index as usize];
            if address == 0 {
                continue;
            }
            count += 1;
            if count <= LISTED_MAX {
                let label = format!("    [{}]", self.tasks.label(task));
                let what = (map.value_type, address, view.value_size.into());
                dumping.line(&self.value_line(linked, &label, what));
            }
        }
        dumping.lines(more(count));
    }

    /// Entries of any other map; those whose value is 0 are left out where all keys have one.
    fn dump_entries(&self, dumping: &mut Dumping, linked: &Linked, number: usize) {
        let (map, view) = (&linked.object.maps[number], self.policy.maps.view(number));
        for &(key, inner) in map.inner.iter().take(LISTED_MAX) {
            dumping.line(&format!("    [{key}] = {}", linked.object.maps[inner].name));
        }
        let (memory, bytes) = (linked.machine.memory(), u64::from(view.value_size));
        let nr_copies = if view.cpu_stride > 0 { self.cpus.len() as u64 } else { 1 };
        let mut count = 0;
        for (key, begin) in self.policy.maps.entries(number) {
            let key_text = key_text(&linked.object.btf, map.key_type, key);
            for cpu in 0..nr_copies {
                let address = begin + cpu * view.cpu_stride;
                if matches!(key, Key::Number(_)) && is_zero(memory, address, bytes) {
                    continue;
                }
                count += 1;
                if count > LISTED_MAX {
                    continue;
                }
                let of_cpu = if nr_copies > 1 { format!(" CPU {cpu}") } else { String::new() };
                let label = format!("    {key_text}{of_cpu}");
                dumping.line(&self.value_line(linked, &label, (map.value_type, address, bytes)));
            }
        }
        dumping.lines(more(count));
    }
}

fn is_zero(memory: &Memory, address: u64, bytes: u64) -> bool {
    memory.bytes(address, bytes).is_some_and(|bytes| bytes.iter().all(|&byte| byte == 0))
}

fn key_text(btf: &Btf, of: u32, key: Key<'_>) -> String {
    match key {
        Key::Number(number) => format!("[{number}]"),
        Key::Bytes(bytes) => format!("[{}]", btf.value_text(of, bytes, (0, 0), &|_| None)),
        Key::Next => "-".to_owned(),
    }
}
