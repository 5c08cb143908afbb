//! Runs the input of `timeloom_hostile::INPUTS` that TIMELOOM_INPUT names, under libFuzzer.
#![no_main]

use std::sync::LazyLock;

use timeloom_hostile::{Input, input};

static INPUT: LazyLock<Input> = LazyLock::new(|| {
    let name = std::env::var("TIMELOOM_INPUT");
    input(&name.expect("scripts/fuzz names one by TIMELOOM_INPUT"))
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| INPUT(bytes));
