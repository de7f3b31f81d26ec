//! Goal: a file of tunable sets gives exactly its values, and one that is wrong says what to mend.
//! Method: files beside a policy that has every kind of tunable.

#![allow(clippy::unwrap_used)]

use std::fs;

use crate::workshop::{EVERYTHING, Workshop, settings};
use policy::{Policy, PolicyError};

/// The policy with `text` as its file of sets.
fn with_sets(text: &str) -> Result<Policy, PolicyError> {
    let workshop = Workshop::new();
    fs::write(workshop.path().join("everything.sets.toml"), text).unwrap();
    workshop.build("everything", EVERYTHING)
}

/// A file with one set that has these lines below `[set.tunables]`.
fn file_with(tunables: &str) -> String {
    format!(
        "[[set]]\nname = \"1.0\"\ndescription = \"the first\"\nsource = \"a book\"\n\
         [set.tunables]\n{tunables}\n"
    )
}

/// What the policy's author is told, without the folder of the file.
fn complaint(text: &str) -> String {
    let error = with_sets(text).unwrap_err();
    assert!(matches!(error, PolicyError::Sets { .. }), "{error}");
    let error = error.to_string();
    let (folder, said) = error.split_once("everything.sets.toml: ").unwrap();
    assert!(folder.contains("policy test"), "{folder}");
    said.to_owned()
}

#[test]
fn a_policy_without_the_file_has_no_sets() {
    let policy = Workshop::new().build("everything", EVERYTHING).unwrap();
    assert_eq!(policy.sets, []);
    assert_eq!(
        policy.set("1.0").unwrap_err().to_string(),
        "policy everything has no tunable set 1.0: it has none at all"
    );
}

#[test]
fn sets_come_in_the_order_of_the_file_with_all_that_it_says() {
    let second = file_with("slice_ns = 1").replace("1.0", "0.9-rc_1+x");
    let policy = with_sets(&(file_with("slice_ns = 2") + &second)).unwrap();
    let names: Vec<_> = policy.sets.iter().map(|set| set.name.as_str()).collect();
    assert_eq!(names, ["1.0", "0.9-rc_1+x"]);
    let set = policy.set("1.0").unwrap();
    assert_eq!((set.description.as_str(), set.source.as_str()), ("the first", "a book"));
    assert_eq!(set.values, settings(&[("slice_ns", 2)]));
    assert_eq!(
        policy.set("1.1").unwrap_err().to_string(),
        "policy everything has no tunable set 1.1; did you mean 1.0?\nhint: it has 1.0, 0.9-rc_1+x"
    );
}

#[test]
fn a_file_may_say_which_set_the_name_alone_means() {
    let two = file_with("slice_ns = 2") + &file_with("slice_ns = 1").replace("1.0", "0.9");
    let meant = |text: &str| -> Vec<bool> {
        with_sets(text).unwrap().sets.iter().map(|set| set.is_plain).collect()
    };
    assert_eq!(meant(&two), [false, false]);
    assert_eq!(meant(&format!("plain = \"0.9\"\n{two}")), [false, true]);
    assert_eq!(
        complaint(&format!("plain = \"0.8\"\n{two}")),
        "plain = \"0.8\" is no set of this file\n\
         hint: name one that stands below it, or leave the line out"
    );
}

#[test]
fn a_value_is_a_number_a_truth_value_or_a_time_in_the_tunables_own_unit() {
    for (value, number) in [
        ("20_000_000", 20_000_000),
        ("\"20ms\"", 20_000_000),
        ("\"750us\"", 750_000),
        ("\"7 ns\"", 7),
        ("\"2s\"", 2_000_000_000),
        ("true", 1),
        ("false", 0),
    ] {
        let policy = with_sets(&file_with(&format!("slice_ns = {value}"))).unwrap();
        assert_eq!(policy.sets[0].values, settings(&[("slice_ns", number)]), "{value}");
    }
    let in_us = EVERYTHING.replace("slice_ns", "slice_us");
    let workshop = Workshop::new();
    let path = workshop.path().join("everything.sets.toml");
    fs::write(&path, file_with("slice_us = \"3ms\"")).unwrap();
    let policy = workshop.build("everything", &in_us).unwrap();
    assert_eq!(policy.sets[0].values, settings(&[("slice_us", 3_000)]));
    fs::write(&path, file_with("slice_us = \"3ns\"")).unwrap();
    let error = workshop.build("everything", &in_us).unwrap_err().to_string();
    assert!(error.contains("slice_us = \"3ns\" is no value"), "{error}");
}

#[test]
fn a_tunable_that_is_not_there_is_answered_with_the_nearest_and_all() {
    assert_eq!(
        complaint(&file_with("slice_us = 1")),
        "set 1.0: policy everything has no tunable slice_us; did you mean slice_ns?\n\
         hint: it has slice_ns, bias, fair, small, mode, forever_ns"
    );
}

#[test]
fn a_value_that_the_tunable_cannot_have_is_refused() {
    assert_eq!(
        complaint(&file_with("small = 256")),
        "set 1.0: small = 256 is outside what u8 can hold (0 to 255)"
    );
    let hint = "hint: write a whole number, true, false, or a time such as \"20ms\" or \"750us\"";
    for value in ["0.5", "\"fast\"", "\"0.75ms\"", "\"ms\"", "[1]", "\"99999999999s\""] {
        let said = complaint(&file_with(&format!("slice_ns = {value}")));
        assert_eq!(said, format!("set 1.0: slice_ns = {value} is no value\n{hint}"));
    }
}

#[test]
fn a_file_that_leaves_something_out_or_says_too_much_is_refused() {
    let sound = file_with("slice_ns = 1");
    for (text, said) in [
        (sound.replace("1.0", "kernel"), "no set can be named kernel\nhint: everything@kernel is"),
        (sound.replace("1.0", "a b"), "\"a b\" is no name of a set\nhint: begin with a letter"),
        (sound.replace("1.0", "-1"), "\"-1\" is no name of a set\nhint: begin with a letter"),
        (sound.replace("name = \"1.0\"\n", ""), "set 1 of the file does not say its name\nhint: "),
        (sound.replace("a book", " "), "set 1.0 does not say its source\nhint: write source = "),
        (
            sound.replace("source", "sourc"),
            "set 1.0 has an unknown key sourc; did you mean source?",
        ),
        (sound.replace("slice_ns = 1", ""), "set 1.0 has no tunables\nhint: write NAME = VALUE"),
        (sound.replace("[[set]]", "[[sets]]"), "the file has an unknown key sets; did you mean se"),
        (sound.repeat(2), "set 1.0 stands there twice"),
        (String::new(), "has no set\nhint: begin each with a line [[set]]"),
        ("[set]\n".to_owned(), "has no set\nhint: begin each with a line [[set]]"),
        ("[[set]\n".to_owned(), "is not TOML: "),
    ] {
        let found = complaint(&text);
        assert!(found.starts_with(said), "{found}");
    }
}

#[test]
fn a_file_may_stand_for_that_of_a_policy_with_the_same_tunables() {
    let workshop = Workshop::new();
    let path = |policy: &str| workshop.path().join(format!("{policy}.sets.toml"));
    let build = || workshop.build("everything", EVERYTHING);
    fs::write(path("everything"), "same_as = \"original\"\n").unwrap();
    assert!(build().unwrap_err().to_string().ends_with(
        "everything.sets.toml: same_as = \"original\", and there is no original.sets.toml beside \
         it\nhint: name the policy whose sets these are"
    ));
    fs::write(path("original"), file_with("slice_ns = 7")).unwrap();
    let policy = build().unwrap();
    assert_eq!(policy.set("1.0").unwrap().values, settings(&[("slice_ns", 7)]));
    // What is wrong there is said to be there, and of this policy.
    fs::write(path("original"), file_with("turn_ns = 7")).unwrap();
    let said = build().unwrap_err().to_string();
    let wrong = "original.sets.toml: set 1.0: policy everything has no tunable turn_ns";
    assert!(said.contains(wrong), "{said}");
    // One step, not a chain.
    fs::write(path("original"), "same_as = \"everything\"\n").unwrap();
    let said = build().unwrap_err().to_string();
    assert!(said.contains("original.sets.toml: the file has an unknown key same_as"), "{said}");
}

#[test]
fn a_file_that_stands_for_another_says_nothing_else() {
    for (text, said) in [
        ("same_as = \"cfs\"\nname = \"x\"\n", "a file that is the same as another has an unknown"),
        ("same_as = 1\n", "same_as = 1 is no name of a policy\nhint: name one of this folder"),
        ("same_as = \"\"\n", "same_as = \"\" is no name of a policy\nhint: name one of this fold"),
        ("same_as = \"../cfs\"\n", "same_as = \"../cfs\" is no name of a policy\nhint: name one"),
    ] {
        let found = complaint(text);
        assert!(found.starts_with(said), "{found}");
    }
}
