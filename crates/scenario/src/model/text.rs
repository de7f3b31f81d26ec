//! Values as they stand in a workload's file.

use crate::model::workload::CpuSet;

/// What stands for every CPU that there is.
pub(crate) const ALL_CPUS: &str = "all";

/// What stands for each CPU in turn, where tasks are started.
pub(crate) const EVERY_CPU: &str = "every-cpu";

/// A text in quotes.
pub(crate) fn quoted(text: &str) -> String {
    toml::Value::String(text.to_string()).to_string()
}

/// A set of CPUs: their numbers, or `"all"`.
pub(crate) fn cpus_text(cpus: &CpuSet) -> String {
    cpus.as_ref().map_or_else(|| quoted(ALL_CPUS), |cpus| format!("{cpus:?}"))
}
