//! Compiles the library that a run preloads with the same compiler, so that the binary carries it.
//!
//! The library has no dependency and no standard library: the core library of any target for the machine will do, and
//! its functions of C are found in the process that loads it. So a ptmem that is linked with musl embeds the same
//! library.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=library/src");
    println!("cargo::rerun-if-changed=build.rs");
    let library = PathBuf::from(variable("OUT_DIR")).join("libptmem-simulate.so");
    let linux = variable("CARGO_CFG_TARGET_OS") == "linux";
    let made = if linux && matches!(&*variable("CARGO_CFG_TARGET_ARCH"), "x86_64" | "aarch64") {
        compile(&library)
    } else {
        write(&library, "")
    };
    match made {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            println!("cargo::error={reason}");
            ExitCode::FAILURE
        }
    }
}

/// An empty library that stands for the C library while linking.
const EMPTY: &str = "#![no_std]\n#[panic_handler]\nfn panic(_: &core::panic::PanicInfo) -> ! { loop {} }\n";

/// Functions that the library only answers, with how.
const NAMES: &str = "library/src/names.txt";

/// Compiles the library. It names the C library of glibc among those that it needs, so that the loader makes that one
/// ready first; a stand-in for it will do for linking, on systems that have another.
fn compile(library: &Path) -> Result<(), String> {
    let names = fs::read_to_string(NAMES).map_err(|error| format!("{NAMES}: cannot be read: {error}"))?;
    // The library includes it, and exports a function for each.
    write(&library.with_file_name("names.rs"), &format!("names! {{\n{names}}}\n"))?;
    let source = library.with_file_name("libc.rs");
    let libc = library.with_file_name("libc-stand-in.so");
    write(&source, EMPTY)?;
    run(rustc(&source, "libc.so.6").arg("--crate-name=c").arg("-o").arg(&libc))?;
    let mut rustc = rustc(Path::new("library/src/lib.rs"), "libcuda.so.1");
    rustc.args(["-Clink-arg=-Wl,--no-as-needed".into(), format!("-Clink-arg={}", libc.display())]);
    run(rustc.arg("--crate-name=ptmem_simulate").arg("-o").arg(library))
}

/// The compiler for a library without any other, with its name for the loader.
fn rustc(source: &Path, soname: &str) -> Command {
    let target = variable("TARGET");
    let mut rustc = Command::new(variable("RUSTC"));
    rustc.arg(source).args(["--crate-type=cdylib", "--edition=2024", "-Copt-level=s", "-Clto=fat"]);
    rustc.args(["-Ccodegen-units=1", "-Cpanic=abort", "-Cstrip=symbols"]);
    if variable("CARGO_CFG_TARGET_ENV") == "musl" {
        // Else the start files of musl would be linked in.
        rustc.args(["-Ctarget-feature=-crt-static", "-Clink-self-contained=no"]);
    }
    rustc.args(["--target", &target]);
    if let Some(linker) = linker(&target) {
        rustc.arg(format!("-Clinker={linker}"));
    }
    rustc.arg("-Clink-arg=-nostdlib").arg(format!("-Clink-arg=-Wl,-soname,{soname}"));
    rustc
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: cannot be written: {error}", path.display()))
}

fn run(rustc: &mut Command) -> Result<(), String> {
    match rustc.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the library of 'ptmem simulate' does not compile ({status}): {rustc:?}")),
        Err(error) => Err(format!("the compiler cannot be started: {error}: {rustc:?}")),
    }
}

/// The linker configured in Cargo for the target; when cross-compiling, that of its GNU tools.
fn linker(target: &str) -> Option<String> {
    let machine = target.split('-').next().unwrap_or_default();
    let foreign = !variable("HOST").starts_with(machine);
    env::var("RUSTC_LINKER").ok().or_else(|| foreign.then(|| format!("{machine}-linux-gnu-gcc")))
}

/// A variable that Cargo sets for each build script.
fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}
