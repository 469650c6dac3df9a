//! The binary `larder-bench`.

use clap::Parser;
use larder_bench::{BenchCommand, CountingAllocator, UsageError};
use larder_terminal::{exit, remark};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: CountingAllocator<mimalloc::MiMalloc> = CountingAllocator(mimalloc::MiMalloc);

/// Measure Larder and other caches in the same run.
#[derive(Debug, Parser)]
#[command(name = "larder-bench", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: BenchCommand,
}

fn main() -> ExitCode {
    let cli = Cli::try_parse().unwrap_or_else(|error| exit("larder-bench", &error));
    match larder_bench::run(cli.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            remark(&format!("larder-bench: {error:#}"));
            ExitCode::from(if error.is::<UsageError>() { 2 } else { 1 })
        }
    }
}
