//! Graphs: they count their pieces of work, and a launch computes nothing.

use super::noted;
use crate::calls::calls;
use crate::cuda_error::CudaError;
use crate::ffi::{Handle, Opaque, Out};
use crate::handles::new_handle;
use crate::kernels;
use crate::ledger::{self, CountedFact};
use crate::streams;
use crate::version;

calls! { CudaError;
    cudaGraphCreate(graph: Out<Handle>, _flags: u32) = CudaError::after(graph.set(streams::new_graph()));
    cudaGraphDestroy(graph: Handle) = CudaError::after(streams::destroy_graph(graph));
}

/// Without places for the nodes it gives their number; a node is any handle.
#[unsafe(no_mangle)]
pub extern "C" fn cudaGraphGetNodes(graph: Handle, nodes: Out<Handle>, count: Out<usize>) -> CudaError {
    let found = streams::work_in(graph);
    if !nodes.is_null() {
        let room = count.get().unwrap_or_default().min(found);
        (0..room).for_each(|index| nodes.at(index).set(new_handle()));
    }
    count.set(found);
    CudaError::Success
}

/// CUDA 13 has a place for the edges before that for the number.
#[unsafe(no_mangle)]
pub extern "C" fn cudaGraphNodeGetDependencies(
    _node: Handle,
    _dependencies: Opaque,
    third: Out<usize>,
    fourth: Out<usize>,
) -> CudaError {
    if version::is_cuda_13() {
        fourth.set(0);
    } else {
        third.set(0);
    }
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGraphAddNode(node: Out<Handle>, graph: Handle) -> CudaError {
    streams::add_work(graph);
    node.set(new_handle());
    CudaError::Success
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGraphInstantiate(executable: Out<Handle>, _graph: Handle) -> CudaError {
    CudaError::after(executable.set(new_handle()))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGraphInstantiateWithFlags(executable: Out<Handle>, graph: Handle, _flags: u64) -> CudaError {
    cudaGraphInstantiate(executable, graph)
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGraphLaunch(_executable: Handle, stream: Handle) -> CudaError {
    ledger::count(CountedFact::GraphLaunches);
    kernels::replayed();
    noted(streams::capture(stream).map(|_| ()))
}
