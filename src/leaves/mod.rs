//! Commands beside the gate. Each is a folder that holds everything of its own and uses no other leaf; deleting the folder and its two
//! lines here removes the command.

#[cfg(feature = "simulate")]
mod bisect;
mod doctor;
#[cfg(feature = "simulate")]
mod fit;
mod history;
mod init;
#[cfg(feature = "simulate")]
mod search;
mod settings;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::cli::output::Output;

/// Declares the command of each leaf: its arguments, whose documentation is its help, and `run`.
macro_rules! leaves {
    ($($(#[$condition:meta])* $module:ident: $Command:ident($arguments:ident),)*) => {
        #[derive(Debug, Subcommand)]
        pub(crate) enum Leaf {
            $($(#[$condition])* $Command($module::$arguments),)*
        }

        impl Leaf {
            #[allow(unused_variables, reason = "without leaves")]
            pub(crate) fn run(self, output: &Output) -> Result<ExitCode> {
                match self {
                    $($(#[$condition])* Self::$Command(arguments) => $module::run(&arguments, output),)*
                }
            }
        }
    };
}

leaves! {
    init: Init(InitArguments),
    doctor: Doctor(DoctorArguments),
    history: History(HistoryArguments),
    #[cfg(feature = "simulate")]
    fit: Fit(FitArguments),
    #[cfg(feature = "simulate")]
    bisect: Bisect(BisectArguments),
    settings: Settings(SettingsArguments),
}
