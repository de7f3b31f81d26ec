//! Goal: the reference tells the truth. Method: its examples load, and what is shipped is in it.

#![allow(clippy::unwrap_used)]

use scenario::{load_machine, parse_machine, parse_workload, workload_parameters};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn reference(name: &str) -> String {
    std::fs::read_to_string(root().join("docs/reference").join(name)).unwrap()
}

fn shipped(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join(folder)).unwrap();
    entries.map(|entry| entry.unwrap().path()).filter(|p| p.extension().is_some()).collect()
}

fn stem(path: &Path) -> String {
    format!("`{}`", path.file_stem().unwrap().to_str().unwrap())
}

#[test]
fn every_shipped_machine_and_every_cost_is_in_the_reference() {
    let text = reference("machines.md");
    for path in shipped("machines") {
        assert!(text.contains(&stem(&path)), "{path:?}");
        load_machine(&path).unwrap();
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            let Some(cost) = line.strip_prefix("[costs.") else { continue };
            let cost = cost.trim_end_matches(']');
            assert!(text.contains(&format!("`{cost}`")), "{cost}");
        }
    }
}

#[test]
fn every_shipped_workload_and_its_parameters_are_in_the_reference() {
    let text = reference("workloads.md");
    for path in shipped("workloads") {
        let name = stem(&path);
        assert!(text.contains(&name), "{path:?}");
        for parameter in workload_parameters(&path).unwrap() {
            let row = text.lines().skip_while(|line| !line.starts_with(&format!("| {name} | `")));
            let rows: Vec<&str> = row
                .enumerate()
                .take_while(|(i, line)| *i == 0 || line.starts_with("| | "))
                .map(|(_, line)| line)
                .filter(|line| line.contains(&format!("`{}`", parameter.name)))
                .collect();
            assert_eq!(rows.len(), 1, "{name} {}", parameter.name);
            assert!(rows[0].contains(&parameter.default), "{name} {}: {rows:?}", parameter.name);
        }
    }
}

#[test]
fn the_example_workload_of_the_reference_loads() {
    let text = reference("workloads.md");
    let section = text.split("## The file").nth(1).unwrap();
    let example = section.split("```").nth(1).unwrap().strip_prefix("toml\n").unwrap();
    let workload = parse_workload("example.toml", example, &BTreeMap::new())
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(workload.initial.len(), 3);
}

#[test]
fn the_example_of_interrupts_and_speeds_loads() {
    let text = reference("machines.md");
    let section = text.split("## Interrupts and speeds").nth(1).unwrap();
    let example = section.split("```").nth(1).unwrap().strip_prefix("toml\n").unwrap();
    let laptop = std::fs::read_to_string(root().join("machines/laptop.toml")).unwrap();
    let machine = parse_machine("example.toml", &(laptop + "\n" + example));
    let machine = machine.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((machine.interrupts.len(), machine.speeds.len()), (1, 2));
}

#[test]
fn the_example_message_of_the_reference_is_one_of_the_tested_ones() {
    let text = reference("workloads.md");
    let message = text.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    let golden = include_str!("messages.txt").replace("\n=", "\n");
    assert!(golden.contains(message), "{message}");
}
