import os
import sys

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # The engine runs in this process, which names its phases.

from torch.profiler import record_function
from vllm import LLM, SamplingParams
from vllm.v1.worker.gpu_worker import Worker


def name(method, phase):
    function = getattr(Worker, method)

    def run(*arguments, **options):
        with record_function(phase):
            return function(*arguments, **options)

    setattr(Worker, method, run)


name("load_model", "weights")
name("determine_available_memory", "profile run")
name("initialize_from_config", "KV cache")
name("compile_or_warm_up_model", "graphs")

llm = LLM(
    "model",  # A folder with config.json: the weights are made up.
    load_format="dummy",
    skip_tokenizer_init=True,
    max_num_batched_tokens=int(sys.argv[1]),
    enforce_eager="eager" in sys.argv,
    **({} if "free" in sys.argv else {"kv_cache_memory_bytes": 1 << 30}),
)
cache = llm.llm_engine.vllm_config.cache_config
print("KV tokens", cache.num_gpu_blocks * cache.block_size)
prompt = {"prompt_token_ids": list(range(3, 40))}
llm.generate([prompt] * 4, SamplingParams(max_tokens=4, detokenize=False, ignore_eos=True))
