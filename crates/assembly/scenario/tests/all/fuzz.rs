//! No text must make the reader panic. Every text that is accepted must be the same after it has
//! been written and read back.

use proptest::prelude::*;
use timeloom_scenario::{Assertion, BitRate, Ipv4Interface, Ready, parse};

const EVERYTHING: &str = include_str!("../../examples/everything.toml");

/// Pieces of scenarios, with which random texts get past the first brackets.
const PIECES: &[&str] = &[
    "schema = \"timeloom/1\"\n",
    "name = \"x\"\n",
    "[time]\n",
    "duration = ",
    "\"1 s\"\n",
    "[system]\n",
    "[[system.links]]\n",
    "between = [\"a\", \"b\"]\n",
    "switches = [\"a\", \"b\", \"a\"]\n",
    "[system.hosts.a]\n",
    "[system.devices.d]\n",
    "address = \"10.0.0.1/24\"\n",
    "[[system.devices.d.registers]]\n",
    "table = \"coil\"\n",
    "at = 65535\n",
    "count = 65535\n",
    "signal = \"p.s\"\n",
    "[simulation.plants.p]\n",
    "step = \"1 ms\"\n",
    "[[attack]]\n",
    "[[check]]\n",
    "assert = \"min(p.s) < 1\"\n",
    "[[panel]]\n",
    "title = \"t\"\n",
    "signals = [{ name = \"p.s\" }]\n",
    "reference = [{ from = 1, to = 2 }]\n",
    "= ",
    "1\n",
    "\n",
    "[",
    "]",
    "{ a = 1 }\n",
    "'",
    "\"",
    "\u{1F980}",
    "\0",
];

fn try_all(text: &str, sets: &[String]) {
    match parse(text, "fuzz.toml", sets) {
        Ok(plan) => {
            let again = parse(&plan.to_toml(), "fuzz.toml", &[]).expect("a plan reads back");
            assert_eq!(again, plan);
        }
        Err(errors) => {
            assert!(!errors.mistakes().is_empty());
            let _ = errors.to_string();
            let _ = errors.render(true);
        }
    }
}

proptest! {
    // The text that fails is printed. A file with seeds would give less information.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text(text in any::<String>(), set in any::<String>()) {
        try_all(&text, &[set]);
    }

    #[test]
    fn any_pieces(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..30)) {
        try_all(&pieces.concat(), &[]);
    }

    #[test]
    fn a_good_file_with_a_hole(at in 0..EVERYTHING.len(), length in 0usize..60, put in ".{0,4}") {
        // The text is sliced at character boundaries only.
        let boundary = |at: usize| (0..=at).rev().find(|&at| EVERYTHING.is_char_boundary(at)).unwrap_or(0);
        let (at, end) = (boundary(at), boundary((at + length).min(EVERYTHING.len())));
        let text = format!("{}{put}{}", &EVERYTHING[..at], &EVERYTHING[end..]);
        try_all(&text, &[]);
    }

    #[test]
    fn a_good_file_with_any_set(
        key in prop::sample::select(&["time.duration", "time.dilation", "attack.dos.at", "system.links.0.rate", "seed", "check.sag.assert"][..]),
        value in "[-0-9a-z.\" /]{0,12}|[0-9]{1,40}(\\.[0-9]{1,30})? ?(s|h|Gbit/s)?",
    ) {
        try_all(EVERYTHING, &[format!("{key}={value}")]);
    }

    #[test]
    fn words_are_read_back(bits in 1u64.., port in 1u16.., text in "[^\0]{1,20}") {
        let rate = BitRate::from_bits_per_s(bits).unwrap();
        prop_assert_eq!(rate.to_string().parse::<BitRate>().unwrap(), rate);
        for ready in [Ready::Tcp(port), Ready::Log(text)] {
            prop_assert_eq!(ready.to_string().parse::<Ready>().unwrap(), ready);
        }
    }

    #[test]
    fn any_word(text in any::<String>()) {
        let _ = text.parse::<BitRate>();
        let _ = text.parse::<Ipv4Interface>();
        let _ = text.parse::<Assertion>();
        let _ = text.parse::<Ready>();
    }

    #[test]
    fn assertions_are_read_back(
        measure in "min|max|mean|first|last", relation in "<|<=|>|>=|==|!=", bound in -1e300f64..1e300,
        from in proptest::option::of(0i64..1 << 40), length in proptest::option::of(0i64..1 << 40),
    ) {
        let mut text = format!("{measure}(p.s.t) {relation} {bound}");
        if let Some(from) = from {
            text += &format!(" from {from} ns");
        }
        if let Some(length) = length {
            text += &format!(" until {} ns", from.unwrap_or(0) + length);
        }
        let assertion: Assertion = text.parse().unwrap();
        prop_assert_eq!(assertion.to_string().parse::<Assertion>().unwrap(), assertion);
    }
}
