//! Mistakes in the table `[time]`, and in the clocks of hosts.

use super::{Case, case, here};

pub(super) const CASES: &[Case] = &[
    // Time.
    here(
        "duration = \"90 s\"",
        "duration = 90",
        "a length of time needs a unit",
    ),
    here(
        "duration = \"90 s\"",
        "duration = \"90 parsecs\"",
        "the unit must be",
    ),
    here(
        "duration = \"90 s\"",
        "duration = \"0 s\"",
        "must be greater than 0",
    ),
    here(
        "mode = \"virtual\"",
        "mode = \"virtul\"",
        "`virtul` is not known here; did you mean `virtual`?",
    ),
    case(
        "mode = \"virtual\"",
        "mode = \"real\"",
        "dilation = 2",
        "real time cannot be dilated",
    ),
    Case {
        replace: "mode = \"virtual\"",
        with: "mode = \"real\"\ntsc = \"emulate\"",
        line: "tsc = \"emulate\"",
        message: "in real time the counter is the machine's",
        count: 2, // the dilation is invalid, too
    },
    case(
        "dilation = 2",
        "dilation = 2\ntsc = \"emulated\"",
        "tsc = \"emulated\"",
        "`emulated` is not known here; did you mean `emulate`?",
    ),
    case(
        "dilation = 2",
        "dilation = 2\nproc = \"native\"",
        "proc = \"native\"",
        "`native` is not known here; known: `virtual`, `machine`",
    ),
    case(
        "mode = \"virtual\"",
        "mode = \"stepped\"",
        "stepped = { skip = true",
        "time cannot skip while Open vSwitch processes frames",
    ),
    here(
        "patience = \"30 s\"",
        "patience = \"0 s\"",
        "must be greater than 0",
    ),
    here(
        "patience = \"30 s\"",
        "patient = \"30 s\"",
        "did you mean `patience`?",
    ),
    here(
        "dilation = 2",
        "dilation = 0",
        "a dilation of 0 is out of range",
    ),
    here(
        "start = \"2019-06-03T00:00:00Z\"",
        "start = \"yesterday\"",
        "is not a date and time",
    ),
    here(
        "start = \"500 ms\"",
        "start = \"90 s\"",
        "90 s is not before the end of the run",
    ),
    here(
        "start = \"500 ms\"",
        "start = \"-1 s\"",
        "is before the run begins",
    ),
    here(
        "at = \"22.5 s\"",
        "at = \"2 min\"",
        "120 s is not before the end of the run",
    ),
    here(
        "start = \"23 s\"",
        "start = \"22 s\"",
        "this instant is before the attack begins, at 22.5 s",
    ),
    here("step = \"10 ms\"", "step = \"30 ms\"", "")
        .expect_line("record = {", "cannot be recorded every 100 ms"),
    // Clocks of hosts.
    here(
        "frequency = \"50 ppm\"",
        "frequency = \"50 ppx\"",
        "`50 ppx` is not a frequency error",
    ),
    here(
        "frequency = \"50 ppm\"",
        "frequency = \"-20000 ppm\"",
        "no oscillator has an error of -20000 ppm",
    ),
    here(
        "wander = \"1 ppb\"",
        "wander = \"-1 ppb\"",
        "`wander` is a standard deviation, and -1 ppb cannot be one",
    ),
    here(
        "frequency = \"50 ppm\"",
        "freqency = \"50 ppm\"",
        "unknown key `freqency` in a clock; did you mean `frequency`?",
    ),
    here(
        "temperature = { swing_k = 4.0, period = \"24 h\"",
        "temperature = { swing_k = 400.0, period = \"24 h\"",
        "400 K is too much for an oscillator",
    ),
    // Cores whose cycles a host counts.
    here(
        "governor = \"schedutil\"",
        "governor = \"schedutils\"",
        "`schedutils` is not known here",
    ),
    here(
        "frequencies = [\"600 MHz\", \"0.9 GHz\", \"1200 MHz\"]",
        "frequencies = [\"600 MHz\", \"900\"]",
        "`900` is not a core's frequency: write 1 MHz to 100 GHz",
    ),
    here(
        "frequencies = [\"600 MHz\", \"0.9 GHz\", \"1200 MHz\"]",
        "frequencies = [\"900 MHz\", \"600 MHz\"]",
        "a governor needs 1 to 64 frequencies, in ascending order",
    ),
    here("load = 0.3", "load = 30", "30 is not a share of the time"),
    here(
        "sampling = \"20 ms\"",
        "sampling = \"20 us\"",
        "a governor cannot sample every 20 us",
    ),
    here(
        "switch = \"100 us\"",
        "switch = \"1 s\"",
        "a change of frequency does not take 1 s",
    ),
    case(
        "governor = \"schedutil\"",
        "governor = \"schedutil\"\ntrace = \"cpu.txt\"",
        "governor = \"schedutil\"",
        "a core follows a trace or a governor, not both",
    ),
    case(
        "governor = \"schedutil\"",
        "governor = \"schedutil\"\ncpufreq = \"/sys/devices/system/cpu/cpu0/cpufreq\"",
        "cpufreq = \"/sys/devices/system/cpu/cpu0/cpufreq\"",
        "a core follows either this machine's frequency, or a trace or governor",
    ),
];
