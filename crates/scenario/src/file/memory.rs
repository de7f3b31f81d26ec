//! What computing fetches from memory: `[memory]` of a workload's file.

use crate::file::costs::CACHE_KIB_MAX;
use crate::file::sourced::need_source;
use crate::model::error::ScenarioError;
use crate::model::text::quoted;
use crate::model::workload::Workload;
use crate::reading::{Node, TableNode};
use std::fmt::Write;

/// The most lines that a ms may fetch: one in 10 ns.
const LINES_PER_MS_MAX: u32 = 100_000;

/// Lines by the size of a cache, in the order of sizes.
pub(crate) fn read_memory(root: &TableNode) -> Result<Vec<(u32, u32)>, ScenarioError> {
    let Some(node) = root.get("memory")? else { return Ok(Vec::new()) };
    let table = node.table(&["source", "lines_per_ms"])?;
    need_source(&table)?;
    let hint = "write lines by the KiB of a cache: lines_per_ms = { 512 = 900, 2048 = 300 }";
    let lines = table.need("lines_per_ms", hint)?;
    let entries = lines.any_table()?.entries()?;
    let mut points = entries
        .into_iter()
        .map(|(size, node)| Ok((read_kib(size, &node)?, node)))
        .collect::<Result<Vec<(u32, Node)>, ScenarioError>>()?;
    points.sort_by_key(|point| point.0);
    if points.is_empty() {
        return Err(lines.bad("no size of a cache", hint));
    }
    let mut read: Vec<(u32, u32)> = Vec::new();
    for (kib, node) in points {
        let lines = node.unsigned_32(0, LINES_PER_MS_MAX)?;
        if let Some(&(smaller, fewer)) = read.last() {
            if smaller == kib {
                return Err(node.bad(format!("{kib} KiB are there twice"), "leave one of them out"));
            }
            if fewer < lines {
                let hint = format!("write {fewer} or less, which is what {smaller} KiB have");
                return Err(node.bad("more lines than with a smaller cache", hint));
            }
        }
        read.push((kib, lines));
    }
    Ok(read)
}

fn read_kib(size: &str, node: &Node) -> Result<u32, ScenarioError> {
    let kib = size.parse().ok().filter(|kib| (1..=CACHE_KIB_MAX as u32).contains(kib));
    kib.ok_or_else(|| {
        let hint = format!("write lines by KiB of cache, from 1 to {CACHE_KIB_MAX}: 2048 = 300");
        node.bad(format!("{size:?} is no size of a cache"), hint)
    })
}

pub(crate) fn write_memory(text: &mut String, workload: &Workload, source: &str) {
    if workload.lines_per_ms.is_empty() {
        return;
    }
    let lines = workload.lines_per_ms.iter().map(|(kib, lines)| format!("{kib} = {lines}"));
    let lines: Vec<String> = lines.collect();
    let source = quoted(&format!("assumed: {source}"));
    let _ =
        write!(text, "\n[memory]\nsource = {source}\nlines_per_ms = {{ {} }}\n", lines.join(", "));
}
