//! `ptmem completions` and `ptmem man`.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::CommandFactory;

use super::args::Arguments;
use super::output::Output;

pub(super) fn completions(shell: clap_complete::Shell, output: &Output) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "ptmem", &mut script);
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
