#![no_main]

use std::panic::{catch_unwind, set_hook};
use std::sync::{Mutex, PoisonError};

/// What the last panic said.
static SAID: Mutex<String> = Mutex::new(String::new());

/// libFuzzer's own hook ends the fuzzer at every panic, also where the product catches it,
/// as those of the crate that reads Parquet. Only one that nobody caught is a finding.
fn keep_caught_panics() {
    set_hook(Box::new(|panic| {
        *SAID.lock().unwrap_or_else(PoisonError::into_inner) = panic.to_string();
    }));
}

libfuzzer_sys::fuzz_target!(init: keep_caught_panics(), |bytes: &[u8]| {
    if catch_unwind(|| timeloom_hostile::input("run_directory")(bytes)).is_err() {
        eprintln!("{}", SAID.lock().unwrap_or_else(PoisonError::into_inner));
        std::process::abort();
    }
});
