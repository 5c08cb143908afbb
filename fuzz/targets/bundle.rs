#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| timeloom_hostile::input("bundle")(bytes));
