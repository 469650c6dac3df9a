//! The binary `larder-bench`: the commands of `larder bench` without the rest of `larder`.

use clap::Parser;
use larder_bench::{BenchCommand, CountingAllocator, UsageError};
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
    match larder_bench::run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("larder-bench: {error:#}");
            ExitCode::from(if error.is::<UsageError>() { 2 } else { 1 })
        }
    }
}
