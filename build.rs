//! Compiles the library of `ptmem simulate` with the same compiler, so that the binary carries it.
//!
//! The library has no dependency and no standard library: the core library of any target for the machine will do, and its
//! functions of C are found in the process that loads it. So a ptmem that is linked with musl embeds the same library.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=simulate/src");
    println!("cargo::rerun-if-changed=build.rs");
    let library = PathBuf::from(variable("OUT_DIR")).join("libptmem-simulate.so");
    let linux = variable("CARGO_CFG_TARGET_OS") == "linux";
    let made = if linux && matches!(&*variable("CARGO_CFG_TARGET_ARCH"), "x86_64" | "aarch64") {
        compile(&library)
    } else {
        std::fs::write(&library, []).map_err(|error| format!("{}: cannot be written: {error}", library.display()))
    };
    match made {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            println!("cargo::error={reason}");
            ExitCode::FAILURE
        }
    }
}

fn compile(library: &Path) -> Result<(), String> {
    let target = variable("TARGET");
    let mut rustc = Command::new(variable("RUSTC"));
    rustc.args(["simulate/src/lib.rs", "--crate-name=ptmem_simulate", "--crate-type=cdylib", "--edition=2024"]);
    rustc.args([
        "--cap-lints=allow",
        "-Copt-level=s",
        "-Clto=fat",
        "-Ccodegen-units=1",
        "-Cpanic=abort",
        "-Cstrip=symbols",
    ]);
    if variable("CARGO_CFG_TARGET_ENV") == "musl" {
        // Else the start files of musl would be linked in.
        rustc.args(["-Ctarget-feature=-crt-static", "-Clink-self-contained=no"]);
    }
    rustc.args(["--target", &target]).arg("-o").arg(library);
    if let Some(linker) = linker(&target) {
        rustc.arg(format!("-Clinker={linker}"));
    }
    rustc.args(["-Clink-arg=-nostdlib", "-Clink-arg=-Wl,-soname,libcuda.so.1"]);
    match rustc.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("the library of 'ptmem simulate' does not compile ({status}): {rustc:?}")),
        Err(error) => Err(format!("the compiler cannot be started: {error}: {rustc:?}")),
    }
}

/// The linker that Cargo was told to use for the target; for another machine than this one, that of its GNU tools.
fn linker(target: &str) -> Option<String> {
    let machine = target.split('-').next().unwrap_or_default();
    let foreign = !variable("HOST").starts_with(machine);
    env::var("RUSTC_LINKER").ok().or_else(|| foreign.then(|| format!("{machine}-linux-gnu-gcc")))
}

/// A variable that Cargo sets for each build script.
fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}
