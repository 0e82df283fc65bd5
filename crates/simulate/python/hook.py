"""Runs when a Python starts under `ptmem simulate`: passes the CUDA version of PyTorch to the library, and records.

PYTHONPATH puts this file before a sitecustomize that was there already, which is run as well. The library puts it back
where a program sets that variable anew.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def run_the_other_sitecustomize():
    """Runs the sitecustomize that this file shadows."""
    import importlib.machinery
    import importlib.util

    places = [place for place in sys.path if os.path.abspath(place or ".") != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", places)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def set_versions(folder):
    """Tells the library the versions of CUDA and cuDNN that the PyTorch in a folder was built for."""
    import glob
    import re

    source = read(os.path.join(folder, "version.py"))
    if not source:
        return
    cuda = re.search(r"^cuda[^=]*= *'(\d+)\.(\d+)'", source, re.MULTILINE)
    version = (re.search(r"__version__ *= *'([^']+)'", source) or ("", ""))[1]
    lack = None
    if version.startswith(("0.", "1.")):
        lack = "is too old; expected PyTorch 2.0 or later"
    elif cuda is None:
        lack = (
            "is built without CUDA; expected a build with CUDA: on Linux, pip install torch; for aarch64 there are "
            "such builds from 2.11 on"
        )
    if lack:
        sys.stderr.write(f"ptmem simulate: PyTorch {version} in {folder} {lack}\n")
        sys.stderr.flush()
        os._exit(2)
    os.environ["PTMEM_SIMULATE_CUDA"] = str(int(cuda.group(1)) * 1000 + int(cuda.group(2)) * 10)
    metadata = glob.glob(os.path.join(os.path.dirname(folder), "torch-*.dist-info", "METADATA"))
    cudnn = re.search(r"nvidia-cudnn-cu\d+ *\(?==(\d+)\.(\d+)\.(\d+)", "".join(map(read, metadata)))
    if cudnn:
        major, minor, patch = (int(part) for part in cudnn.groups())
        number = major * 10000 + minor * 100 + patch if major >= 9 else major * 1000 + minor * 100 + patch
        os.environ["PTMEM_SIMULATE_CUDNN"] = str(number)


def add_stand_ins(folder):
    """Has ptmem add what the libraries of the PyTorch in a folder want: once for each run and PyTorch."""
    import hashlib
    import subprocess

    program = os.environ.get("PTMEM_SIMULATE_PROGRAM")
    libraries = os.path.join(folder, "lib")
    done = os.path.join(HERE, hashlib.sha1(folder.encode()).hexdigest() + ".stand-ins")
    if not program or os.path.exists(done) or not os.path.isdir(libraries):
        return
    own = ("LD_PRELOAD", "LD_LIBRARY_PATH")  # ptmem itself uses no GPU.
    environment = {name: value for name, value in os.environ.items() if name not in own}
    try:
        subprocess.call([program, "stand-ins", libraries, os.path.join(os.path.dirname(HERE), "lib")], env=environment)
    except OSError as error:
        sys.stderr.write(f"ptmem simulate: {program}: cannot be started: {error}\n")
    open(done, "w").close()


def load_stand_ins():
    """Loads the stand-ins before PyTorch loads NVIDIA's libraries from packages: the loader then finds them by name."""
    import ctypes
    import glob

    for path in sorted(glob.glob(os.path.join(os.path.dirname(HERE), "lib", "*.so.*"))):
        ctypes.CDLL(path)


class Finder:
    """Finds a module as the other finders do, and is told of it before and after it is imported.

    Programs ask whether a module is there before they import it, or never import it: each answer is for itself.
    """

    def __init__(self, name, before=None, after=()):
        self.name = name
        self.before = before
        self.after = after

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        others = (finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec"))
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        if spec is None or spec.loader is None or not spec.origin:
            return spec
        execute = spec.loader.exec_module

        def execute_and_tell(module):
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            if self.before:
                self.before(os.path.dirname(spec.origin))
            execute(module)
            for tell in self.after:
                tell(module)

        spec.loader.exec_module = execute_and_tell
        return spec


def has_addr2line():
    """True if the program is there that PyTorch asks for the names of C++ frames."""
    import shutil

    return shutil.which("addr2line") is not None


def prepare(folder):
    """Prepares what must be there before the PyTorch in a folder is loaded."""
    set_versions(folder)
    add_stand_ins(folder)
    load_stand_ins()
    # Releases from 2.8 on then name C++ frames themselves: addr2line takes seconds and adds no name that a report
    # shows.
    os.environ.setdefault("TORCH_SYMBOLIZE_MODE", "dladdr")


def later(file, name):
    """A function of a file beside this one, which is read when it is needed."""

    def tell(module):
        import importlib

        getattr(importlib.import_module("ptmem_simulate_" + file), name)(module)

    return tell


def start_recorder(torch):
    """Records, if `--record` asks for it."""
    recording = os.environ.get("PTMEM_SIMULATE_RECORD")
    if recording:
        Recorder(torch, recording).start()
    else:
        add_facts_to_dumps(torch)


def add_facts_to_dumps(torch):
    """Lets a snapshot that the program writes itself say where its code came from, as one of `--record` does."""
    import ptmem_simulate_facts as tools

    memory = torch.cuda.memory
    dump = getattr(memory, "_dump_snapshot", None)
    if dump is None:
        return
    facts = tools.Facts("ptmem simulate", None)
    facts.torch = torch
    facts.ran = what_ran()

    def dump_with_facts(filename="dump_snapshot.pickle", *arguments, **options):
        if arguments or options:
            return dump(filename, *arguments, **options)
        facts.note_rank()
        snapshot = facts.snapshot()
        later("operators", "add_facts")(snapshot)
        return tools.write(str(filename), snapshot)

    memory._dump_snapshot = dump_with_facts


def what_ran():
    """The digests that identify this program, with the files that it opens."""
    import ptmem_simulate_opened as opened
    import ptmem_simulate_ran as ran

    return ran.Ran(opened.files)


def note(name, line):
    """Adds a line to a file of the run, which ptmem reads when the command has ended."""
    with open(os.path.join(HERE, name), "a", encoding="utf-8") as file:
        file.write(line.replace("\n", " ") + "\n")


class Recorder:
    """Records the history of the allocator, of all of the process or of some steps of its optimizer."""

    def __init__(self, torch, text):
        import ptmem_simulate_exit as leaving
        import ptmem_simulate_facts as facts

        # first;last;path, with empty numbers where all is recorded, and a plus where the program goes on after the last
        first, last, path = text.split(";", 2)
        self.torch = torch
        self.first = int(first) if first else None
        self.last = int(last.rstrip("+")) if last else None
        self.ends = not last.endswith("+")
        self.path = path
        self.tools = facts
        #: In place of a history, where the file is for the counters alone.
        self.peaks = facts.Peaks(torch) if facts.holds_figures(path) else None
        self.history = facts.HeldHistory(torch)
        self.facts = facts.Facts("ptmem simulate", (self.first, self.last) if first else None)
        self.facts.torch = torch
        self.facts.ran = what_ran()
        self.facts.counter = self.counter = facts.StepCounter(torch, self.facts)
        if self.peaks is None:
            import ptmem_simulate_outermost as outermost

            self.facts.calls = outermost.OutermostCalls(facts.allocations_of_devices)
            self.facts.calls.install(torch)
            self.history.hold()
        self.exit = leaving.Exit()
        self.process = None
        self.began = None
        self.watch = None
        #: The options that turned the history on; None while it is off.
        self.options = None
        #: Why C++ frames have no names here, once that was asked; empty if they have.
        self.unnamed = None
        self.done = False
        self.failed = False
        #: Whether the garbage collector may run when the snapshot is taken.
        self.collects = True

    def start(self):
        import atexit

        asked = os.environ.get("PTMEM_SIMULATE_WATCH")
        if asked and self.peaks is None:
            import ptmem_simulate_watch as watch

            self.watch = watch.Watch(self.torch, shapes=asked == "shapes")
            lacks = self.watch.lacks()
            if lacks:
                sys.stderr.write(f"ptmem simulate: {lacks}\n")
        self.torch.cuda._lazy_call(self.first_use)
        atexit.register(self.at_exit)
        self.watch_ranks()
        if self.peaks is None:
            import ptmem_simulate_recomputation as recomputation

            recomputation.Stops(self.torch, self.set_context).install()
        try:
            from torch.optim.optimizer import register_optimizer_step_post_hook
        except ImportError:
            return
        register_optimizer_step_post_hook(self.count)

    def watch_ranks(self):
        """Notes the rank of this process before its group is gone: programs end that before they end."""
        import torch.distributed as public

        if not public.is_available():
            return
        import torch.distributed.distributed_c10d as c10d

        destroy = c10d.destroy_process_group

        def note_and_destroy(*arguments, **options):
            self.facts.note_rank()
            return destroy(*arguments, **options)

        c10d.destroy_process_group = public.destroy_process_group = note_and_destroy

    def first_use(self):
        """History is on from the first use of CUDA, so that every block has frames."""
        import time
        from multiprocessing import util

        lack = self.lack_of_history()
        if lack:
            note("accounted", str(os.getpid()))
            self.fail(lack)
            self.done = True
            return
        self.process = os.getpid()
        self.began = time.monotonic()
        # A forked process of multiprocessing ends without what `atexit` has.
        util.Finalize(None, self.at_exit, exitpriority=-1000)
        self.record()
        observe = getattr(self.torch._C, "_cuda_attach_out_of_memory_observer", None)
        if observe is not None:
            observe(self.out_of_memory)

    def lack_of_history(self):
        """Why the allocator of this process cannot be recorded; None if it can."""
        if "PYTORCH_NO_CUDA_MEMORY_CACHING" in os.environ:
            return "PYTORCH_NO_CUDA_MEMORY_CACHING is set: PyTorch's allocator then counts nothing; unset it"
        backend = self.torch.cuda.memory.get_allocator_backend()
        if backend != "native":
            return (
                f"the allocator is {backend}, which records no history and counts no allocations; take the backend out "
                "of PYTORCH_ALLOC_CONF or PYTORCH_CUDA_ALLOC_CONF"
            )
        return None

    def record(self):
        """Turns the history on, and notes the counters where it begins."""
        with self.tools.collected():
            self.turn_on()
            self.facts.begin()

    def turn_on(self):
        if self.peaks is not None:
            self.peaks.begin()
            return
        # Releases before 2.8 cannot name C++ frames without addr2line.
        asked = os.environ.get("PTMEM_SIMULATE_STACKS", "all")
        if asked == "all" and self.unnamed is None:
            self.unnamed = self.tools.lack_of_cpp_names(self.torch) or ""
            if self.unnamed:
                sys.stderr.write(
                    f"ptmem simulate: PyTorch cannot name C++ frames here ({self.unnamed}): only Python frames are "
                    "recorded\n"
                )
        asked = "python" if self.unnamed else asked
        stacks = asked if has_addr2line() else "python"
        newest = {"max_entries": sys.maxsize, "stacks": asked, "clear_history": True}
        ways = (
            ((), {**newest, "record_pinned_host_memory": True}),  # 2.14 and later
            ((), newest),
            ((), {"max_entries": sys.maxsize, "stacks": stacks}),
            ((True,), {"trace_alloc_max_entries": sys.maxsize, "trace_alloc_record_context": True}),  # 2.0
        )
        for arguments, options in ways:
            try:
                with self.history.opened():
                    self.torch.cuda.memory._record_memory_history(*arguments, **options)
            except TypeError:
                continue
            self.options = options
            return

    def set_context(self, context):
        """Records stacks of allocations alone, or of frees, too, from now on. The history goes on."""
        if self.options is not None:
            options = {**self.options, "context": context, "clear_history": False}
            with self.history.opened():
                self.torch.cuda.memory._record_memory_history(**options)

    def begin_anew(self):
        """Forgets the history so far; blocks keep their frames."""
        with self.tools.collected():
            if self.watch is not None:
                self.watch.begin(self.tools.snapshot_of(self.torch))
            # Releases from 2.3 to 2.7 forget it when it is turned off, and in no other way.
            self.turn_off()
            self.record()

    def turn_off(self):
        self.options = None
        if self.peaks is None:
            with self.history.opened():
                self.torch.cuda.memory._record_memory_history(None)

    def count(self, optimizer, *_):
        """Counts steps from the first use of a device on: before, a program may train on the host."""
        if self.process is None or self.done or not self.counter.count(optimizer):
            return
        self.facts.end_step()
        if self.process != os.getpid():
            return
        self.tell_steps()
        if self.counter.steps == self.last:
            if not self.counter.is_on_device:
                sys.stderr.write("ptmem simulate: the recorded steps are those of an optimizer on the host\n")
            self.dump("whole")
            self.done = True
            self.history.release()
            if self.ends:
                later("answers", "end_program")(lambda: note("stopped", str(self.process)))
        elif self.first is not None and self.counter.steps == self.first - 1:
            self.begin_anew()

    def tell_steps(self):
        """Writes the number of steps, and the last one to record, to the file that who waits for them reads."""
        path = os.environ.get("PTMEM_SIMULATE_STEPS")
        if not path:
            return
        try:
            with open(path, "w", encoding="ascii") as file:
                file.write(f"{self.counter.steps} {self.last or ''}")
        except OSError:
            pass  # Nobody reads it any more.

    def out_of_memory(self, *_):
        """Writes what there is, also before the steps to record: a program that fails there never comes to them."""
        if not self.done:
            self.dump("oom")
            self.failed = True

    def at_exit(self):
        if os.getpid() != self.process:
            return
        if not self.done:
            self.done = True
            self.exit.note_status(HERE)
            failure = self.exit.failure()
            if not self.dump_out_of_reach(failure):
                self.dump_at_exit(failure)
        note("accounted", str(self.process))
        # Memory freed after Python has ended must not request a stack from it: PyTorch would wait forever.
        self.turn_off()

    def dump_out_of_reach(self, failure):
        """Writes in another process what a process of multiprocessing recorded, and waits for it. False if it failed.

        Servers kill such a process seconds after they ask it to end, and naming C++ frames can take longer.
        """
        import fcntl
        from multiprocessing import parent_process

        if parent_process() is None:
            return False
        done, end = os.pipe()
        between = os.fork()
        if between == 0:
            try:
                os.close(done)
                os.setsid()
                if os.fork() == 0:
                    with open(os.path.join(HERE, "writing"), "a", encoding="utf-8") as lock:
                        fcntl.flock(lock, fcntl.LOCK_SH)  # ptmem waits for it.
                        self.torch.cuda._is_in_bad_fork = lambda: False  # It reads counters only.
                        self.collects = False  # What it frees may belong to the other process, such as files.
                        self.dump_at_exit(failure)
                        os.write(end, b"1")
            finally:
                os._exit(0)
        os.close(end)
        os.waitpid(between, 0)
        with os.fdopen(done, "rb") as answer:
            return answer.read() == b"1"

    def dump_at_exit(self, failure):
        if self.failed and isinstance(failure, getattr(self.torch.cuda, "OutOfMemoryError", ())):
            return  # The snapshot of the moment when memory ran out stays.
        self.facts.note_rank()
        # A process that only asks the device what it can do, such as a compile worker, makes no steps.
        if self.last is not None and failure is None and (self.facts.rank or self.facts.allocates()):
            process = f"rank {self.facts.rank[0]}: " if self.facts.rank else ""
            if not process and self.counter.steps == 0:
                # A program may start others, which have no optimizer. Their arguments may be secret, or of any type.
                name = os.path.basename(str(next(iter(sys.argv), "")))
                process = f"{name}: " if name else ""
            self.fail(f"{process}{self.counter.made()}; expected {self.last}, the last of those to record")
        # Of a program that ends before the steps to record, nothing is to be compared.
        if self.first is not None and self.counter.steps < self.first - (failure is not None):
            return
        if failure is None:
            self.dump("whole")
        else:
            self.dump("exception", failure if isinstance(failure, str) else self.tools.last_line(failure))

    def fail(self, problem):
        """Fails the run for a reason, unless the command itself fails."""
        note("problems", problem)

    def claim(self, path):
        """Makes this process the one that writes a file, unless another used the GPU at the same time."""
        import fcntl
        import hashlib
        import time

        owner = os.path.join(HERE, hashlib.sha1(path.encode()).hexdigest() + ".owner")
        with open(owner, "a+", encoding="utf-8") as file:
            # Processes that end together would both find no owner.
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            process, _, written = file.read().partition(" ")
            if process and process != str(self.process):
                if float(written) > self.began:
                    why = f", and have no rank by which to name their files: {path} is that of the first"
                    if ALONE:
                        why = ": with --world-size, or ranks of a gate, the command must be one rank, in one process"
                    self.fail(f"processes {process} and {self.process} used the GPU at the same time{why}")
                    return False
                sys.stderr.write(
                    f"ptmem simulate: {path}: replaces the recording of process {process}, which has ended\n"
                )
            file.truncate(0)
            file.write(f"{self.process} {time.monotonic()}")
        return True

    def dump(self, ending, message=""):
        self.facts.note_rank()
        # For a rank that runs alone, ptmem has named the file.
        path = self.path if ALONE else self.tools.path_of_rank(self.path, self.facts.rank)
        # A process that took no memory has nothing to record, unless its first request did not fit.
        if (ending != "oom" and not self.facts.allocates()) or not self.claim(path):
            return
        try:
            self.write(path, ending, message)
        except (OSError, RuntimeError) as error:
            self.fail(f"{path}: cannot be written: {error}")
            return
        note("accounted", str(self.process))
        note("recorded", path)
        if self.exit.status_file is not None:
            note("statuses", f"{os.path.basename(self.exit.status_file)} {path}")

    def write(self, path, ending, message):
        if self.peaks is not None:
            figures = self.facts.figures(self.peaks, ending, message)
            later("operators", "add_facts")(figures)
            self.tools.write_figures(path, figures)
            return
        with self.tools.collector_paused():
            snapshot = self.facts.snapshot(ending, message)
            later("operators", "add_facts")(snapshot)
            if self.watch is not None:
                self.watch.add_to(snapshot)
            if ending == "whole" and self.collects:
                self.facts.note_collected(snapshot, self.turn_off)
        self.tools.write(path, snapshot)


ALONE = "PTMEM_SIMULATE_ALONE" in os.environ

ANSWERS = (
    later("operators", "install"),
    later("one_rank", "stand_for_peers") if ALONE else later("ranks", "exchange_objects"),
    later("ranks", "tell_sizes_of_splits"),
    later("ranks", "settle_buckets"),
    later("answers", "settle_threads"),
)

later("opened", "watch")(None)
run_the_other_sitecustomize()
sys.meta_path.insert(0, Finder("torch", prepare, (start_recorder, *ANSWERS)))
sys.meta_path.insert(0, Finder("transformers.generation.utils", after=(later("answers", "end_beams"),)))
sys.meta_path.insert(0, Finder("torchvision.extension", after=(later("operators", "install_vision"),)))
if ALONE:
    stages = "torch.distributed.pipelining.stage"
    sys.meta_path.insert(0, Finder(stages, after=(later("one_rank", "derive_gradients"),)))
# The list of files that torch.compile leaves alone; up to 2.2 it is the second.
for name in ("trace_rules", "skipfiles"):
    sys.meta_path.insert(0, Finder("torch._dynamo." + name, after=(later("answers", "hide_from_compiler"),)))
sys.meta_path.insert(0, Finder("triton.common.build", after=(later("answers", "name_the_driver"),)))
sys.meta_path.insert(0, Finder("deepspeed.runtime.zero.utils", after=(later("ranks", "agree_on_lists"),)))
if "PTMEM_SIMULATE_RECORD" in os.environ:
    sys.meta_path.insert(0, Finder("torch.cuda.nvtx", after=(later("ranges", "name_ranges"),)))
    sys.meta_path.insert(0, Finder("megatron.core.timers", after=(later("ranges", "name_timers"),)))
# The library asks for it when the process takes memory of a device.
if "torch" not in sys.modules:
    os.environ["PTMEM_SIMULATE_HOOK"] = "ran"
