//! Goal: every entrant runs every workload, in the order that it promises.
//!
//! Method: short heats of all of them; the order is verified in each, against the red-black tree.
//! Nothing is said of how long anything takes.

use std::fs;
use std::path::PathBuf;

use race::{Heat, HeatSpec, Order, RaceError, WORKLOADS, Workload, entrants, heat};
use runqueue::hold::ALL_KEYS;

/// Sizes below, at and beyond the borders between an exact time ring's tiers.
const SIZES: [u32; 7] = [1, 2, 3, 7, 40, 130, 300];

fn short(workload: Workload, n: u32) -> HeatSpec {
    HeatSpec { rounds: 2, loops: Some(700), ..HeatSpec::new(workload, n) }
}

fn run(spec: &HeatSpec) -> Heat {
    heat(spec, &mut || true).unwrap_or_else(|error| panic!("{spec:?}: {error}"))
}

/// A trace with every operation, ties included, and the folder that it is in.
fn trace(items: u32) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("recorded.trace");
    let mut text = String::from("# all come, some leave\n");
    for item in 0..items {
        text += &format!("push {item} {}\n", 1_000_000 - u64::from(item / 2) * 5000);
    }
    // Keys fall and the even item of a pair came first, so the last pair leaves first.
    text += "pop\npop\n";
    text += &format!("remove 1\npush {} 7 # the very first\npop\n", items - 1);
    fs::write(&path, text).expect("written");
    (folder, path)
}

fn check(found: &Heat) {
    let spec = &found.spec;
    let mut hashes = Vec::new();
    for row in &found.rows {
        let who = format!("{} in {spec:?}", row.structure);
        if !row.left_out.is_empty() {
            assert!(row.ticks_per_loop.is_empty() && row.order_hash.is_none(), "{who}");
            continue;
        }
        assert_eq!(row.ticks_per_loop.len(), spec.rounds as usize, "{who}");
        assert!(row.ticks_per_loop.iter().all(|ticks| ticks.is_finite()), "{who}: {row:?}");
        assert!(row.bytes_per_item >= 16.0, "{who}: {row:?}");
        assert_eq!(row.order_hash.is_some(), row.exact, "{who}");
        let alone = matches!(spec.workload, Workload::Single | Workload::SingleRemove);
        assert_eq!(row.single.is_some(), alone, "{who}");
        let removal = row.single.and_then(|single| single.remove.zip(single.back));
        assert_eq!(removal.is_some(), spec.workload == Workload::SingleRemove, "{who}");
        hashes.extend(row.order_hash.clone());
    }
    assert!(hashes.len() > 10, "{spec:?}: {hashes:?}");
    assert!(hashes.iter().all(|hash| *hash == hashes[0]), "{spec:?}: {hashes:?}");
}

#[test]
fn every_entrant_runs_every_workload_at_every_small_size() {
    for workload in WORKLOADS {
        for n in SIZES {
            let mut spec = short(workload, n);
            let (_folder, path) = trace(n.max(4));
            match workload {
                Workload::Cold => spec.queues = 3,
                Workload::Trace => (spec.trace, spec.n) = (Some(path), None),
                _ => {}
            }
            check(&run(&spec));
        }
    }
}

#[test]
fn every_entrant_takes_all_keys() {
    for keys in ALL_KEYS {
        for workload in [Workload::HoldRemove, Workload::Markov, Workload::Storm, Workload::Drain] {
            check(&run(&HeatSpec { keys: keys.name().into(), ..short(workload, 150) }));
        }
    }
}

#[test]
fn who_does_not_take_part_says_why() {
    let why = |spec: &HeatSpec, structure: &str| {
        let rows = run(spec).rows;
        let row = rows.iter().find(|row| row.structure == structure);
        row.unwrap_or_else(|| panic!("{structure} is not in {spec:?}")).left_out.clone()
    };
    let few = |names: &[&str]| Some(names.iter().map(|&name| name.to_owned()).collect());
    let structures = few(&["rust_binary_heap", "fifo", "skip_list_muqss", "calendar_queue"]);
    let spec = HeatSpec { structures: structures.clone(), ..short(Workload::MassExit, 20) };
    assert_eq!(why(&spec, "rust_binary_heap"), "it cannot remove");
    let spec = HeatSpec { structures, ..short(Workload::Hold, 10_001) };
    assert!(why(&spec, "skip_list_muqss").contains("beyond 1000 items"));
    assert_eq!(why(&spec, "calendar_queue"), "");
    let ties = HeatSpec { keys: "ties".into(), ..spec };
    assert!(why(&ties, "calendar_queue").contains("more than 10000 items tie"));

    let alone =
        HeatSpec { structures: few(&["rust_binary_heap"]), ..short(Workload::MassExit, 20) };
    let error = heat(&alone, &mut || true).expect_err("nobody is left").to_string();
    assert!(error.contains("nobody") && error.contains("it cannot remove"), "{error}");
}

#[test]
fn a_heat_whose_core_is_never_its_own_ends_and_tells_so() {
    for order in [Order::Rotating, Order::Abcba] {
        let structures = Some(vec!["fifo".to_owned(), "red_black_tree".to_owned()]);
        // Slower than this is every core.
        let spec = HeatSpec { pace: Some(1e-9), order, structures, ..short(Workload::Single, 20) };
        let found = run(&spec);
        assert_eq!(found.spec.pace, Some(1e-9));
        for row in &found.rows {
            assert_eq!(row.disturbed, row.ticks_per_loop.len(), "{order:?}");
            assert!(row.single.is_some());
        }
    }
}

#[test]
fn a_heat_tells_what_was_chosen() {
    let spec = HeatSpec::from_json(r#"{"workload": "hold", "rounds": 1}"#).expect("a heat");
    let found = run(&spec);
    assert_eq!((found.spec.n, found.spec.loops), (Some(100), Some(20_000)));
    assert_eq!(found.spec.cpu, Some(found.cpu));
    let raced = found.rows.iter().filter(|row| row.left_out.is_empty());
    assert_eq!(found.spec.structures, Some(raced.map(|row| row.structure.clone()).collect()));
    assert_eq!(found.counters.available, found.counters.why_not.is_empty());
    assert_eq!(found.per, "loop");
    assert_eq!(found.rows.len(), entrants(&[]).expect("entrants").len());
    let (_folder, path) = trace(30);
    let spec = HeatSpec { n: None, trace: Some(path), ..short(Workload::Trace, 1) };
    assert_eq!(run(&spec).spec.n, Some(30));
}

#[test]
fn the_order_of_2007_gives_each_entrant_a_figure_a_round() {
    let names = ["gavl_tree_published", "red_black_tree", "time_ring"].map(str::to_owned);
    let structures = Some(names.to_vec());
    let spec = HeatSpec { order: Order::Abcba, structures, ..short(Workload::Hold, 100) };
    let rows = run(&spec).rows;
    assert_eq!(
        rows.iter().map(|row| &row.structure).collect::<Vec<_>>(),
        names.iter().collect::<Vec<_>>()
    );
    assert!(rows.iter().all(|row| row.ticks_per_loop.len() == 2));
}

#[test]
fn whoever_watches_can_stop_a_heat() {
    let mut asked = 0;
    // Twenty entrants get ready, the first round begins, and whoever asks next is told to stop.
    let mut watch = || {
        asked += 1;
        asked < 22
    };
    let found = heat(&short(Workload::Hold, 10), &mut watch);
    assert!(matches!(found, Err(RaceError::Stopped)), "{found:?}");
    assert_eq!(asked, 22);
}

#[test]
fn keys_may_go_round_and_round() {
    // A heat of one item gets 2^43 further a loop: more than once around all numbers.
    let names = ["rust_btree_map", "rust_binary_heap", "red_black_tree", "exact_time_ring"];
    let structures = Some(names.map(str::to_owned).to_vec());
    let spec = HeatSpec { structures, keys: "wide".into(), ..short(Workload::Hold, 1) };
    let found = run(&HeatSpec { loops: Some(1 << 20), rounds: 2, ..spec });
    assert_eq!(found.spec.loops, Some(1 << 20), "as many as were asked for");
    assert!(found.rows.iter().all(|row| row.ticks_per_loop.len() == 2));
    assert!(found.rows.iter().all(|row| row.order_hash == found.rows[0].order_hash));
}

#[test]
fn keys_of_a_trace_may_be_anywhere_and_nearly_2_to_the_62_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("far.trace");
    let mut text = String::new();
    let mut now = 0u64.wrapping_sub(1 << 61);
    for turn in 0..40 {
        let (first, far) = (now, now.wrapping_add((1 << 62) - 1));
        text += &format!("push 1 {far}\npush 2 {first}\npush 3 {}\n", far.wrapping_sub(turn));
        text += "pop\npop\npop\n";
        now = far;
    }
    fs::write(&path, text).expect("written");
    let spec = HeatSpec { n: None, trace: Some(path), ..short(Workload::Trace, 1) };
    check(&run(&spec));
}

#[test]
fn a_panic_in_a_heat_is_an_error_of_that_heat() {
    let spec = short(Workload::Hold, 10);
    let found = heat(&spec, &mut || panic!("nobody can go on"));
    assert!(matches!(found, Err(RaceError::BrokeOff { .. })), "{found:?}");
    assert!(found.expect_err("broken off").to_string().contains("nobody can go on"));
    check(&run(&spec));
}

#[test]
fn what_is_not_there_is_named() {
    let error = |spec: HeatSpec| heat(&spec, &mut || true).expect_err("wrong").to_string();
    let structures = Some(vec!["splay_tree".to_owned()]);
    let unknown = error(HeatSpec { structures, ..short(Workload::Hold, 10) });
    assert!(unknown.contains("splay_tree") && unknown.contains("pairing_heap"), "{unknown}");
    let none = error(short(Workload::Trace, 10));
    assert!(none.contains("needs a trace"), "{none}");
    let trace = Some(PathBuf::from("/nowhere/at.all"));
    let other = error(HeatSpec { trace: trace.clone(), ..short(Workload::Hold, 10) });
    assert!(other.contains("takes no trace: /nowhere/at.all"), "{other}");
    let missing = error(HeatSpec { trace, ..short(Workload::Trace, 10) });
    assert!(missing.contains("cannot read /nowhere/at.all"), "{missing}");
    let cpu = error(HeatSpec { cpu: Some(1000), ..short(Workload::Hold, 10) });
    assert!(cpu.contains("CPU 1000"), "{cpu}");
}
