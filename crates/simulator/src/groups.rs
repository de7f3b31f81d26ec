//! Groups of tasks: the tree that a workload declares, as a policy sees it, and what each says.

use crate::abi::{self, GROUPS_ABOVE_MAX, Group, GroupInit, GroupNode, GroupState, GroupView};
use crate::place::TaskId;
use crate::visible::{Placed, Visible};
use scenario::check::{CGROUP_WEIGHT_DEFAULT, PERIOD_NS_DEFAULT};
use scenario::workload::{Cgroup, GroupFile, Workload};
use std::collections::{BTreeMap, VecDeque};

/// A group's number: its place in pre-order, in which each is before those below it.
pub type GroupId = usize;

/// The group that is above all others.
pub const ROOT: GroupId = 0;
/// `BPF_CGROUP_ITER_DESCENDANTS_PRE`
pub const WALK_DOWN: u64 = 2;
/// `BPF_CGROUP_ITER_DESCENDANTS_POST`
pub const WALK_BACK: u64 = 3;
/// `BPF_CGROUP_ITER_ANCESTORS_UP`
pub const WALK_UP: u64 = 4;
/// `RUNTIME_INF`
const NO_QUOTA_US: u64 = u64::MAX;

/// All groups of a run.
pub struct Groups {
    known: Vec<Placed<GroupView>>,
    /// What stands for each in calls, in increasing order.
    shown: Vec<u64>,
    /// What each says; the root says nothing.
    said: Vec<Option<Cgroup>>,
    /// Groups below each, and itself: in pre-order they follow it.
    sizes: Vec<usize>,
    /// Numbers in post-order, in which each is behind those below it.
    post: Vec<GroupId>,
    /// The number of each that the workload declares, in its order.
    declared: Vec<GroupId>,
    /// What `cgroup_init` is given.
    init: Placed<GroupInit>,
    /// So many of them, from the first, the policy has been told of.
    nr_initialised: usize,
    /// Tasks that are on their way, all of one process.
    moving: BTreeMap<TaskId, Move>,
    /// The task that asked for the move of those, unless it came from outside.
    writer: Option<TaskId>,
    /// How many moves of processes have begun: the number of the present one.
    nr_begun: u32,
    /// What else is to move.
    waiting: VecDeque<Asked>,
}

/// A process that is to move.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// A task of it.
    pub task: TaskId,
    /// Where it goes.
    pub to: GroupId,
    /// The task that asks, unless it comes from outside.
    pub writer: Option<TaskId>,
}

/// A task that the policy has let go to another group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Who goes.
    pub task: TaskId,
    /// The group that it is in.
    pub from: GroupId,
    /// The group that it will be in.
    pub to: GroupId,
}

/// The groups of a workload in pre-order and in post-order, by their places in it; `None` is the
/// root.
#[derive(Default)]
struct Orders {
    pre: Vec<Option<usize>>,
    sizes: Vec<usize>,
    post: Vec<GroupId>,
}

impl Orders {
    fn walk(&mut self, group: Option<usize>, declared: &[Cgroup]) {
        let number = self.pre.len();
        self.pre.push(group);
        self.sizes.push(0);
        let path = group.map_or("", |at| &declared[at].path);
        for (below, _) in declared.iter().enumerate().filter(|(_, one)| one.place().0 == path) {
            self.walk(Some(below), declared);
        }
        self.sizes[number] = self.pre.len() - number;
        self.post.push(number);
    }
}

impl Groups {
    /// Those that a workload declares, and the root.
    pub fn new(visible: &mut Visible, workload: &Workload) -> Groups {
        let declared = &workload.cgroups;
        let mut orders = Orders::default();
        orders.walk(None, declared);
        let mut groups = Groups {
            known: Vec::new(),
            shown: Vec::new(),
            said: orders.pre.iter().map(|at| at.map(|at| declared[at].clone())).collect(),
            sizes: orders.sizes,
            post: orders.post,
            declared: vec![ROOT; declared.len()],
            init: visible.place(GroupInit::default()),
            nr_initialised: 0,
            moving: BTreeMap::new(),
            writer: None,
            nr_begun: 0,
            waiting: VecDeque::new(),
        };
        for (number, &at) in orders.pre.iter().enumerate() {
            if let Some(at) = at {
                groups.declared[at] = number;
            }
            groups.add(visible, at, at.map_or(("", ""), |at| declared[at].place()), declared);
        }
        groups
    }

    /// Adds the next one in pre-order.
    fn add(
        &mut self,
        visible: &mut Visible,
        at: Option<usize>,
        (above, name): (&str, &str),
        declared: &[Cgroup],
    ) {
        let name = visible.copy_name(name).unwrap_or(0);
        let name = std::ptr::without_provenance(name as usize);
        // As in a kernel the root is 1, and the others are numbered as they are made.
        let id = at.map_or(1, |at| at as u64 + 2);
        let mut view =
            visible.place(GroupView { group: Group::default(), node: GroupNode { id, name } });
        let shift = visible.room.shift;
        let itself: *mut Group = shift.show(view.address().cast());
        let mut ancestors = [std::ptr::null_mut(); GROUPS_ABOVE_MAX];
        let mut level = 0;
        let mut parent = std::ptr::null_mut();
        if at.is_some() {
            let parents = declared.iter().position(|one| one.path == above);
            let of = parents.map_or(ROOT, |at| self.declared[at]);
            ancestors = self.known[of].group.ancestors;
            level = self.known[of].group.level + 1;
            parent = shift.show(self.known[of].address().cast::<GroupState>());
        }
        ancestors[level as usize] = itself;
        let node = shift.show(&raw mut view.node);
        view.group = Group {
            css: GroupState { cgroup: itself, parent },
            kn: node,
            level,
            ancestors,
            ..Group::default()
        };
        self.shown.push(visible.room.address(view.address()));
        self.known.push(view);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// So many of them, from the first, have been told to the policy (`SCX_TG_INITED`).
    pub fn set_nr_initialised(&mut self, nr: usize) {
        self.nr_initialised = nr;
    }

    /// Whether the policy has been told of a group.
    pub fn is_initialised(&self, group: GroupId) -> bool {
        group < self.nr_initialised
    }

    /// What stands for a group where the policy finds it.
    pub fn seen(&self, group: GroupId) -> *mut Group {
        self.known[group].group.css.cgroup
    }

    /// What stands for a group in calls.
    pub fn shown(&self, group: GroupId) -> u64 {
        self.shown[group]
    }

    /// The group that the workload declares at this place.
    pub fn declared(&self, at: u32) -> GroupId {
        self.declared[at as usize]
    }

    /// The group at an address that the policy gave.
    pub fn at(&self, shown: u64) -> Option<GroupId> {
        self.shown.binary_search(&shown).ok()
    }

    /// The group with this id.
    pub fn of_id(&self, id: u64) -> Option<GroupId> {
        match id.checked_sub(2) {
            None => (id == 1).then_some(ROOT),
            Some(at) => self.declared.get(usize::try_from(at).ok()?).copied(),
        }
    }

    /// A group's id.
    pub fn id(&self, group: GroupId) -> u64 {
        self.known[group].node.id
    }

    /// How many groups are above one.
    pub fn level(&self, group: GroupId) -> i32 {
        self.known[group].group.level
    }

    /// The group at a level above a group, or itself.
    pub fn ancestor(&self, group: GroupId, level: i32) -> Option<GroupId> {
        let of = &self.known[group].group;
        let level = usize::try_from(level).ok().filter(|&level| level <= of.level as usize)?;
        self.at(of.ancestors[level].addr() as u64)
    }

    /// What comes behind a group in a walk that began at `start`, or first; `None` at its end.
    pub fn next(&self, start: GroupId, last: Option<GroupId>, order: u64) -> Option<GroupId> {
        // Of those that are before a group in one order and behind it in the other, which are those
        // above it, there are as many as its level.
        let place = |group: GroupId| group + self.sizes[group] - 1 - self.level(group) as usize;
        match order {
            WALK_DOWN => {
                let next = last.map_or(start, |last| last + 1);
                (start..start + self.sizes[start]).contains(&next).then_some(next)
            }
            WALK_BACK => {
                let end = place(start) + 1;
                let next = last.map_or(end - self.sizes[start], |last| place(last) + 1);
                (next < end).then(|| self.post[next])
            }
            WALK_UP => match last {
                None => Some(start),
                Some(last) => self.ancestor(last, self.level(last) - 1),
            },
            _ => None,
        }
    }

    /// Numbers in the order in which groups end.
    pub fn post(&self) -> Vec<GroupId> {
        self.post.clone()
    }

    /// Lets a group say other things from now on; what is written for that, and what `cgroup_init`
    /// would be told after each.
    pub fn set(&mut self, group: GroupId, now: &Cgroup) -> Vec<(GroupFile, GroupInit)> {
        let before = self.said[group].replace(now.clone());
        let steps = before.iter().flat_map(|before| before.steps_to(now));
        steps.map(|(file, after)| (file, init_of(Some(&after)))).collect()
    }

    /// Puts what `cgroup_init` is told of a group where it is given; that address.
    pub fn tell(&mut self, group: GroupId) -> *mut GroupInit {
        *self.init = init_of(self.said[group].as_ref());
        self.init.address()
    }

    // ---- moves ------------------------------------------------------------------------------

    /// Asks for a move, which comes when those before it are over.
    pub fn ask_for_move(&mut self, asked: Asked) {
        self.waiting.push_back(asked);
    }

    /// The next move that was asked for, which begins (`cgroup_mutex`).
    pub fn next_move(&mut self) -> Option<Asked> {
        let asked = self.waiting.pop_front()?;
        self.nr_begun += 1;
        self.writer = asked.writer;
        Some(asked)
    }

    /// Whether somebody is on the way.
    pub fn is_moving(&self) -> bool {
        !self.moving.is_empty()
    }

    /// The number of the move that began last.
    pub fn move_number(&self) -> u32 {
        self.nr_begun
    }

    /// Who asked for the move that began last, which is over.
    pub fn take_writer(&mut self) -> Option<TaskId> {
        self.writer.take()
    }

    /// A task is on its way.
    pub fn begin_move(&mut self, begun: Move) {
        self.moving.insert(begun.task, begun);
    }

    /// A task is on its way no more, if it was.
    pub fn end_move(&mut self, task: TaskId) -> Option<Move> {
        self.moving.remove(&task)
    }

    /// The first task that is on its way.
    pub fn first_moving(&self) -> Option<TaskId> {
        self.moving.first_key_value().map(|(&task, _)| task)
    }

    /// Values that maps have for a group.
    pub fn storage(&mut self, group: GroupId) -> &mut [u64; abi::STORAGE_MAX] {
        &mut self.known[group].group.storage
    }
}

/// What a policy is told of a group; `None` is the root. Source: Linux, kernel/sched/ext.c,
/// `scx_tg_init`.
fn init_of(group: Option<&Cgroup>) -> GroupInit {
    GroupInit {
        weight: group.map_or(CGROUP_WEIGHT_DEFAULT, |group| group.weight),
        bw_period_us: group.map_or(PERIOD_NS_DEFAULT, |group| group.period_ns) / 1000,
        bw_quota_us: group.and_then(|one| one.quota_ns).map_or(NO_QUOTA_US, |ns| ns / 1000),
        bw_burst_us: group.map_or(0, |group| group.burst_ns) / 1000,
        sched_idle: group.is_some_and(|group| group.idle),
    }
}
