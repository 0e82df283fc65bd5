//! Commands beside the gate. Each is a folder that holds everything of its own and uses no other leaf; deleting the folder and its two
//! lines here removes the command.

mod init;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::cli::output::Output;

/// Declares the command of each leaf: its arguments, whose documentation is its help, and `run`.
macro_rules! leaves {
    ($($module:ident: $Command:ident($arguments:ident),)*) => {
        #[derive(Debug, Subcommand)]
        pub(crate) enum Leaf {
            $($Command($module::$arguments),)*
        }

        impl Leaf {
            #[allow(unused_variables, reason = "without leaves")]
            pub(crate) fn run(self, output: &Output) -> Result<ExitCode> {
                match self {
                    $(Self::$Command(arguments) => $module::run(&arguments, output),)*
                }
            }
        }
    };
}

leaves! {
    init: Init(InitArguments),
}
