//! Goal: anybody's queue takes part, and one that is not what it says is refused.
//!
//! Method: lists in C, some of them wrong, built and loaded as a user's would be.

use std::fs;
use std::path::{Path, PathBuf};

use race::{Heat, HeatSpec, RaceError, Workload, entrants, heat, plugin};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/plugins/sorted_lists.c");
const INCLUDE_DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/include");

fn compile(source: &Path, cache_dir: &Path) -> Result<PathBuf, RaceError> {
    plugin::compile(source, Path::new(INCLUDE_DIR), cache_dir, &mut || true)
}

/// The lists, and the folder that they are in.
fn lists() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let object = compile(Path::new(SOURCE), folder.path()).expect("a plug-in");
    (folder, object)
}

/// A plug-in of this text.
fn built(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("other.c");
    fs::write(&source, text).expect("written");
    let object = compile(&source, folder.path()).expect("a plug-in");
    (folder, object)
}

fn race(object: &Path, names: &[&str], workload: Workload, keys: &str) -> Result<Heat, RaceError> {
    let spec = HeatSpec {
        keys: keys.to_owned(),
        rounds: 2,
        loops: Some(300),
        structures: Some(names.iter().map(|&name| name.to_owned()).collect()),
        plugins: vec![object.to_owned()],
        ..HeatSpec::new(workload, 50)
    };
    heat(&spec, &mut || true)
}

#[test]
fn a_queue_in_c_runs_all_workloads_in_the_order_of_the_others() {
    let (_folder, object) = lists();
    for workload in race::WORKLOADS.into_iter().filter(|&workload| workload != Workload::Trace) {
        for keys in ["uniform", "ties", "weighted"] {
            let found = race(&object, &["fifo_ties", "red_black_tree"], workload, keys);
            let rows = found.unwrap_or_else(|error| panic!("{workload:?}: {error}")).rows;
            assert_eq!(rows[0].order_hash, rows[1].order_hash);
            assert_eq!(rows[0].source, "plugin:sorted_lists.c");
            assert_eq!(rows[0].ticks_per_loop.len(), 2);
            assert!((16.0..18.0).contains(&rows[0].bytes_per_item), "{}", rows[0].bytes_per_item);
        }
    }
}

#[test]
fn a_queue_with_another_order_is_refused_with_both_names() {
    let (_folder, object) = lists();
    let error = race(&object, &["lifo_ties"], Workload::Hold, "ties").expect_err("wrong ties");
    assert!(matches!(error, RaceError::Order { .. }), "{error}");
    let said = error.to_string();
    assert!(said.contains("lifo_ties (plugin:sorted_lists.c)"), "{said}");
    assert!(said.contains("red_black_tree do not give the same order"), "{said}");
    // Who says that it is not exact may.
    let found = race(&object, &["lifo_ties_inexact"], Workload::Hold, "ties").expect("a heat");
    assert_eq!(found.rows[0].order_hash, None);
}

#[test]
fn keys_that_are_compared_without_wrapping_are_seen() {
    let source = fs::read_to_string(SOURCE).expect("the lists");
    let right = "(int64_t)(list->nodes[*place].key - key) <= margin";
    assert_eq!(source.matches(right).count(), 1, "what is broken here");
    for wrong in
        ["list->nodes[*place].key <= key", "(int64_t)list->nodes[*place].key <= (int64_t)key"]
    {
        let (_folder, object) = built(&source.replace(right, wrong));
        let error = race(&object, &["fifo_ties"], Workload::Hold, "uniform").expect_err(wrong);
        assert!(matches!(error, RaceError::Order { .. }), "{wrong}: {error}");
    }
}

#[test]
fn what_only_a_queues_own_loop_does_wrong_is_seen_too() {
    let (_folder, object) = lists();
    let error = race(&object, &["wrong_loop"], Workload::Hold, "uniform").expect_err("a lost step");
    assert!(matches!(error, RaceError::Order { pop: 10_001.., .. }), "{error}");
}

#[test]
fn an_item_that_nobody_pushed_is_seen() {
    let (_folder, object) = lists();
    let error = race(&object, &["any_item"], Workload::Hold, "uniform").expect_err("no item");
    assert!(error.to_string().contains("pop 1 was item 4294967295"), "{error}");
}

#[test]
fn who_is_not_exact_keeps_all_items_or_is_refused() {
    let (_folder, object) = lists();
    for (name, problem) in [
        ("gives_nothing", "a pop gave nothing while 50 items were queued"),
        ("gives_twice", "which was not queued"),
        ("gives_any", "a pop gave item 4294967295, which nobody pushed"),
        ("loses_at_last", "a pop gave nothing while 1 items were queued"),
    ] {
        for workload in [Workload::Hold, Workload::HoldRemove, Workload::Drain] {
            let error = race(&object, &[name], workload, "uniform").expect_err(name);
            assert!(matches!(error, RaceError::Items { .. }), "{error}");
            let said = error.to_string();
            assert!(said.contains(name) && said.contains(problem), "{said}");
        }
    }
}

#[test]
fn who_does_less_once_it_is_timed_is_seen() {
    let source = fs::read_to_string(SOURCE).expect("the lists");
    let (pop, hold) = ("static int64_t pop(void *queue)\n{\n", "\t(void)slowness;\n");
    assert!(source.contains(pop) && source.contains(hold));
    // Verifying takes some 50,000 pops and warming up 20,000; four calls of a loop come first.
    let tired = "static unsigned int pops;\nif (++pops > 70500) return -1;\n";
    let early = "static unsigned int calls;\nif (++calls > 3) loops /= 2;\n";
    let lists = source.replace(pop, &format!("{pop}{tired}"));
    let loops = source
        .replace(hold, &format!("{hold}{early}"))
        .replace("round + 1 < end", "round < end")
        .replace(".name = \"wrong_loop\",\n\t.exact = 1", ".name = \"wrong_loop\",\n\t.exact = 0");
    // The sum of keys that grow by weights says nothing, but all items must be there.
    let gone = "a pop gave nothing while 50 items were queued";
    for (text, name, keys, problem) in [
        (&lists, "lifo_ties_inexact", "uniform", "its keys grew by "),
        (&lists, "lifo_ties_inexact", "weighted", gone),
        (&loops, "wrong_loop", "uniform", "its keys grew by "),
    ] {
        let (_folder, object) = built(text);
        let error = race(&object, &[name], Workload::Hold, keys).expect_err(name);
        assert!(matches!(error, RaceError::Items { .. }), "{error}");
        let said = error.to_string();
        assert!(said.contains("after the race, ") && said.contains(problem), "{said}");
    }
}

#[test]
fn a_name_that_would_break_a_table_is_refused() {
    let source = fs::read_to_string(SOURCE).expect("the lists");
    let long = "q".repeat(41);
    for name in ["a\\nb", "<b>bold</b>", "", "two words", "[red]", &long] {
        let text = source.replace("\"fifo_ties\"", &format!("\"{name}\""));
        let (_folder, object) = built(&text);
        let error = entrants(&[object]).expect_err(name).to_string();
        assert!(error.starts_with("other.c is no plug-in of the race: its queue \""), "{error}");
        assert!(error.contains("no table can show") && error.lines().count() == 2, "{error}");
    }
}

#[test]
fn who_cannot_remove_stays_away_from_removals() {
    let (_folder, object) = lists();
    let found = race(&object, &["cannot_remove", "fifo_ties"], Workload::HoldRemove, "uniform");
    let rows = found.expect("a heat").rows;
    assert_eq!(
        (rows[1].structure.as_str(), rows[1].left_out.as_str()),
        ("cannot_remove", "it cannot remove")
    );
    assert!(race(&object, &["cannot_remove"], Workload::Hold, "uniform").is_ok());
}

#[test]
fn the_same_text_is_built_once_and_another_one_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("lists.c");
    let text = fs::read_to_string(SOURCE).expect("the lists");
    let build = |text: &str| {
        fs::write(&source, text).expect("written");
        compile(&source, folder.path()).expect("a plug-in")
    };
    let first = build(&text);
    let built = fs::metadata(&first).and_then(|data| data.modified()).expect("a time");
    assert_eq!(build(&format!("/* a remark */ {text}")), first);
    assert_eq!(fs::metadata(&first).and_then(|data| data.modified()).expect("a time"), built);
    assert_ne!(build(&text.replace("fifo_ties", "other_ties")), first);
}

#[test]
fn what_is_no_plugin_is_refused_in_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let broken = folder.path().join("broken.cpp");
    fs::write(&broken, "int f() { return nothing_of_this_name; }").expect("written");
    let error = compile(&broken, folder.path()).expect_err("no C++").to_string();
    assert!(error.contains("broken.cpp does not compile with"), "{error}");
    assert!(error.contains("nothing_of_this_name"), "{error}");
    let error = compile(Path::new("queue.rs"), folder.path()).expect_err("no C").to_string();
    assert!(error.contains("queue.rs is no source") && error.contains(".cpp"), "{error}");
    let error = compile(Path::new("/nowhere/queue.c"), folder.path()).expect_err("no file");
    assert!(error.to_string().contains("cannot read /nowhere/queue.c"), "{error}");

    let refused = |object: &Path| entrants(&[object.to_owned()]).expect_err("refused").to_string();
    assert!(refused(Path::new("/nowhere/queue.so")).contains("cannot read /nowhere/queue.so"));
    assert!(refused(Path::new(SOURCE)).contains("is no plug-in of the race"));
    let (_zero, object) = built("int nowhere(void); int f(void) { return nowhere(); }");
    assert!(refused(&object).contains("undefined symbol: nowhere"), "{}", refused(&object));
    let (_one, object) = built("int something;");
    assert!(refused(&object).contains("does not export schedlab_race_abi"));
    let list = "const void *const schedlab_race_queues[] = {0};";
    let (_two, object) = built(&format!("const unsigned schedlab_race_abi = 7; {list}"));
    assert!(refused(&object).contains("version 7 of the interface, and this is 1"));
    let (_three, object) = built(&format!("const unsigned schedlab_race_abi = 1; {list}"));
    assert!(refused(&object).contains("0 queues"));
    let text = fs::read_to_string(SOURCE).expect("the lists");
    let (_four, object) =
        built(&text.replace("push_fifo, pop, remove_item", "push_fifo, pop, NULL"));
    assert!(refused(&object).contains("fifo_ties has no remove, but says can_remove = 1"));
    let (_five, object) = built(&text.replace("\"fifo_ties\"", "\"gavl_tree\""));
    let twice = refused(&object);
    assert!(twice.contains("both called gavl_tree") && twice.contains("plugin:other.c"), "{twice}");
}

#[test]
fn a_plugin_without_memory_says_so() {
    let text = fs::read_to_string(SOURCE).expect("the lists");
    let (_folder, object) = built(&text.replace("calloc(1,", "calloc(UINT64_MAX,"));
    let error = race(&object, &["fifo_ties"], Workload::Hold, "uniform").expect_err("no memory");
    assert!(error.to_string().contains("fifo_ties has no memory for 50 items"), "{error}");
}
