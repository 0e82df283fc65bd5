//! `ptmem simulate` around commands that need no PyTorch. What PyTorch does under it is tested where a PyTorch is laid
//! out.

#![cfg(target_os = "linux")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value as Json;
use tempfile::TempDir;

use crate::support::json_schema::JsonSchema;

const PTMEM: &str = env!("CARGO_BIN_EXE_ptmem");

/// Runs a script of the shell on simulated GPUs, with a folder of its own for temporary files.
fn simulate(options: &[&str], script: &str) -> (Output, TempDir) {
    let place = TempDir::new().unwrap();
    let output = command(place.path(), options, &["sh", "-c", script]).output().unwrap();
    (output, place)
}

fn command(place: &Path, options: &[&str], words: &[&str]) -> Command {
    let mut command = Command::new(PTMEM);
    command.arg("simulate").args(options).arg("--").args(words);
    command.env("TMPDIR", place).env_remove("LD_PRELOAD").env_remove("PYTHONPATH").stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn assert_empty(place: &Path) {
    let left: Vec<_> = fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

#[test]
fn exit_codes_and_streams_pass_through_and_nothing_is_left_behind() {
    let (output, place) = simulate(&[], "echo out; echo err >&2; exit 7");
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(text(&output.stdout), "out\n");
    let stderr = text(&output.stderr);
    assert_reads!(stderr => str![[r#"
err
ptmem simulate: ran on 1 simulated GPU (NVIDIA A100-SXM4-80GB, 79.25 GiB); the command failed with exit code 7 before it asked for a CUDA device
"#]]);
    assert_empty(place.path());
    let (output, _) = simulate(&[], "true");
    assert!(text(&output.stderr).contains("is this a PyTorch with CUDA"), "{}", text(&output.stderr));
}

#[test]
fn a_command_that_is_not_there_ends_with_127() {
    let place = TempDir::new().unwrap();
    let output = command(place.path(), &[], &["no-such-command"]).output().unwrap();
    assert_eq!(output.status.code(), Some(127));
    assert_eq!(text(&output.stderr), "ptmem simulate: no-such-command: command not found\n");
    let file = place.path().join("file");
    fs::write(&file, "").unwrap();
    let output = command(place.path(), &[], &[file.to_str().unwrap()]).output().unwrap();
    assert_eq!(output.status.code(), Some(126));
    fs::remove_file(file).unwrap();
    assert_empty(place.path());
}

#[test]
fn a_signal_that_ends_the_command_becomes_its_exit_code() {
    let (output, place) = simulate(&[], "kill -KILL $$");
    assert_eq!(output.status.code(), Some(128 + 9));
    assert_empty(place.path());
}

#[test]
fn a_signal_for_ptmem_reaches_the_command() {
    let place = TempDir::new().unwrap();
    let script = "trap 'echo told; exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    let mut child = command(place.path(), &[], &["sh", "-c", script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    BufRead::read_line(&mut stdout, &mut line).unwrap();
    assert_eq!(line, "ready\n");
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let status = child.wait().unwrap();
    assert_eq!((status.code(), status.signal()), (Some(5), None));
    line.clear();
    BufRead::read_line(&mut stdout, &mut line).unwrap();
    assert_eq!(line, "told\n");
    assert_empty(place.path());
}

/// What cannot be caught must not leave a program behind that nobody waits for.
#[test]
fn a_command_does_not_outlive_a_ptmem_that_is_killed() {
    let place = TempDir::new().unwrap();
    let mut ptmem = command(place.path(), &[], &["sh", "-c", "echo began; read line; echo went on"]);
    let mut ptmem = ptmem.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(ptmem.stdout.take().unwrap());
    let mut text = String::new();
    output.read_line(&mut text).unwrap();
    let input = ptmem.stdin.take();
    ptmem.kill().unwrap();
    ptmem.wait().unwrap();
    // The end of the input would let the command go on.
    drop(input);
    output.read_to_string(&mut text).unwrap();
    assert_eq!(text, "began\n");
}

#[test]
fn search_paths_that_were_set_are_kept_behind() {
    let place = TempDir::new().unwrap();
    let script = "echo \"$PYTHONPATH|$LD_LIBRARY_PATH|$PTMEM_SIMULATE|$LIBRARY_PATH\"";
    let mut command = command(place.path(), &["--gpu", "t4", "--gpus", "2", "--memory", "1GiB"], &["sh", "-c", script]);
    let output = command.env("PYTHONPATH", "/mine").env("LD_LIBRARY_PATH", "/libraries").output().unwrap();
    let line = text(&output.stdout);
    let parts: Vec<_> = line.trim().split('|').collect();
    assert!(parts[0].ends_with("/python:/mine"), "{line}");
    assert!(parts[1].ends_with("/lib:/libraries"), "{line}");
    assert!(parts[2].starts_with("name=Tesla T4;capability=75;processors=40;"), "{line}");
    assert!(parts[2].contains(";memory=1073741824;gpus=2;"), "{line}");
    assert_eq!(parts[3], parts[1].trim_end_matches(":/libraries"), "programs link with the driver's stand-in");
}

#[test]
fn a_run_within_a_run_has_its_own_gpus() {
    let script = format!("{PTMEM} simulate --gpu t4 -- sh -c 'echo $LD_PRELOAD' 2>/dev/null");
    let (output, place) = simulate(&[], &script);
    let preloaded = text(&output.stdout).trim();
    assert!(preloaded.ends_with("/lib/libcuda.so.1") && !preloaded.contains(':'), "{preloaded}");
    assert_empty(place.path());
}

/// Holds a report against its schema, which has all its keys and no other.
fn assert_follows_the_schema(report: &Json) {
    const SCHEMA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/schemas/ptmem.simulate-1.schema.json");
    let schema: Json = serde_json::from_str(&fs::read_to_string(SCHEMA).unwrap()).unwrap();
    assert_eq!(JsonSchema::new(&schema).error(report), None);
    for place in ["", "/gpu", "/tool"] {
        let described = schema.pointer(&place.replace('/', "/properties/")).unwrap();
        let shared = described["$ref"].as_str().map(|reference| reference.trim_start_matches('#'));
        let described = shared.map_or(described, |pointer| schema.pointer(pointer).unwrap());
        let described = described["properties"].as_object().unwrap();
        let written = report.pointer(place).unwrap().as_object().unwrap();
        assert!(described.keys().eq(written.keys()), "{place}: {described:?}");
    }
}

#[test]
fn every_process_of_a_run_is_counted_in_the_report() {
    let place = TempDir::new().unwrap();
    let report = place.path().join("report.json");
    let options = ["--report", report.to_str().unwrap()];
    let output = command(place.path(), &options, &["sh", "-c", "sh -c true; sh -c true; exit 3"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let report: Json = serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap();
    assert_follows_the_schema(&report);
    assert_eq!(report["exit_code"], 3);
    assert_eq!(report["processes"], 3);
    assert_eq!(report["gpu"]["name"], "NVIDIA A100-SXM4-80GB");
}

#[test]
fn variables_have_defaults_unless_the_user_sets_them() {
    let place = TempDir::new().unwrap();
    let variables = ["WANDB_MODE", "CLEARML_OFFLINE_MODE", "PYTHONHASHSEED", "TORCHINDUCTOR_WORKER_START"];
    for (set, expected) in [(None, "offline 1 0 fork\n"), (Some(["online", "0", "7", "spawn"]), "online 0 7 spawn\n")] {
        let script = "echo $WANDB_MODE $CLEARML_OFFLINE_MODE $PYTHONHASHSEED $TORCHINDUCTOR_WORKER_START";
        let mut command = command(place.path(), &[], &["sh", "-c", script]);
        for name in variables {
            command.env_remove(name);
        }
        command.envs(set.into_iter().flat_map(|values| variables.into_iter().zip(values)));
        assert_eq!(text(&command.output().unwrap().stdout), expected);
    }
}

/// A workflow that keeps a cache: the first side would compile and benchmark kernels, and the second find them compiled.
#[test]
fn no_run_finds_what_another_has_compiled() {
    let place = TempDir::new().unwrap();
    let kept = place.path().join("kept");
    let mut command = command(place.path(), &[], &["env"]);
    let names =
        ["TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_FX_GRAPH_REMOTE_CACHE", "TRITON_CACHE_MANAGER"];
    let output = command.envs(names.map(|name| (name, &kept))).output().unwrap();
    let lines: Vec<&str> = text(&output.stdout).lines().collect();
    for name in names {
        let value = lines.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).unwrap();
        assert_ne!(Path::new(value), kept, "{name}");
    }
    assert!(lines.contains(&"TORCHINDUCTOR_AUTOTUNE_REMOTE_CACHE=0"), "{lines:?}");
}

#[test]
fn a_recording_that_was_not_made_is_an_error() {
    let place = TempDir::new().unwrap();
    let file = place.path().join("x.pkl");
    let output = command(place.path(), &["--record", file.to_str().unwrap()], &["true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("x.pkl: not recorded: the command never used a CUDA device"));
    assert_empty(place.path());
}

#[test]
fn a_file_in_a_folder_that_is_not_there_is_refused_before_the_command_runs() {
    for option in ["--record", "--report"] {
        let (output, place) = simulate(&[option, "no/such/folder/file"], "echo ran");
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(text(&output.stdout), "");
        let stderr = text(&output.stderr);
        assert!(
            stderr.contains("no/such/folder/file: cannot be written: there is no folder no/such/folder"),
            "{stderr}"
        );
        assert_empty(place.path());
    }
}

#[test]
fn options_about_allocations_are_refused_where_only_counters_are_recorded() {
    let (output, place) = simulate(&["--record", "x.json,steps=1", "--modules", "--stacks", "python"], "echo ran");
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""));
    assert_reads!(text(&output.stderr) => str!["error: --modules, --stacks: not used, because x.json gets only counters; leave it out"]);
    assert_empty(place.path());
}

#[test]
fn no_place_for_temporary_files_is_an_error_that_names_it() {
    let output = command(Path::new("/no/such/place"), &[], &["true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("/no/such/place"), "{}", text(&output.stderr));
}

/// Compiles C, as the linker of every Rust does.
fn compile(source: &str, out: &Path, options: &[&str]) {
    let file = out.with_extension("c");
    fs::write(&file, source).unwrap();
    let status = Command::new("cc").arg(file).arg("-o").arg(out).args(options).status().unwrap();
    assert!(status.success());
}

fn made_folder(place: &TempDir, name: &str) -> PathBuf {
    let path = place.path().join(name);
    fs::create_dir(&path).unwrap();
    path
}

#[test]
fn what_a_future_pytorch_wants_has_stand_ins() {
    let place = TempDir::new().unwrap();
    let nvidia = made_folder(&place, "nvidia");
    let torch = made_folder(&place, "torch");
    let stand_ins = made_folder(&place, "stand-ins");
    compile(
        "int cudaOfTomorrow(void) { return 7; } int cublasOfTomorrow(void) { return 7; } int cudnnOfTomorrow(void) { return 7; }",
        &nvidia.join("libcudart.so.77"),
        &["-shared", "-fPIC", "-Wl,-soname,libcudart.so.77"],
    );
    compile(
        "int cudaOfTomorrow(void); int cublasOfTomorrow(void); int cudnnOfTomorrow(void); \
         int torch(void) { return cudaOfTomorrow() | cublasOfTomorrow() | cudnnOfTomorrow(); }",
        &torch.join("libtorch.so"),
        &["-shared", "-fPIC", "-L", nvidia.to_str().unwrap(), "-l:libcudart.so.77"],
    );
    let program = place.path().join("program");
    let allowed = "-Wl,--allow-shlib-undefined";
    compile(
        "int torch(void); int main(void) { return torch(); }",
        &program,
        &["-L", torch.to_str().unwrap(), "-ltorch", allowed],
    );

    let output = Command::new(PTMEM).arg("stand-ins").args([&torch, &stand_ins]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        text(&output.stderr).contains("they only return success (cublasOfTomorrow, cudaOfTomorrow, cudnnOfTomorrow)"),
        "{}",
        text(&output.stderr)
    );
    // The library itself, which the stand-ins need, as `ptmem simulate` lays it out.
    let libraries = format!("{}:{}", torch.display(), stand_ins.display());
    let script = format!("LD_LIBRARY_PATH={libraries}:$LD_LIBRARY_PATH {}", program.display());
    let (output, _place) = simulate(&[], &script);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn all_cards_are_listed() {
    let output = Command::new(PTMEM).args(["simulate", "--gpu", "list"]).output().unwrap();
    assert!(output.status.success());
    let list = text(&output.stdout);
    for card in ["t4 ", "h200 ", "rtx-4090 ", "a100 "] {
        assert!(list.lines().any(|line| line.starts_with(card)), "{card}: {list}");
    }
}

/// Programs ask whether a module is there before they import it, as transformers does of PyTorch.
#[test]
fn a_module_that_was_looked_for_is_still_told_of_when_it_is_imported() {
    let place = TempDir::new().unwrap();
    let common = place.path().join("triton/common");
    fs::create_dir_all(&common).unwrap();
    fs::write(common.join("build.py"), "libcuda_dirs = None\n").unwrap();
    let program = "import importlib.util as u; u.find_spec('triton.common.build'); \
                   u.find_spec('triton.common.build'); import triton.common.build as b; print(callable(b.libcuda_dirs))";
    let script = format!("cd {} && python3 -c \"{program}\"", place.path().display());
    let (output, _place) = simulate(&[], &script);
    assert_eq!(text(&output.stdout), "True\n", "{}", text(&output.stderr));
}

/// As a script does that sets the variable for its own packages.
#[test]
fn the_hook_runs_in_a_python_whose_path_was_set_anew() {
    let place = TempDir::new().unwrap();
    fs::write(place.path().join("sitecustomize.py"), "print('mine')\n").unwrap();
    let program = "import sys, sitecustomize; print(any(type(f).__name__ == 'Finder' for f in sys.meta_path))";
    for variable in ["PYTHONPATH=$PLACE", "env PYTHONPATH=$PLACE:$PYTHONPATH"] {
        let script = format!("PLACE={}; {variable} python3 -c \"{program}\"", place.path().display());
        let (output, _place) = simulate(&[], &script);
        assert_eq!(text(&output.stdout), "mine\nTrue\n", "{}", text(&output.stderr));
    }
}

#[test]
fn a_python_that_ran_no_hook_must_not_use_the_gpu() {
    let program = "import ctypes; print(ctypes.CDLL(None).cudaMalloc(ctypes.byref(ctypes.c_void_p()), 1024))";
    let (with, _place) = simulate(&[], &format!("python3 -c '{program}'"));
    assert_eq!((with.status.code(), text(&with.stdout)), (Some(0), "0\n"), "{}", text(&with.stderr));
    for option in ["-I", "-E", "-S"] {
        let (without, _place) = simulate(&[], &format!("python3 {option} -c '{program}'"));
        assert_eq!((without.status.code(), text(&without.stdout)), (Some(2), "0\n"), "{option}");
        let told = "1 of 1 processes that used the GPU are Python processes that did not run ptmem's sitecustomize";
        assert!(text(&without.stderr).contains(told), "{option}: {}", text(&without.stderr));
    }
}

#[test]
fn processes_share_memory_and_what_is_not_supported_is_named() {
    let program = r#"
import ctypes, subprocess, sys
class Handle(ctypes.Structure):
    _fields_ = [("words", ctypes.c_uint64 * 8)]
cuda, handle, address = ctypes.CDLL(None), Handle(), ctypes.c_uint64()
if len(sys.argv) > 1:
    handle = Handle.from_buffer_copy(bytes.fromhex(sys.argv[1]))
    assert cuda.cudaIpcOpenMemHandle(ctypes.byref(address), handle, 1) == 0 and address.value > 0
    assert cuda.cudaIpcCloseMemHandle(address) == 0 and cuda.cudaIpcCloseMemHandle(address) != 0
else:
    assert cuda.cudaMalloc(ctypes.byref(address), 1024) == 0
    assert cuda.cudaIpcGetMemHandle(ctypes.byref(handle), address) == 0
    assert cuda.cuMulticastCreate(ctypes.byref(address), None) == 801
    subprocess.run([sys.executable, __file__, bytes(handle).hex()], check=True)
"#;
    let place = TempDir::new().unwrap();
    let file = place.path().join("share.py");
    fs::write(&file, program).unwrap();
    let output = command(place.path(), &[], &["python3", file.to_str().unwrap()]).output().unwrap();
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert_reads!(stderr => str!["ptmem simulate: ran on 1 simulated GPU (NVIDIA A100-SXM4-80GB, 79.25 GiB); no process asked for a CUDA device: is this a PyTorch with CUDA (pip install torch on Linux)?; not simulated: cuMulticastCreate"]);
}

#[test]
fn lines_of_installed_packages_are_named_with_their_package() {
    let program = "import ptmem_simulate_guesses as guesses; print(*map(guesses.place_of, [\"/e/site-packages/timm/utils.py\", \"/r/train.py\"]))";
    let (output, _place) = simulate(&[], &format!("python3 -c '{program}'"));
    assert_eq!(text(&output.stdout), "timm/utils.py train.py\n", "{}", text(&output.stderr));
}

/// Numbers of the lines whose condition only leads to an error or a message.
#[test]
fn conditions_that_guard_only_messages_are_no_guesses() {
    let program = r#"
assert x.any(), "none"
if (
    x.any()
):
    raise ValueError(x.sum())
if x.any():
    logger.warning("large", x, extra=f"{y}")
    pass
if x.any():
    print(x.sum())
if x.any():
    raise ValueError
elif y.any():
    x = y
if x.any():
    continue_()
while x.any():
    pass
"#;
    let place = TempDir::new().unwrap();
    fs::write(place.path().join("program.py"), program).unwrap();
    let script = "import ptmem_simulate_guesses as guesses; print(*sorted(guesses.guards(\"program.py\")))";
    let output = command(place.path(), &[], &["python3", "-c", script]).current_dir(place.path()).output().unwrap();
    assert_eq!(text(&output.stdout), "2 3 4 7\n", "{}", text(&output.stderr));
}

/// As BoTorch checks the scale of its inputs. `guard` marks the conditions.
#[test]
fn texts_are_made_and_told_by_functions_as_well() {
    let program = r#"
import logging
import warnings

logger = logging.getLogger(__name__)

def check_scaling(x, strict=False, raises=False):
    message = None
    if strict and (x == 0).any():  # guard
        message = "contained"
    elif (x < 0).any() or (x > 1).any():  # guard
        message = "scaled"
    if message is not None:  # guard
        message = f"The data is not {message}. " + "Please scale it: {}".format(x.tolist())
        if raises:  # guard
            raise ValueError(message)
        warnings.warn(message, UserWarning)

def warn_of(x, count=None):
    """Warns, once or again."""
    if count is None:
        logger.warning("bad: %s", x)
        return
    warn_again(x, count)

def warn_again(x, count):
    logging.getLogger("x").warning("%s" % x)
    warn_of(x, count)

def helped(x):
    if x.any():  # guard
        warn_of(x)

def decides(x):
    mode = "fast"
    if x.any():
        mode = "slow"
    if mode == "slow":
        x.clone()

def counts(x):
    if x.any():
        warnings.warn(f"{x.sum()}")

def gives(x):
    if x.any():
        message = "bad"
        warnings.warn(message)
    return message

def returns(x):
    if x.any():
        warnings.warn("bad")
        return None
    return x.clone()

def keeps(x):
    global last
    if x.any():
        last = "bad"

def calls(x):
    if x.any():
        counts(x)
"#;
    let place = TempDir::new().unwrap();
    fs::write(place.path().join("program.py"), program).unwrap();
    let script = "import program, ptmem_simulate_guards as g; print(*sorted(g.guards(program.__file__)))";
    let output = command(place.path(), &[], &["python3", "-c", script]).current_dir(place.path()).output().unwrap();
    let numbered = (1..).zip(program.lines()).filter(|(_, line)| line.ends_with("# guard"));
    let expected: Vec<String> = numbered.map(|(number, _): (u32, _)| number.to_string()).collect();
    assert_eq!(text(&output.stdout).trim(), expected.join(" "), "{}", text(&output.stderr));
}

#[test]
fn only_python_frames_are_recorded_if_asked_or_if_others_have_no_names() {
    let program = r#"
import sitecustomize, sys, types
calls = []
memory = types.SimpleNamespace(_record_memory_history=lambda **options: calls.append(options["stacks"]))
recorder = sitecustomize.Recorder.__new__(sitecustomize.Recorder)
recorder.torch = types.SimpleNamespace(cuda=types.SimpleNamespace(memory=memory))
recorder.peaks = recorder.unnamed = None
recorder.history = __import__("ptmem_simulate_facts").HeldHistory(recorder.torch)
recorder.tools = types.SimpleNamespace(lack_of_cpp_names=lambda torch: sys.argv[1])
recorder.turn_on()
print(*calls)
"#;
    let place = TempDir::new().unwrap();
    let file = place.path().join("a.pkl");
    for (options, lack, stacks) in
        [(&["--stacks", "python"][..], "", "python"), (&[], "", "all"), (&[], "stoi", "python")]
    {
        let options = [&["--record", file.to_str().unwrap()], options].concat();
        let output = command(place.path(), &options, &["python3", "-c", program, lack]).output().unwrap();
        assert_eq!(text(&output.stdout).trim(), stacks, "{}", text(&output.stderr));
    }
}

/// A check of PyTorch's that only raises is a guard, whatever the line of the program does with the result. So is a
/// condition that a function of the program returns, where its caller only tells of it.
#[test]
fn the_line_that_reads_a_value_decides_whether_it_is_a_guard() {
    let library = "import os, ptmem_simulate_guesses as guesses\nOWN = os.path.dirname(guesses.__file__)\n\
                   def check():\n    assert (place := guesses.Place.current(OWN, __file__))\n    return place\n\
                   def test():\n    return guesses.Place.current(OWN, __file__)\n\
                   def validate():\n    if not (place := test()):\n        raise ValueError\n    return place\n";
    let program = "import library\ndef is_bad():\n    return library.test()\n\
                   def checked():\n    if not (place := is_bad()):\n        raise ValueError\n    return place\n\
                   def used():\n    place = is_bad()\n    return place\n\
                   for place in library.check(), library.test(), library.validate(), checked(), used():\n    \
                   print(place.mark(), place.line, place.is_guard())\n";
    let place = TempDir::new().unwrap();
    fs::write(place.path().join("library.py"), library).unwrap();
    fs::write(place.path().join("program.py"), program).unwrap();
    let output = command(place.path(), &[], &["python3", "program.py"]).current_dir(place.path()).output().unwrap();
    let expected = "program.py:<module> 11 True\nprogram.py:<module> 11 False\nprogram.py:<module> 11 True\n\
                    program.py:is_bad 3 True\nprogram.py:is_bad 3 False\n";
    assert_eq!(text(&output.stdout), expected, "{}", text(&output.stderr));
}

#[test]
fn a_pytorch_that_cannot_be_simulated_is_named() {
    let place = TempDir::new().unwrap();
    let torch = place.path().join("torch");
    fs::create_dir(&torch).unwrap();
    fs::write(torch.join("__init__.py"), "print('loaded')").unwrap();
    for (version, cuda, lack) in [
        ("1.13.1+cu117", "'11.7'", "is too old; expected PyTorch 2.0 or later"),
        ("2.11.0+cpu", "None", "is built without CUDA; expected a build with CUDA"),
    ] {
        fs::write(torch.join("version.py"), format!("__version__ = '{version}'\ncuda = {cuda}\n")).unwrap();
        let mut command = command(place.path(), &[], &["python3", "-c", "import torch"]);
        let output = command.env("PYTHONPATH", place.path()).output().unwrap();
        let said = text(&output.stderr);
        assert!(said.contains(&format!("PyTorch {version} in ")) && said.contains(lack), "{said}");
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""), "{said}");
    }
}
