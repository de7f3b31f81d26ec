//! What a policy knows: its variables and maps, as they are in this machine's memory.

use super::Dumping;
use crate::core::Core;
use crate::linked::Linked;
use crate::place::TaskId;
use bytecode::{Key, kind};
use policy::inside::{Entry, Label, Values, dsq_name, state_lines};
use std::borrow::Cow;

/// What a policy is called that has no name of its own.
const UNNAMED: &str = "policy";

impl Core<'_> {
    /// `ops.name`
    pub(super) fn policy_name(&self) -> String {
        let given = &self.policy.given;
        let name = given.object.tables[given.table].values.get("name");
        let bytes = name.map_or(&[][..], Vec::as_slice);
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        match &bytes[..end] {
            [] => UNNAMED.to_owned(),
            name => String::from_utf8_lossy(name).into_owned(),
        }
    }

    /// What the policy calls the number of a queue.
    pub(super) fn dsq_name(&self, id: u64) -> Option<String> {
        dsq_name(&self.policy.given.object, id)
    }

    pub(super) fn dump_policy(&self, dumping: &mut Dumping) {
        let Some(linked) = self.policy.code() else { return };
        dumping.lines(state_lines(&self.policy.given.object, &InMemory { core: self, linked }));
    }
}

struct InMemory<'a, 'run> {
    core: &'a Core<'run>,
    linked: &'a Linked,
}

impl InMemory<'_, '_> {
    fn bytes(&self, address: u64, bytes: u64) -> Option<Cow<'_, [u8]>> {
        self.linked.machine.memory().shown(address, bytes).map(Cow::Borrowed)
    }

    /// What is stored for tasks.
    fn stored(&self, map: usize) -> impl Iterator<Item = Entry<'_>> {
        let (core, view) = (self.core, self.core.policy.maps.view(map));
        (0..core.tasks.len() as TaskId).filter_map(move |task| {
            let address = core.tasks.seen(task).storage[view.index as usize];
            let label = || Label::Owner(core.tasks.label(task));
            let value = || self.bytes(address, view.value_size.into());
            (address != 0).then(|| Entry { label: label(), cpu: None, value: value() })
        })
    }
}

impl Values for InMemory<'_, '_> {
    fn variable(&self, section: usize, offset: u64, bytes: u64) -> Option<Cow<'_, [u8]>> {
        self.bytes(self.linked.data[section] + offset, bytes)
    }

    fn nr_entries(&self, map: usize) -> Option<u64> {
        self.core.policy.maps.nr_entries(map)
    }

    fn entries(&self, map: usize) -> Box<dyn Iterator<Item = Entry<'_>> + '_> {
        if self.core.policy.given.object.maps[map].kind == kind::TASK_STORAGE {
            return Box::new(self.stored(map));
        }
        let view = self.core.policy.maps.view(map);
        let (stride, bytes) = (view.cpu_stride, u64::from(view.value_size));
        let nr_copies = if stride > 0 { self.core.cpus.len() } else { 1 };
        let copies = move |(key, begin): (Key<'_>, u64)| {
            let label = match key {
                Key::Number(number) => Label::Number(number),
                Key::Bytes(bytes) => Label::Bytes(bytes.to_vec().into()),
                Key::Next => Label::Next,
            };
            (0..nr_copies).map(move |cpu| Entry {
                label: label.clone(),
                cpu: (nr_copies > 1).then_some(cpu),
                value: self.bytes(begin + cpu as u64 * stride, bytes),
            })
        };
        Box::new(self.core.policy.maps.entries(map).flat_map(copies))
    }

    fn name_of(&self, address: u64) -> Option<String> {
        let task = self.core.visible.task_number(address)?;
        Some(self.core.tasks.label(task as TaskId))
    }
}
