//! `ptmem completions` and `ptmem man`.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Command, CommandFactory};

use super::args::Arguments;
use super::output::Output;

pub(super) fn completions(shell: clap_complete::Shell, output: &Output) -> Result<ExitCode> {
    let all = Arguments::command();
    let shown = all.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let arguments = all.get_arguments().cloned();
    let mut shown = Command::new("ptmem").version(env!("CARGO_PKG_VERSION")).args(arguments).subcommands(shown);
    if let Some(about) = all.get_long_about() {
        shown = shown.long_about(about.clone());
    }
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut shown, "ptmem", &mut script);
    output.print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn man(command: Option<&str>, output: &Output) -> Result<ExitCode> {
    output.print(&man_page(command)?)?;
    Ok(ExitCode::SUCCESS)
}

fn man_page(command: Option<&str>) -> Result<String> {
    let mut root = Arguments::command().display_name("ptmem");
    root.build();
    let page = match command {
        None => root,
        Some(name) => {
            let found = root.find_subcommand(name).cloned();
            found.with_context(|| format!("there is no command '{name}'"))?
        }
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(page).render(&mut text)?;
    Ok(String::from_utf8(text)?)
}
