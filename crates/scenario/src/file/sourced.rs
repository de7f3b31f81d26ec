//! Numbers that say where they come from.

use crate::model::error::ScenarioError;
use crate::reading::{Node, TableNode};

const SOURCE_HINT: &str = "say where the number comes from, or \"assumed: <reason>\"";

/// The value of the cost `key`, once its source has been seen.
pub(crate) fn sourced<'a>(costs: &TableNode<'a>, key: &str) -> Result<Node<'a>, ScenarioError> {
    let form = format!("write {key} = {{ value = ..., source = \"...\" }}");
    let cost = costs.need(key, &form)?;
    if !cost.value().is_table() {
        return Err(cost.bad("a number needs its source", form));
    }
    let cost = cost.table(&["value", "source"])?;
    need_source(&cost)?;
    cost.need("value", &form)
}

/// Refuses a table that does not say where its numbers come from.
pub(crate) fn need_source(table: &TableNode) -> Result<(), ScenarioError> {
    let source = table.need("source", SOURCE_HINT)?;
    if source.text()?.trim().trim_end_matches(':') == "assumed" {
        return Err(source.bad("an assumption without its reason", SOURCE_HINT));
    }
    Ok(())
}
