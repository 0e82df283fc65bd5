//! `ptmem.settings/1`: the memory that other allocator settings would have reserved, and the stacks that pin memory.

use ptmem_base::json_writer::object;
use ptmem_studies::allocator::{Study, Trial};

use super::shared::Tool;
use crate::view::advice;

object! {
    /// The report of the settings that were tried on a recording.
    pub(super) SettingsReport<'a>(study: &'a Study) {
        schema: "ptmem.settings/1",
        tool: Tool(),
        snapshot: study.path,
        device: study.device,
        recorded_settings: study.recorded,
        settings_stated: study.is_stated,
        has_history: study.has_history,
        reserved_peak_event: study.pinned.at,
        reserved_peak: study.pinned.reserved,
        active_then: study.pinned.active,
        without_free_memory: study.pinned.ideal,
        unused_segments: study.pinned.unused,
        mostly_free_segments: study.pinned.segments,
        pinning_stacks: study.pinned.stacks,
        trial: study.trial.as_ref().map(|trial| TrialReport(study, trial)),
    }
}

object! {
    TrialReport<'a>(study: &'a Study, trial: &'a Trial) {
        pytorch: trial.release,
        device_memory: trial.capacity,
        failed_requests: trial.failed,
        private_pools: trial.private_pools,
        streams: trial.streams,
        in_use_before: trial.held_before,
        free_before: trial.cached_before,
        self_check: trial.check,
        compared_with: trial.base,
        settings: trial.outcomes,
        left_out: trial.left_out,
        advice: advice(study, trial),
    }
}
