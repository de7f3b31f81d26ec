//! Goal: every shipped policy can be read, and linked with the structures that it knows itself.

use std::path::PathBuf;

use bytecode::{Field, Object, Shape, Structures, Type};

use crate::support::{Loaded, built, crate_folder, world};

fn policies() -> Vec<PathBuf> {
    let folder = crate_folder().join("../../policies");
    let files = std::fs::read_dir(folder).expect("policies").map(|one| one.expect("a file").path());
    let mut all: Vec<_> = files.filter(|path| path.to_string_lossy().ends_with(".bpf.c")).collect();
    all.sort();
    assert_eq!(all.len(), 11);
    all
}

fn object_of(source: &std::path::Path) -> Vec<u8> {
    let include = crate_folder().join("../../policies/include");
    built(source, "v3", &["-I", include.to_str().expect("a path")])
}

/// The structures that an object describes, as if the world were what it expects.
fn own_structures(object: &Object) -> Structures {
    let mut structures = Structures::default();
    let leaked = |name: &str| -> &'static str { name.to_owned().leak() };
    for (_, of) in object.btf.types() {
        match of {
            Type::Structure { name, bytes, members, .. } if !name.is_empty() => {
                let fields = members.iter().filter_map(|member| {
                    let shape = shape(object, member.of)?;
                    Some(Field { name: leaked(&member.name), offset: member.bit_offset / 8, shape })
                });
                structures.structure(leaked(name), *bytes as usize, fields.collect());
            }
            Type::Enumeration { name, values, .. } if !name.is_empty() => {
                let values: Vec<_> = values
                    .iter()
                    .map(|(name, value)| (leaked(bytecode::essential_name(name)), *value))
                    .collect();
                structures.enumeration(leaked(bytecode::essential_name(name)), &values);
            }
            _ => {}
        }
    }
    structures
}

fn shape(object: &Object, of: u32) -> Option<Shape> {
    Some(match object.btf.resolve(of).expect("a type").1 {
        Type::Integer { bytes, signed, .. } | Type::Enumeration { bytes, signed, .. } => {
            Shape::Number { bytes: *bytes, signed: *signed }
        }
        Type::Pointer { .. } => Shape::Pointer,
        Type::Structure { name, .. } => Shape::Structure(name.clone().leak()),
        Type::Array { element, count } => Shape::Array(Box::new(shape(object, *element)?), *count),
        _ => return None,
    })
}

#[test]
fn every_shipped_policy_is_read_and_linked() {
    for source in policies() {
        let object = Object::read(&object_of(&source)).expect("an object");
        assert_eq!(object.licence, "GPL", "{}", source.display());
        let [table] = &object.tables[..] else { panic!("one table: {:?}", object.tables) };
        assert_eq!(table.of, "sched_ext_ops");
        let name = table.values["name"].split(|&byte| byte == 0).next().expect("a name");
        let file = source.file_name().expect("a name").to_string_lossy().into_owned();
        assert_eq!(format!("{}.bpf.c", String::from_utf8_lossy(name)), file);
        for wanted in ["enqueue", "dispatch", "init", "exit"] {
            assert!(table.functions.contains_key(wanted), "{file} has no {wanted}");
        }
        // What it calls is there, and so are its structures: only its own code is asked.
        let mut world = world();
        world.structures = own_structures(&object);
        world.helpers = (1..300).map(|number| (number, 0)).collect();
        for one in &object.externs {
            let name = bytecode::essential_name(&one.name).to_owned();
            if one.configuration {
                world.variables.insert(name, bytecode::MEMORY_BEGIN);
            } else {
                world.functions.insert(name, 0);
            }
        }
        let roots: Vec<_> = table.functions.values().copied().collect();
        let slots: u32 = object.functions.iter().map(|one| one.slots).sum();
        let loaded = Loaded::linked(object, &roots, &world);
        let loaded = loaded.unwrap_or_else(|error| panic!("{file}: {error}"));
        let linked = loaded.program.instructions().len();
        assert!(linked as u32 <= slots && linked as u32 > slots / 2, "{file}: {linked} of {slots}");
    }
}

#[test]
fn a_policy_in_a_world_whose_tasks_have_no_fields_is_refused_at_the_first() {
    let source = crate_folder().join("../../policies/round_robin.bpf.c");
    let object = Object::read(&object_of(&source)).expect("an object");
    let mut world = world();
    world.structures.structure("task_struct", 8, vec![]);
    world.helpers = (1..300).map(|number| (number, 0)).collect();
    for one in &object.externs {
        world.functions.insert(bytecode::essential_name(&one.name).to_owned(), 0);
    }
    let roots: Vec<_> = object.tables[0].functions.values().copied().collect();
    let error = match Loaded::linked(object, &roots, &world) {
        Ok(_) => panic!("it was linked"),
        Err(error) => error,
    };
    assert!(error.contains("does not exist; struct task_struct has"), "{error}");
}
