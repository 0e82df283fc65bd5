//! Settings that `ptmem simulate` passes to the library: one environment variable of `name=value` pairs, split by `;`.

use core::str::FromStr;

use crate::sys;
use crate::sys::lock::Lazy;

/// Name of the environment variable.
const VARIABLE: &core::ffi::CStr = c"PTMEM_SIMULATE";

/// Answer to a call that the library cannot answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unsupported {
    /// Success, in silence.
    Allow,
    /// Success, and one line on standard error for each such function.
    Warn,
    /// An error code.
    Error,
}

/// When an event counts as complete.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Events {
    /// As soon as it is recorded.
    Ready,
    /// After some queries, or when somebody waits for it.
    Late,
}

/// Order in which a card gives out addresses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Addresses {
    /// The lowest that are free.
    Up,
    /// Downwards, in reservations whose rest is used first.
    Down,
}

/// The simulated card and the choices of the user.
pub(crate) struct Settings {
    pub(crate) name: &'static str,
    /// Compute capability times ten.
    pub(crate) capability: i32,
    pub(crate) processors: i32,
    pub(crate) memory: u64,
    /// Part of the memory that the CUDA context takes.
    pub(crate) context: u64,
    pub(crate) l2_cache: i32,
    pub(crate) bus_width: i32,
    pub(crate) clock_khz: i32,
    pub(crate) memory_clock_khz: i32,
    pub(crate) gpus: usize,
    pub(crate) fill: u8,
    /// Most bytes of memory that hold values.
    pub(crate) compute: u64,
    pub(crate) events: Events,
    pub(crate) addresses: Addresses,
    pub(crate) unsupported: Unsupported,
    /// Workspace that every cuDNN engine asks for.
    pub(crate) cudnn_workspace: u64,
    /// Folder of the hook for Python.
    pub(crate) hook: &'static str,
    /// File of counters, shared with all processes of the run.
    pub(crate) ledger: &'static str,
    /// Process of `ptmem simulate`; 0 where there is none.
    pub(crate) parent: i32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: "NVIDIA A100-SXM4-80GB",
            capability: 80,
            processors: 108,
            memory: 85_094_825_984,
            context: 474 << 20,
            l2_cache: 41_943_040,
            bus_width: 5120,
            clock_khz: 1_410_000,
            memory_clock_khz: 1_593_000,
            gpus: 1,
            fill: 0,
            compute: 256 << 20,
            events: Events::Ready,
            addresses: Addresses::Up,
            unsupported: Unsupported::Warn,
            cudnn_workspace: 0,
            hook: "",
            ledger: "",
            parent: 0,
        }
    }
}

static SETTINGS: Lazy<Settings> = Lazy::new(read);

fn read() -> Settings {
    let mut settings = parse(sys::environment(VARIABLE).unwrap_or_default());
    if let Some(visible) = sys::environment(c"CUDA_VISIBLE_DEVICES") {
        settings.gpus = count_visible(visible, settings.gpus);
    }
    settings
}

/// Devices that `CUDA_VISIBLE_DEVICES` leaves: those listed before the first that does not exist.
fn count_visible(list: &str, gpus: usize) -> usize {
    list.split(',').take_while(|entry| is_device(entry, gpus)).count().min(gpus)
}

/// True for the number or the identity of a device of this run.
fn is_device(entry: &str, gpus: usize) -> bool {
    match entry.trim().parse::<usize>() {
        Ok(device) => device < gpus,
        Err(_) => entry.starts_with("GPU-"),
    }
}

/// The settings of this process.
pub(crate) fn settings() -> &'static Settings {
    SETTINGS.get()
}

/// Version of a library that the program was built for, as `major * 1000 + minor * 10` or as the library writes it. The
/// hook in the child's Python sets it from PyTorch's own description, before the library is first asked.
pub(crate) fn version_of(variable: &core::ffi::CStr) -> Option<i32> {
    sys::environment(variable)?.parse().ok()
}

fn parse(text: &'static str) -> Settings {
    let mut settings = Settings::default();
    for pair in text.split(';') {
        let Some((name, value)) = pair.split_once('=') else { continue };
        match name {
            "name" => settings.name = value,
            "capability" => set(&mut settings.capability, value),
            "processors" => set(&mut settings.processors, value),
            "memory" => set(&mut settings.memory, value),
            "context" => set(&mut settings.context, value),
            "l2-cache" => set(&mut settings.l2_cache, value),
            "bus-width" => set(&mut settings.bus_width, value),
            "clock" => set(&mut settings.clock_khz, value),
            "memory-clock" => set(&mut settings.memory_clock_khz, value),
            "gpus" => set(&mut settings.gpus, value),
            "fill" => set(&mut settings.fill, value),
            "compute" => set(&mut settings.compute, value),
            "events" => settings.events = if value == "late" { Events::Late } else { Events::Ready },
            "addresses" => settings.addresses = if value == "down" { Addresses::Down } else { Addresses::Up },
            "unsupported" => settings.unsupported = unsupported(value),
            "cudnn-workspace" => set(&mut settings.cudnn_workspace, value),
            "hook" => settings.hook = value,
            "ledger" => settings.ledger = value,
            "parent" => set(&mut settings.parent, value),
            _ => {}
        }
    }
    settings
}

fn set<T: FromStr>(place: &mut T, value: &str) {
    if let Ok(value) = value.parse() {
        *place = value;
    }
}

fn unsupported(value: &str) -> Unsupported {
    match value {
        "allow" => Unsupported::Allow,
        "error" => Unsupported::Error,
        _ => Unsupported::Warn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_replaces_the_defaults() {
        let settings = parse("name=Tesla T4;capability=75;memory=1024;events=late;unsupported=error;new=1;gpus=x");
        assert_eq!(settings.name, "Tesla T4");
        assert_eq!(settings.capability, 75);
        assert_eq!(settings.memory, 1024);
        assert!(settings.events == Events::Late && settings.unsupported == Unsupported::Error);
        assert_eq!(settings.gpus, 1);
    }

    #[test]
    fn visible_devices_end_at_the_first_that_does_not_exist() {
        assert_eq!(count_visible("0,2,9,1", 4), 2);
        assert_eq!(count_visible("", 4), 0);
        assert_eq!(count_visible("3", 4), 1);
        assert_eq!(count_visible("GPU-1234", 4), 1);
    }
}
