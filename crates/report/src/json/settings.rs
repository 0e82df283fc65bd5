//! `ptmem.settings/1`: the memory that other allocator settings would have reserved, and the stacks that pin memory.

use ptmem_studies::allocator::Study;
use serde::Serialize;

use super::shared::Tool;

/// The report of the settings that were tried on a recording.
#[derive(Serialize)]
pub(super) struct SettingsReport<'a> {
    pub(super) schema: &'static str,
    pub(super) tool: Tool,
    #[serde(flatten)]
    pub(super) study: &'a Study,
}
