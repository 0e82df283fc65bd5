//! Memory that servers of language models state in their logs when they start: vLLM and SGLang.

use std::collections::{BTreeMap, BTreeSet};

use ptmem_base::text::thousands;
use ptmem_base::units::{Size, parse_size};

/// A figure that a server states. A new one is a new arm in each method here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Serving {
    /// Tokens for which the KV cache has room.
    KvCacheTokens,
    /// Bytes of the KV cache.
    KvCacheMemory,
    /// Bytes that loading the weights took.
    Weights,
    /// Bytes that capturing CUDA graphs took.
    Graphs,
    /// Bytes of activations in the run that measures what is left for the KV cache.
    Activations,
}

ptmem_base::named!(Serving);

impl Serving {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 5] =
        [Self::KvCacheTokens, Self::KvCacheMemory, Self::Weights, Self::Graphs, Self::Activations];

    /// The figure of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|figure| figure.name() == name)
    }

    /// One line that says what it counts.
    pub fn description(self) -> &'static str {
        match self {
            Self::KvCacheTokens => "tokens for which the KV cache of a server has room",
            Self::KvCacheMemory => "bytes of the KV cache of a server",
            Self::Weights => "bytes that loading the weights of a server took",
            Self::Graphs => "bytes that the CUDA graphs of a server took",
            Self::Activations => "bytes of activations in the run by which a server measures what is left",
        }
    }

    /// Whether a server can do less with less of it: a limit is then on shrinking.
    pub fn is_capacity(self) -> bool {
        match self {
            Self::KvCacheTokens | Self::KvCacheMemory => true,
            Self::Weights | Self::Graphs | Self::Activations => false,
        }
    }

    /// A value in words.
    pub fn shown(self, value: u64) -> String {
        match self {
            Self::KvCacheTokens => format!("{} tokens", thousands(value)),
            Self::KvCacheMemory | Self::Weights | Self::Graphs | Self::Activations => Size(value).to_string(),
        }
    }

    /// The number in front of a unit, as it is logged. `GB` of SGLang are GiB, too.
    fn parse(self, number: &str) -> Option<u64> {
        match self {
            Self::KvCacheTokens => number.parse().ok(),
            Self::KvCacheMemory | Self::Weights | Self::Graphs | Self::Activations => {
                parse_size(&format!("{number}GiB")).ok()
            }
        }
    }
}

/// A figure as a log or a file of numbers states it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatedFigure {
    /// Bytes, or tokens.
    pub value: u64,
    /// The number of its line in a log, from 1.
    pub line: Option<usize>,
}

impl StatedFigure {
    /// Adds it to others, of which each is the worst: of the ranks of a job, or of its devices.
    pub(super) fn add_to(self, others: &mut BTreeMap<Serving, Self>, figure: Serving) {
        let known = others.entry(figure).or_insert(self);
        let is_worse = if figure.is_capacity() { self.value < known.value } else { self.value > known.value };
        if is_worse {
            *known = self;
        }
    }
}

/// How a server words a figure.
struct Wording {
    figure: Serving,
    /// A part of the line.
    line: &'static str,
    /// What stands in front of the numbers, of which the figure is the sum.
    before: &'static [&'static str],
}

const fn wording(figure: Serving, line: &'static str, before: &'static [&'static str]) -> Wording {
    Wording { figure, line, before }
}

/// From the sources of vLLM 0.6 to 0.18 (`gpu_worker.py`, `gpu_model_runner.py`, `kv_cache_utils.py`, `worker.py`) and of SGLang 0.4
/// to 0.5 (`model_runner.py`, `scheduler.py`, `memory_pool.py`).
const WORDINGS: [Wording; 12] = [
    wording(Serving::KvCacheTokens, "GPU KV cache size: ", &["GPU KV cache size: "]),
    wording(Serving::KvCacheTokens, "max_total_num_tokens=", &["max_total_num_tokens="]),
    wording(Serving::KvCacheMemory, "Available KV cache memory: ", &["Available KV cache memory: "]),
    wording(Serving::KvCacheMemory, "memory reserved for KV Cache is ", &["memory reserved for KV Cache is "]),
    wording(Serving::KvCacheMemory, "KV Cache is allocated.", &[" K size: ", " V size: "]),
    wording(Serving::KvCacheMemory, "KV Cache is allocated.", &[" KV size: "]),
    wording(Serving::Weights, "Model loading took ", &["Model loading took "]),
    wording(Serving::Weights, "Load weight end.", &[" mem usage="]),
    wording(Serving::Graphs, "Graph capturing finished in ", &[" secs, took "]),
    wording(Serving::Graphs, "cuda graph end.", &[" mem usage="]),
    wording(Serving::Activations, "torch peak memory increase: ", &["torch peak memory increase: "]),
    wording(Serving::Activations, "PyTorch activation peak memory takes ", &["PyTorch activation peak memory takes "]),
];

/// What a line says of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Value(u64),
    /// Below zero, for example if a rank has no memory left.
    Negative,
    /// Not a number, or too large.
    Unreadable,
}

impl Wording {
    /// The figure in a line; `None` if the line is about something else.
    fn find(&self, line: &str) -> Option<Said> {
        if !line.contains(self.line) {
            return None;
        }
        self.before.iter().try_fold(Said::Value(0), |sum, before| {
            let said = self.figure.said(line.split_once(before)?.1)?;
            Some(match (sum, said) {
                (Said::Value(sum), Said::Value(value)) => sum.checked_add(value).map_or(Said::Unreadable, Said::Value),
                (Said::Value(_), problem) | (problem, _) => problem,
            })
        })
    }
}

impl Serving {
    /// The number that a text begins with, without separators of thousands; `None` if it begins with a word.
    fn said(self, text: &str) -> Option<Said> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != ',' && c != '.').unwrap_or(text.len());
        // What ends a sentence or a list does not belong to it.
        let number = text[..end].trim_end_matches(['.', ',']);
        if !number.is_empty() {
            return Some(self.parse(&number.replace(',', "")).map_or(Said::Unreadable, Said::Value));
        }
        if text.strip_prefix('-').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '.')) {
            return Some(Said::Negative);
        }
        let is_float = |name: &str| text.get(..name.len()).is_some_and(|word| word.eq_ignore_ascii_case(name));
        ["nan", "inf", "-inf"].into_iter().any(is_float).then_some(Said::Unreadable)
    }
}

/// Pools of a KV cache by their process and the tokens for which they have room, with their bytes and the lines that state them. Those
/// of a model and of its draft model in a process have room for the same tokens, and are parts of one cache.
type Pools<'l> = BTreeMap<(Vec<&'l str>, u64), BTreeMap<u64, usize>>;

/// The process that a line of SGLang about a pool is of, and the tokens for which the pool has room.
fn owner_of_pool(line: &str) -> Option<(Vec<&str>, u64)> {
    let (process, rest) = line.split_once("KV Cache is allocated.")?;
    let (_, rest) = rest.split_once("#tokens: ")?;
    let tokens = rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
    // Without the time: `[2026-08-17 16:52:13 TP0 PP1]`.
    let words = process.split([' ', '[', ']']).filter(|word| !word.starts_with(|c: char| c.is_ascii_digit()));
    Some((words.filter(|word| !word.is_empty()).collect(), tokens))
}

/// The figures in a log. If several lines state one, as the ranks of a job do, the worst counts; if one of them is not a number, the
/// figure is unknown. Pools of different sizes of a process for the same tokens add up.
pub fn serving_in(text: &str) -> BTreeMap<Serving, StatedFigure> {
    let mut found = BTreeMap::new();
    let mut unknown = BTreeSet::new();
    let mut pools = Pools::new();
    for (line, words) in (1..).zip(text.lines()) {
        for wording in &WORDINGS {
            let figure = wording.figure;
            match wording.find(words) {
                None => {}
                Some(Said::Value(value)) => match owner_of_pool(words).filter(|_| figure == Serving::KvCacheMemory) {
                    Some(owner) => _ = pools.entry(owner).or_default().entry(value).or_insert(line),
                    None => StatedFigure { value, line: Some(line) }.add_to(&mut found, figure),
                },
                // A negative figure cannot be the largest.
                Some(Said::Negative) if !figure.is_capacity() => {}
                Some(Said::Negative | Said::Unreadable) => _ = unknown.insert(figure),
            }
        }
    }
    for pools in pools.values() {
        let line = pools.values().min().copied();
        match pools.keys().try_fold(0_u64, |sum, bytes| sum.checked_add(*bytes)) {
            Some(value) => StatedFigure { value, line }.add_to(&mut found, Serving::KvCacheMemory),
            None => _ = unknown.insert(Serving::KvCacheMemory),
        }
    }
    found.retain(|figure, _| !unknown.contains(figure));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn figures(log: &str) -> Vec<(&'static str, u64, usize)> {
        let found = serving_in(log).into_iter();
        found.map(|(figure, stated)| (figure.name(), stated.value, stated.line.unwrap())).collect()
    }

    #[test]
    fn figures_of_vllm_are_found() {
        let v1 = "\
(Worker_TP0 pid=1) INFO 05-06 [gpu_model_runner.py:4879] Model loading took 12.5 GiB memory and 31.657031 seconds
(Worker_TP1 pid=2) INFO 05-06 [gpu_model_runner.py:4879] Model loading took 12.75 GiB memory and 31.2 seconds
DEBUG 02-03 [gpu_worker.py:399] Memory profiling takes 24.71 seconds. Total non KV cache memory: 16.70GiB; torch peak memory \
increase: 1.50GiB; non-torch forward increase memory: -15.24GiB; weights memory: 15.27GiB.
(Worker_TP0 pid=1) INFO 11-06 [gpu_worker.py:349] Available KV cache memory: 2.5 GiB
(Worker_TP1 pid=2) INFO 11-06 [gpu_worker.py:349] Available KV cache memory: 2.25 GiB
(EngineCore_DP0 pid=3) INFO 11-06 [kv_cache_utils.py:1229] GPU KV cache size: 75,840 tokens, Maximum concurrency for 4,096 tokens
INFO 11-06 [gpu_model_runner.py:5000] Graph capturing finished in 12 secs, took 0.75 GiB
";
        let expected = [
            ("kv-cache-tokens", 75_840, 6),
            ("kv-cache-memory", 2 * GIB + GIB / 4, 5),
            ("weights", 12 * GIB + 3 * GIB / 4, 2),
            ("graphs", 3 * GIB / 4, 7),
            ("activations", 3 * GIB / 2, 3),
        ];
        assert_eq!(figures(v1), expected);
        let v0 = "INFO 05-30 worker.py:267] model weights take 2.89GiB; non_torch_memory takes 0.01GiB; PyTorch activation peak \
                  memory takes 2.00GiB; the rest of the memory reserved for KV Cache is 2.50GiB.\nModel loading took 2.5000 GiB and 3 s";
        let expected = [("kv-cache-memory", 5 * GIB / 2, 1), ("weights", 5 * GIB / 2, 2), ("activations", 2 * GIB, 1)];
        assert_eq!(figures(v0), expected);
    }

    #[test]
    fn figures_of_sglang_are_found() {
        let log = "\
[2026-08-17 16:52:10] Load weight end. elapsed=100.59 s, type=A, avail mem=97.27 GB, mem usage=15.50 GB.
[2026-08-17 16:52:13] KV Cache is allocated. #tokens: 367404, K size: 8.25 GB, V size: 8.25 GB
[2026-03-04 15:13:15] Capture cuda graph end. Time elapsed: 1.15 s. mem usage=1.00 GB. avail mem=98.23 GB.
[2026-03-04 15:13:16] max_total_num_tokens=20480, chunked_prefill_size=8192, context_len=131072
";
        let expected = [
            ("kv-cache-tokens", 20_480, 4),
            ("kv-cache-memory", 16 * GIB + GIB / 2, 2),
            ("weights", 15 * GIB + GIB / 2, 1),
            ("graphs", GIB, 3),
        ];
        assert_eq!(figures(log), expected);
        let of_mla = "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 1933682, KV size: 12.50 GB";
        assert_eq!(figures(of_mla), [("kv-cache-memory", 25 * GIB / 2, 1)]);
    }

    #[test]
    fn pools_of_a_draft_model_add_up() {
        let pool = |rank: u64, tokens: u64, size: &str| {
            format!(
                "[2026-08-17 16:52:13 TP{rank}] KV Cache is allocated. #tokens: {tokens}, K size: {size} GB, V size: {size} GB\n"
            )
        };
        let of_rank = |rank: u64, tokens: u64, size: &str| pool(rank, tokens, size) + &pool(rank, tokens, "0.75");
        let memory = |log: String| figures(&log);
        let whole = [("kv-cache-memory", 46 * GIB + GIB / 2, 1)];
        assert_eq!(memory(of_rank(0, 367_404, "22.5")), whole);
        assert_eq!(memory(of_rank(0, 367_404, "22.5") + &of_rank(1, 367_404, "22.5")), whole, "ranks repeat them");
        assert_eq!(memory(of_rank(0, 367_404, "14.5")), [("kv-cache-memory", 30 * GIB + GIB / 2, 1)]);
        // The stages of a pipeline have room for the same tokens.
        let stages = pool(0, 9, "5").replace("TP0", "TP0 PP0") + &pool(0, 9, "4.75").replace("TP0", "TP0 PP1");
        assert_eq!(memory(stages), [("kv-cache-memory", 9 * GIB + GIB / 2, 2)]);
        // Of other tokens are those of another rank or start, of which the worst counts.
        let other = of_rank(0, 367_404, "22.5") + &of_rank(1, 300_000, "20");
        assert_eq!(memory(other), [("kv-cache-memory", 41 * GIB + GIB / 2, 3)]);
    }

    /// A rank without a number may be the worst.
    #[test]
    fn a_figure_that_one_rank_cannot_state_is_not_known() {
        let known = "Available KV cache memory: 2.5 GiB\nGPU KV cache size: 10 tokens\n";
        for line in [
            "Available KV cache memory: -0.94 GiB",
            "Available KV cache memory: nan GiB",
            "Available KV cache memory: -inf GiB",
            "Available KV cache memory: 1.2.3 GiB",
            "Available KV cache memory: 99999999999999999999999 GiB",
            "KV Cache is allocated. #tokens: 1, K size: 1 GB, V size: nan GB",
            "KV Cache is allocated. #tokens: 1, K size: 9999999999 GB, V size: 9999999999 GB",
        ] {
            assert_eq!(figures(&format!("{known}{line}\n")), [("kv-cache-tokens", 10, 2)], "{line}");
            assert_eq!(figures(&format!("{line}\n{known}")), [("kv-cache-tokens", 10, 3)], "{line}");
        }
        // Less than nothing is not the worst of what may not grow, and other words state nothing.
        let graphs =
            "Graph capturing finished in 2 secs, took 0.5 GiB\nGraph capturing finished in 2 secs, took -0.5 GiB\n";
        let words = "GPU KV cache size: not known yet\nModel loading took a while\n";
        let expected = [("kv-cache-tokens", 10, 2), ("kv-cache-memory", 5 * GIB / 2, 1), ("graphs", GIB / 2, 3)];
        assert_eq!(figures(&format!("{known}{graphs}{words}")), expected);
    }

    #[test]
    fn other_lines_state_nothing() {
        for log in [
            "",
            "Graph capturing finished in 21 secs",
            "Available KV cache memory: -0.94 GiB",
            "the rest of the memory reserved for KV Cache is -0.94GiB",
            "Maximum concurrency for 4,096 tokens per request: 111.66x",
            "GPU KV cache size: 99999999999999999999999 tokens",
            "avg mem usage=1.00 GB",
        ] {
            assert_eq!(figures(log), [], "{log}");
        }
    }
}
