//! Files that this program brings: the library, and those for the child's Python.

/// The library for the system that ptmem was built for. Empty where there is none.
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libptmem-simulate.so"));

/// The folder of the package that the Python package has as well: passes of training, modules, purposes and shapes of memory.
pub const PYTHON_WATCH: &str = "ptmem_simulate_watch";

/// Files for the child's Python by their paths: the code that runs when it starts, and the modules beside it. The head
/// of each describes it.
pub const PYTHON: [(&str, &str); 27] = [
    ("sitecustomize.py", include_str!("../python/hook.py")),
    ("ptmem_simulate_answers.py", include_str!("../python/answers.py")),
    ("ptmem_simulate_exit.py", include_str!("../python/exit.py")),
    ("ptmem_simulate_facts.py", include_str!("../python/facts.py")),
    ("ptmem_simulate_outermost.py", include_str!("../python/outermost.py")),
    ("ptmem_simulate_ran.py", include_str!("../python/ran.py")),
    ("ptmem_simulate_opened.py", include_str!("../python/opened.py")),
    ("ptmem_simulate_ranges.py", include_str!("../python/ranges.py")),
    ("ptmem_simulate_ranks.py", include_str!("../python/ranks.py")),
    ("ptmem_simulate_recomputation.py", include_str!("../python/recomputation.py")),
    ("ptmem_simulate_sent.py", include_str!("../python/sent.py")),
    ("ptmem_simulate_one_rank.py", include_str!("../python/one_rank.py")),
    ("ptmem_simulate_guesses.py", include_str!("../python/guesses.py")),
    ("ptmem_simulate_guards.py", include_str!("../python/guards.py")),
    ("ptmem_simulate_values.py", include_str!("../python/values.py")),
    ("ptmem_simulate_draws.py", include_str!("../python/draws.py")),
    ("ptmem_simulate_host.py", include_str!("../python/host.py")),
    ("ptmem_simulate_calls.py", include_str!("../python/calls.py")),
    ("ptmem_simulate_operators.py", include_str!("../python/operators.py")),
    ("ptmem_simulate_watch/__init__.py", include_str!("../python/watch/__init__.py")),
    ("ptmem_simulate_watch/attribution.py", include_str!("../python/watch/attribution.py")),
    ("ptmem_simulate_watch/belongings.py", include_str!("../python/watch/belongings.py")),
    ("ptmem_simulate_watch/marks.py", include_str!("../python/watch/marks.py")),
    ("ptmem_simulate_watch/modules.py", include_str!("../python/watch/modules.py")),
    ("ptmem_simulate_watch/passes.py", include_str!("../python/watch/passes.py")),
    ("ptmem_simulate_watch/purposes.py", include_str!("../python/watch/purposes.py")),
    ("ptmem_simulate_watch/shapes.py", include_str!("../python/watch/shapes.py")),
];
