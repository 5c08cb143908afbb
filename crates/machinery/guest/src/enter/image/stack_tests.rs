//! Test of the image's stack use, computed from its instructions.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};

use rustix::fs::{MemfdFlags, memfd_create};

use timeloom_abi::calls::{Handler, calls};

/// Stack use of a function by itself, and the functions that it calls.
#[derive(Default)]
struct Function {
    bytes: u64,
    calls: Vec<String>,
}

type Functions = BTreeMap<String, Function>;

/// Returns the output of objdump for the image. (If tests are run on another machine, the image is
/// not at its build path.)
fn objdump(arguments: &[&str]) -> String {
    let copy = memfd_create("image", MemfdFlags::CLOEXEC).expect("there is memory");
    let mut copy = File::from(copy);
    copy.write_all(&super::LINKED.0).expect("it takes it");
    let path = format!("/proc/{}/fd/{}", std::process::id(), copy.as_raw_fd());
    let output = Command::new("objdump")
        .args(arguments)
        .arg(path)
        .stderr(Stdio::inherit())
        .output()
        .expect("binutils are there: the linker is of them");
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
}

/// Returns the function addresses in the words of the global offset table.
fn table() -> BTreeMap<u64, u64> {
    let row = |line: &str| -> Option<(u64, u64)> {
        let (at, rest) = line.split_once(" R_X86_64_RELATIVE")?;
        let (_, to) = rest.split_once("*ABS*+")?;
        Some((hexadecimal(at)?, hexadecimal(to)?))
    };
    objdump(&["-R"]).lines().filter_map(row).collect()
}

fn functions() -> Functions {
    let syntax: &[&str] = match cfg!(target_arch = "x86_64") {
        true => &["-M", "intel"],
        false => &[],
    };
    let text = objdump(&[&["-d", "--no-show-raw-insn"], syntax].concat());
    let header = |line: &str| -> Option<(u64, String)> {
        let (address, name) = line.strip_suffix(">:")?.split_once(" <")?;
        Some((hexadecimal(address)?, name.to_owned()))
    };
    let names: BTreeMap<u64, String> = text.lines().filter_map(header).collect();
    let table = table();
    let mut functions = Functions::new();
    let mut at = String::new();
    for line in text.lines() {
        if let Some((_, name)) = header(line) {
            at = name;
            continue;
        }
        let Some((_, instruction)) = line.split_once(":\t") else {
            continue;
        };
        let instruction = instruction.trim();
        let (what, operands) = instruction
            .split_once(|c: char| c.is_whitespace())
            .unwrap_or_default();
        let line = Line {
            at: &at,
            what,
            operands: operands.trim(),
        };
        let function = functions.entry(at.clone()).or_default();
        match cfg!(target_arch = "x86_64") {
            true => line.of_x86_64(function, &names, &table),
            false => line.of_aarch64(function),
        }
    }
    functions
}

/// Instruction of the function at address `at`.
struct Line<'a> {
    at: &'a str,
    what: &'a str,
    operands: &'a str,
}

impl Line<'_> {
    fn of_x86_64(
        &self,
        function: &mut Function,
        names: &BTreeMap<u64, String>,
        table: &BTreeMap<u64, u64>,
    ) {
        let Self { at, what, operands } = *self;
        match what {
            "push" => function.bytes += 8,
            "sub" if operands.starts_with("rsp,") => {
                function.bytes += hexadecimal(&operands[4..]).expect("a number");
            }
            // Use of the table, directly or by a register: a function whose address is loaded
            // counts as called.
            "call" | "jmp" | "mov" | "lea" if operands.contains('#') => {
                let (_, place) = operands.split_once('#').expect("it has one");
                let place = place.split_whitespace().next().and_then(hexadecimal);
                let place = place.expect("objdump says where");
                let to = table.get(&place).copied().unwrap_or(place);
                match names.get(&to) {
                    // The address is passed to the kernel, which calls the function on a new frame.
                    Some(name) if ENTRIES.contains(&name.as_str()) => {}
                    Some(name) => function.calls.push(name.clone()),
                    None => assert!(!matches!(what, "call" | "jmp"), "{at}: {what} {operands}"),
                }
            }
            "call" if operands.contains('<') => {
                let name = operands.split_once('<').map_or("", |(_, name)| name);
                function.calls.push(name.trim_end_matches('>').to_owned());
            }
            "call" => assert!(!function.calls.is_empty(), "{at}: {what} {operands}"),
            "jmp" if operands.contains('<') && !operands.contains('+') => {
                let (_, name) = operands.split_once('<').expect("it has one");
                let name = name.trim_end_matches('>');
                if name != at && names.values().any(|other| other == name) {
                    function.calls.push(name.to_owned());
                }
            }
            _ => {}
        }
    }

    fn of_aarch64(&self, function: &mut Function) {
        let Self { at, what, operands } = *self;
        if let Some(bytes) = operands.strip_prefix("sp, sp, #") {
            let (bytes, shift) = match bytes.split_once(", lsl #12") {
                Some((bytes, _)) => (bytes, 12),
                None => (bytes, 0),
            };
            if what == "sub" {
                function.bytes += hexadecimal(bytes).expect("a number") << shift;
            }
        } else if let Some((_, bytes)) = operands.split_once("[sp, #-")
            && let Some(bytes) = bytes.strip_suffix("]!")
        {
            function.bytes += bytes.parse::<u64>().expect("a number");
        } else if matches!(what, "bl" | "b") {
            let (_, name) = operands.split_once('<').expect("objdump says where");
            let name = name.trim_end_matches('>');
            if what == "bl" || (name != at && !name.contains('+')) {
                function.calls.push(name.to_owned());
            }
        } else {
            // Calls by a register occur only in the dispatch of system calls, within one function,
            // and for a handler of the program, which has its own frame.
            let known = ["timeloom_trapped", "timeloom_intercepted"];
            let is_stub = at.starts_with("__kernel_");
            let is_known = match what {
                "br" => known.contains(&at) || is_stub,
                "blr" => at == "timeloom_intercepted",
                _ => true,
            };
            assert!(is_known, "{at}: {what}");
        }
    }
}

/// Functions that the kernel calls.
const ENTRIES: [&str; 5] = [
    "timeloom_deferred",
    "timeloom_handler",
    "timeloom_intercepted",
    "timeloom_intercepted_once",
    "timeloom_restorer",
];

/// Bytes that a wait writes below the stack, plus the space for a call's return address if it is
/// not in a register.
const BELOW: u64 = if cfg!(target_arch = "x86_64") {
    208
} else {
    16
};
const RETURN: u64 = if cfg!(target_arch = "x86_64") { 8 } else { 0 };

/// Returns the maximum stack use, in bytes, of a function together with all functions that it
/// calls.
fn deepest(functions: &Functions, name: &str, within: &mut Vec<String>) -> u64 {
    assert!(!within.iter().any(|outer| outer == name), "{within:?}");
    within.push(name.to_owned());
    let Some(function) = functions.get(name) else {
        panic!("{within:?}");
    };
    // A wait writes data where a handler's frame would be (`arch` of the image).
    let below = if name == "timeloom_wait" { BELOW } else { 0 };
    let inner = function.calls.iter();
    let inner = inner.map(|callee| RETURN + deepest(functions, callee, within));
    let most = function.bytes + below + inner.max().unwrap_or(0);
    within.pop();
    most
}

/// Returns the function's own name from a mangled one: `writev` from
/// `_ZN13timeloom_shim6socket6writev17h…E`.
fn last_name(mangled: &str) -> Option<&str> {
    let mut rest = mangled.strip_prefix("_ZN")?;
    let mut last = None;
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let length: usize = rest[..digits].parse().ok()?;
        let part = rest.get(digits..digits + length)?;
        if length == 17 && part.starts_with('h') {
            return last;
        }
        last = Some(part);
        rest = &rest[digits + length..];
    }
}

/// Returns the name of a handler in snake case: `rt_sigaction` for `RtSigaction`.
fn in_snake_case(handler: Handler) -> String {
    let mut text = String::new();
    for letter in format!("{handler:?}").chars() {
        if letter.is_ascii_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

#[test]
fn the_image_takes_no_more_of_the_stack_than_it_makes_sure_of() {
    let functions = functions();
    let handlers = calls().filter_map(|call| call.handler);
    let mut by_name: BTreeMap<String, Handler> = handlers
        .map(|handler| (in_snake_case(handler), handler))
        .collect();
    // Handlers whose functions have other names.
    for (name, handler) in [
        ("status", Handler::IpcStatus),
        ("settime", Handler::TimerfdSettime),
    ] {
        by_name.insert(name.to_owned(), handler);
    }
    let outer = &functions["timeloom_trapped"];
    let mut seen = 0;
    let mut is_over = false;
    for callee in &outer.calls {
        let taken = outer.bytes + RETURN + deepest(&functions, callee, &mut Vec::new());
        let known = last_name(callee).and_then(|name| by_name.get(name));
        seen += usize::from(known.is_some());
        // Parts of waiting handlers that are not inlined may wait themselves.
        let handler = known.copied().unwrap_or(Handler::Nanosleep);
        let most = handler.stack_bytes() as u64;
        println!("{callee}: {taken} of {most} bytes");
        is_over |= taken > most;
    }
    assert!(!is_over);
    assert!(seen > 30, "{seen} of the handlers were found");
    // Stack space that the entries in assembly guarantee.
    for (name, least) in [("timeloom_intercepted", 320), ("timeloom_trapped", 320)] {
        let taken = functions[name].bytes;
        assert!(taken <= least, "{name}: {taken} bytes");
    }
    let kept = deepest(&functions, "timeloom_decide", &mut Vec::new()) + 24;
    assert!(kept <= 320, "{kept} bytes");
}
