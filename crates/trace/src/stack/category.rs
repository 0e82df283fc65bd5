//! The purpose of memory, as far as its stack shows it.

use ptmem_snapshot::snapshot::{FrameId, StackId};

use super::SnapshotCode;
use super::classify::Owner;
use super::operator::Symbol;

/// The categories that are built in, in the order in which a training step meets them.
pub const CATEGORIES: [&str; 8] =
    ["parameters", "data", "forward", "backward", "gradients", "optimizer", "communication", OTHER];

/// The category of stacks that show no purpose.
pub const OTHER: &str = "other";

/// A pass of training, by its name in reports and limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Pass {
    /// Code before the first of the others, if the history begins with the program.
    Setup,
    /// The others up to the end of the optimizer.
    Step,
    /// Modules run, and the loss follows.
    Forward,
    /// Modules run, and no backward pass follows from it.
    Evaluation,
    /// Autograd runs, and modules that it runs again.
    Backward,
    /// An optimizer updates parameters.
    Optimizer,
}

impl SnapshotCode<'_> {
    /// The pass in which a stack allocates, forward, backward or optimizer, where its frames show one. The innermost decides, and
    /// what an optimizer calls as its closure is not the optimizer.
    pub(crate) fn pass(&self, stack: StackId) -> Option<Pass> {
        if self.is_backward(stack) {
            return Some(Pass::Backward);
        }
        let mut calls_others = false;
        for frame in self.python(stack) {
            if self.calls_module(frame) {
                return Some(Pass::Forward);
            }
            match (self.path(frame), self.function(frame)) {
                // The base class runs the steps of all optimizers, of users and libraries, too.
                (path, _) if is_optimizer(path) && path != "torch/optim/optimizer.py" && calls_others => return None,
                (path, function) if is_optimizer(path) && function != "zero_grad" => {
                    return Some(Pass::Optimizer);
                }
                _ => calls_others |= matches!(self.owner(frame), Owner::User | Owner::Library),
            }
        }
        None
    }

    /// The Python frames around the outermost module of a stack.
    pub(crate) fn callers_of_modules(&self, stack: StackId) -> Vec<FrameId> {
        let frames: Vec<FrameId> = self.python(stack).collect();
        let outermost = frames.iter().rposition(|&frame| self.calls_module(frame));
        frames[outermost.map_or(0, |at| at + 1)..].to_vec()
    }

    /// True for the functions by which a module is called; from PyTorch 2.1 on, one calls the other.
    fn calls_module(&self, frame: FrameId) -> bool {
        is_module(self.path(frame)) && matches!(self.function(frame), "_call_impl" | "_wrapped_call_impl" | "__call__")
    }
}

/// The category of a stack. The first rule that holds for one of its frames decides.
pub(super) fn of<'c>(code: &'c SnapshotCode<'_>, stack: StackId) -> &'c str {
    code.own_category(stack).unwrap_or_else(|| built_in(code, stack))
}

fn built_in(code: &SnapshotCode<'_>, stack: StackId) -> &'static str {
    if code.symbols(stack).any(|symbol| matches!(symbol, Symbol::Node(node) if node == "AccumulateGrad")) {
        return "gradients";
    }
    match code.pass(stack) {
        Some(Pass::Backward) => return "backward",
        Some(Pass::Optimizer) => return "optimizer",
        _ => {}
    }
    if let Some(category) = of_distributed(code, stack) {
        category
    } else if has_frame_below(code, stack, "torch/utils/data/") {
        "data"
    } else if code.python(stack).any(|frame| is_loading(code.path(frame), code.function(frame))) {
        "parameters"
    } else if has_frame_below(code, stack, "torch/nn/")
        || code.python(stack).any(|frame| code.function(frame) == "forward")
    {
        "forward"
    } else {
        OTHER
    }
}

/// True for a file of PyTorch's optimizers. Averages of parameters and schedules of learning rates are in the same folder, and
/// update no parameters.
fn is_optimizer(path: &str) -> bool {
    path.strip_prefix("torch/optim/").is_some_and(|file| !matches!(file, "swa_utils.py" | "lr_scheduler.py"))
}

/// The category of a stack whose innermost frames are those of `torch/distributed/`. What a launcher, a wrapper of a module or
/// a sharded tensor merely runs is not communication, and a wrapper that is made divides parameters.
fn of_distributed(code: &SnapshotCode<'_>, stack: StackId) -> Option<&'static str> {
    let innermost = code.python(stack).find(|&frame| {
        let path = code.path(frame);
        let runs = path.starts_with("torch/distributed/tensor/")
            && !path.contains("redistribute")
            && !path.contains("collective");
        let is_library = matches!(code.owner(frame), Owner::PyTorch | Owner::StandardLibrary | Owner::Generated);
        !is_library || path.starts_with("torch/nn/") || (path.starts_with("torch/distributed/") && !runs)
    })?;
    let path = code.path(innermost);
    if !path.starts_with("torch/distributed/") || path.starts_with("torch/distributed/elastic/") {
        return None;
    }
    let mut fsdp = code.python(stack).filter(|&frame| code.path(frame).starts_with("torch/distributed/fsdp/"));
    let is_made = fsdp.any(|frame| code.function(frame) == "__init__");
    Some(if is_made { "parameters" } else { "communication" })
}

/// True if some frame is below the folder of an installed package.
fn has_frame_below(code: &SnapshotCode<'_>, stack: StackId, folder: &str) -> bool {
    code.python(stack).any(|frame| code.path(frame).starts_with(folder))
}

fn is_module(path: &str) -> bool {
    path == "torch/nn/modules/module.py"
}

/// Building modules, reading their weights, and moving them to the device.
fn is_loading(path: &str, function: &str) -> bool {
    match path {
        "torch/serialization.py" | "torch/nn/init.py" => true,
        _ if is_module(path) => matches!(function, "_apply" | "to" | "cuda" | "load_state_dict" | "load"),
        _ if path.starts_with("torch/nn/modules/") => matches!(function, "__init__" | "reset_parameters"),
        _ => false,
    }
}
