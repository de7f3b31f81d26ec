//! The kernel's functions that policies call, by which a kernel is judged before it is booted.

/// Calls that no policy does without: of each, the names that kernels have had for it, newest
/// first. `include/scx/kernel_variants.bpf.h` takes the first that the running kernel has.
pub(super) const NEEDED: [&[&str]; 27] = [
    &["scx_bpf_create_dsq"],
    &["scx_bpf_dispatch_cancel"],
    &["scx_bpf_dsq_insert___v2", "scx_bpf_dsq_insert", "scx_bpf_dispatch"],
    &["__scx_bpf_dsq_insert_vtime", "scx_bpf_dsq_insert_vtime", "scx_bpf_dispatch_vtime"],
    &["scx_bpf_dsq_move_to_local___v2", "scx_bpf_dsq_move_to_local", "scx_bpf_consume"],
    &["scx_bpf_dsq_move", "scx_bpf_dispatch_from_dsq"],
    &["scx_bpf_dsq_move_vtime", "scx_bpf_dispatch_vtime_from_dsq"],
    &["scx_bpf_dsq_move_set_slice", "scx_bpf_dispatch_from_dsq_set_slice"],
    &["scx_bpf_dsq_move_set_vtime", "scx_bpf_dispatch_from_dsq_set_vtime"],
    &["scx_bpf_dsq_nr_queued"],
    &["scx_bpf_error_bstr"],
    &["scx_bpf_get_idle_cpumask"],
    &["scx_bpf_get_idle_smtmask"],
    &["scx_bpf_get_online_cpumask"],
    &["scx_bpf_kick_cpu"],
    &["scx_bpf_nr_cpu_ids"],
    &["scx_bpf_pick_idle_cpu"],
    &["scx_bpf_put_cpumask"],
    &["scx_bpf_put_idle_cpumask"],
    &["scx_bpf_select_cpu_dfl"],
    &["scx_bpf_task_cpu"],
    &["scx_bpf_test_and_clear_cpu_idle"],
    &["bpf_iter_scx_dsq_new"],
    &["bpf_iter_num_new"],
    &["bpf_cpumask_test_cpu"],
    &["bpf_task_from_pid"],
    &["bpf_rcu_read_lock"],
];

/// Calls that policies use where they are there.
pub(super) const OPTIONAL: [&str; 7] = [
    "__scx_bpf_select_cpu_and",
    "scx_bpf_select_cpu_and",
    "scx_bpf_cpu_curr",
    "scx_bpf_cpu_rq",
    "scx_bpf_now",
    "scx_bpf_task_set_dsq_vtime",
    "scx_bpf_task_set_slice",
];

#[cfg(test)]
mod tests {
    //! Goal: no policy calls what is not listed. Method: build all of them, read their symbols.
    use super::*;
    use object::{Object, ObjectSymbol};
    use std::path::Path;
    use std::process::Command;

    /// Which come with one that is listed.
    const PARTNERS: [&str; 6] = [
        "bpf_iter_scx_dsq_next",
        "bpf_iter_scx_dsq_destroy",
        "bpf_iter_num_next",
        "bpf_iter_num_destroy",
        "bpf_task_release",
        "bpf_rcu_read_unlock",
    ];

    fn called_by(source: &Path, directory: &Path) -> Vec<String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let built = directory.join("policy.o");
        let compiled = Command::new("clang-19")
            .args(["-std=gnu17", "-O2", "-g", "-target", "bpf", "-mcpu=v3"])
            .arg(format!("-I{}", root.join("policies/include").display()))
            .arg("-c")
            .arg(source)
            .arg("-o")
            .arg(&built)
            .status();
        assert!(compiled.unwrap().success(), "{}", source.display());
        let image = std::fs::read(built).unwrap();
        let file = object::File::parse(&*image).unwrap();
        let undefined = file.symbols().filter(|symbol| symbol.is_undefined());
        let names = undefined.filter_map(|symbol| symbol.name().ok().map(str::to_owned));
        names.filter(|name| !name.is_empty() && !name.starts_with("CONFIG_")).collect()
    }

    #[test]
    fn every_call_of_every_policy_is_listed() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let policies = std::fs::read_dir(root.join("policies")).unwrap();
        let mut sources: Vec<_> = policies.map(|file| file.unwrap().path()).collect();
        sources.retain(|path| path.to_string_lossy().ends_with(".bpf.c"));
        sources.push(root.join("crates/kernel/tests/policies/renamed_calls.bpf.c"));
        assert!(sources.len() > 7);
        let directory = tempfile::tempdir().unwrap();
        for source in sources {
            for symbol in called_by(&source, directory.path()) {
                let name = symbol.strip_suffix("___new").or(symbol.strip_suffix("___old"));
                let name = name.unwrap_or(&symbol);
                let listed = NEEDED.iter().flat_map(|names| names.iter());
                assert!(
                    listed.chain(&OPTIONAL).chain(&PARTNERS).any(|known| *known == name),
                    "{} calls {name}",
                    source.display()
                );
            }
        }
    }
}
