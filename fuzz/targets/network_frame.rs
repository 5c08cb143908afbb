#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| timeloom_hostile::input("network_frame")(bytes));
