//! Objects of a policy's own types, and lists and trees of them. Source: Linux,
//! kernel/bpf/helpers.c.
//!
//! A tree is kept as its nodes in their order. A program that walks it from its root sees one whose
//! branches are as equal as can be, which a kernel's red-black tree is not.

use super::callbacks::call_back;
use super::{Calling, at, function, refused, run_queues};
use bytecode::{Stop, Touch, errno};
use std::cmp::Ordering;

/// Bytes of a list's head and of a tree's root, and of their nodes. Source: Linux,
/// include/uapi/linux/bpf.h.
const OWNER_BYTES: usize = 16;
const LIST_NODE_BYTES: usize = 24;
const TREE_NODE_BYTES: usize = 32;

fn nr_cpus(run: &Calling<'_, '_>) -> u64 {
    run.host.nr_cpu_ids().into()
}

/// The size of the object's own type with this number, of which a program makes one.
fn bytes_of(run: &Calling<'_, '_>, of: u64) -> Result<u64, Stop> {
    let object = &run.host.policy.given.object;
    let bytes = u32::try_from(of).ok().and_then(|of| object.btf.bytes_of(of).ok());
    let bytes = bytes.filter(|bytes| (1..=u64::from(u32::MAX)).contains(bytes));
    bytes.ok_or_else(|| refused(format!("{of} is given for a type and is none")))
}

fn made(run: &mut Calling<'_, '_>, of: u64, copies: Option<u64>) -> Result<u64, Stop> {
    let bytes = bytes_of(run, of)?;
    run.count(bytes.saturating_mul(copies.unwrap_or(1)) / 8)?;
    let (memory, kernel) = run.memory_and_host();
    Ok(kernel.policy.maps.new_object((memory, &mut kernel.visible.room), bytes, copies))
}

pub(super) fn new(run: &mut Calling<'_, '_>, [of, ..]: [u64; 5]) -> Result<u64, Stop> {
    made(run, of, None)
}

pub(super) fn new_per_cpu(run: &mut Calling<'_, '_>, [of, ..]: [u64; 5]) -> Result<u64, Stop> {
    let copies = nr_cpus(run);
    made(run, of, Some(copies))
}

fn no_object(address: u64) -> Stop {
    refused(format!("{address:#x} is given for an object of its own and is none"))
}

/// `bpf_obj_drop` and `bpf_percpu_obj_drop`
pub(super) fn give_up(run: &mut Calling<'_, '_>, [address, ..]: [u64; 5]) -> Result<u64, Stop> {
    let nr_cpus = nr_cpus(run);
    let dropped = run.host.policy.maps.drop_object(address, nr_cpus);
    dropped.map(|()| 0).ok_or_else(|| no_object(address))
}

pub(super) fn acquire(run: &mut Calling<'_, '_>, [address, ..]: [u64; 5]) -> Result<u64, Stop> {
    let held = run.host.policy.maps.hold_object(address);
    held.map(|()| address).ok_or_else(|| no_object(address))
}

/// `bpf_per_cpu_ptr`, of an object of the policy's or of a variable of the kernel's.
pub(super) fn of_cpu(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [address, cpu, ..] = given;
    let cpu = u64::from(cpu as u32);
    if address == 0 || cpu >= nr_cpus(run) {
        return Ok(0);
    }
    if let Some(own) = run_queues::variable(run, address, cpu as usize) {
        return Ok(own);
    }
    run.host.policy.maps.copy_of_cpu(address, cpu).ok_or_else(|| no_object(address))
}

pub(super) fn of_this_cpu(run: &mut Calling<'_, '_>, [address, ..]: [u64; 5]) -> Result<u64, Stop> {
    let cpu = run.host.here() as u64;
    of_cpu(run, [address, cpu, 0, 0, 0])
}

// ---- lists and trees ----------------------------------------------------------------------------

/// Refuses what is no list and no tree.
fn check_owner(run: &mut Calling<'_, '_>, owner: u64) -> Result<(), Stop> {
    at(run, owner, OWNER_BYTES, 8, Touch::Write).map(drop)
}

/// Adds a node in front of the one with this number, if there is such a place. Where there is not,
/// or if it is in a list or tree already, it stays as it is, and is held by one less.
fn link(
    run: &mut Calling<'_, '_>,
    [owner, node]: [u64; 2],
    bytes: usize,
    number: Option<usize>,
) -> Result<u64, Stop> {
    at(run, node, bytes, 8, Touch::Write)?;
    let object = run.host.policy.maps.object_with(node).ok_or_else(|| no_object(node))?;
    let link = |number| run.host.policy.maps.link(owner, node, number);
    let answer = number.map_or(-errno::EINVAL, link);
    if answer != 0 {
        give_up(run, [object, 0, 0, 0, 0])?;
    }
    Ok(answer as u64)
}

pub(super) fn push_front(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    check_owner(run, given[0])?;
    link(run, [given[0], given[1]], LIST_NODE_BYTES, Some(0))
}

pub(super) fn push_back(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    check_owner(run, given[0])?;
    let number = run.host.policy.maps.nr_linked(given[0]);
    link(run, [given[0], given[1]], LIST_NODE_BYTES, Some(number))
}

/// `bpf_list_add`: behind another node of the list.
pub(super) fn add_behind(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [list, node, before, ..] = given;
    check_owner(run, list)?;
    count_search(run, list)?;
    let before = run.host.policy.maps.number_of_linked(list, before);
    link(run, [list, node], LIST_NODE_BYTES, before.map(|number| number + 1))
}

/// Whether a node is that of a list which has the number that is made of how many there are.
pub(super) fn is_at(
    run: &mut Calling<'_, '_>,
    list: u64,
    node: u64,
    number: fn(usize) -> usize,
) -> Result<u64, Stop> {
    check_owner(run, list)?;
    let maps = &run.host.policy.maps;
    let nr = maps.nr_linked(list);
    Ok((nr > 0 && maps.linked(list, number(nr)) == node).into())
}

/// `bpf_list_empty`
pub(super) fn is_empty(run: &mut Calling<'_, '_>, [list, ..]: [u64; 5]) -> Result<u64, Stop> {
    check_owner(run, list)?;
    Ok((run.host.policy.maps.nr_linked(list) == 0).into())
}

/// The number of the last node of a list; 0 if it has none.
fn last(run: &Calling<'_, '_>, owner: u64) -> usize {
    run.host.policy.maps.nr_linked(owner).saturating_sub(1)
}

pub(super) fn pop_front(run: &mut Calling<'_, '_>, [owner, ..]: [u64; 5]) -> Result<u64, Stop> {
    check_owner(run, owner)?;
    Ok(run.host.policy.maps.unlink(owner, 0))
}

pub(super) fn pop_back(run: &mut Calling<'_, '_>, [owner, ..]: [u64; 5]) -> Result<u64, Stop> {
    check_owner(run, owner)?;
    let last = last(run, owner);
    Ok(run.host.policy.maps.unlink(owner, last))
}

/// `bpf_list_front` and `bpf_rbtree_first`
pub(super) fn first(run: &mut Calling<'_, '_>, [owner, ..]: [u64; 5]) -> Result<u64, Stop> {
    check_owner(run, owner)?;
    Ok(run.host.policy.maps.linked(owner, 0))
}

pub(super) fn back(run: &mut Calling<'_, '_>, [owner, ..]: [u64; 5]) -> Result<u64, Stop> {
    check_owner(run, owner)?;
    Ok(run.host.policy.maps.linked(owner, last(run, owner)))
}

/// `bpf_rbtree_add`: behind all that are not greater, which the program's function tells.
pub(super) fn add(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [root, node, less, ..] = given;
    check_owner(run, root)?;
    let less = function(run, less)?;
    let (mut begin, mut end) = (0, run.host.policy.maps.nr_linked(root));
    while begin < end {
        let middle = begin + (end - begin) / 2;
        let other = run.host.policy.maps.linked(root, middle);
        let is_less = call_back(run, less, [node, other, 0, 0, 0])? != 0;
        (begin, end) = if is_less { (begin, middle) } else { (middle + 1, end) };
    }
    link(run, [root, node], TREE_NODE_BYTES, Some(begin))
}

/// What it takes to find a node, here, among those of a list or tree.
fn count_search(run: &mut Calling<'_, '_>, root: u64) -> Result<(), Stop> {
    let nr = run.host.policy.maps.nr_linked(root);
    Ok(run.count(nr as u64 / 8)?)
}

/// `bpf_list_del` and `bpf_rbtree_remove`
pub(super) fn remove(run: &mut Calling<'_, '_>, given: [u64; 5]) -> Result<u64, Stop> {
    let [root, node, ..] = given;
    check_owner(run, root)?;
    count_search(run, root)?;
    let number = run.host.policy.maps.number_of_linked(root, node);
    Ok(number.map_or(0, |number| run.host.policy.maps.unlink(root, number)))
}

/// `bpf_rbtree_root`
pub(super) fn root(run: &mut Calling<'_, '_>, [root, ..]: [u64; 5]) -> Result<u64, Stop> {
    check_owner(run, root)?;
    let maps = &run.host.policy.maps;
    Ok(maps.linked(root, maps.nr_linked(root) / 2))
}

/// `bpf_rbtree_left` and `bpf_rbtree_right`: the middle of the nodes below this one, on a side.
pub(super) fn below(
    run: &mut Calling<'_, '_>,
    given: [u64; 5],
    side: Ordering,
) -> Result<u64, Stop> {
    let [root, node, ..] = given;
    check_owner(run, root)?;
    count_search(run, root)?;
    let maps = &run.host.policy.maps;
    let Some(number) = maps.number_of_linked(root, node) else { return Ok(0) };
    let (mut begin, mut end) = (0, maps.nr_linked(root));
    loop {
        let middle = begin + (end - begin) / 2;
        // On the way down from the root as far as the node, then one step to its side.
        match if middle == number { side } else { number.cmp(&middle) } {
            Ordering::Less => end = middle,
            _ => begin = middle + 1,
        }
        if middle == number {
            let middle = begin + (end - begin) / 2;
            return Ok(if begin < end { maps.linked(root, middle) } else { 0 });
        }
    }
}
