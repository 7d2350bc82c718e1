//! The `peercrawl` binary.

fn main() {}
