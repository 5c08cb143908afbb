//! Invalid files: each mistake must be reported at its position, and all of them together.

mod containers;
mod machines;
mod network;
mod programs;
mod results;
mod shape;
mod time;
mod timelines;

use timeloom_scenario::{ScenarioErrors, parse};

const EVERYTHING: &str = include_str!("../../examples/everything.toml");

fn errors(text: &str) -> ScenarioErrors {
    parse(text, "lab/test.toml", &[]).expect_err("the scenario is wrong")
}

/// Change to the valid file, with the mistake that it must cause.
struct Case {
    replace: &'static str,
    with: &'static str,
    line: &'static str,
    message: &'static str,
    /// Number of mistakes that the change must cause.
    count: usize,
}

const fn case(
    replace: &'static str,
    with: &'static str,
    line: &'static str,
    message: &'static str,
) -> Case {
    Case {
        replace,
        with,
        line,
        message,
        count: 1,
    }
}

/// Creates a case whose mistake is reported at the changed line.
const fn here(replace: &'static str, with: &'static str, message: &'static str) -> Case {
    case(replace, with, with, message)
}

/// Cases, grouped by the part of the file that they concern.
const CASES: [&[Case]; 8] = [
    shape::CASES,
    time::CASES,
    timelines::CASES,
    containers::CASES,
    machines::CASES,
    network::CASES,
    programs::CASES,
    results::CASES,
];

impl Case {
    const fn counting(self, count: usize) -> Self {
        Self { count, ..self }
    }

    const fn expect_line(self, line: &'static str, message: &'static str) -> Self {
        Self {
            line,
            message,
            ..self
        }
    }
}

#[test]
fn each_mistake_is_found_where_it_stands() {
    let mut wrong = Vec::new();
    for Case {
        replace,
        with,
        line,
        message,
        count,
    } in CASES.into_iter().flatten()
    {
        assert!(
            EVERYTHING.contains(replace),
            "{replace} is in the good file"
        );
        let text = EVERYTHING.replacen(replace, with, 1);
        let Err(errors) = parse(&text, "lab/test.toml", &[]) else {
            wrong.push(format!("{with}: accepted"));
            continue;
        };
        let named = |number: usize| text.lines().nth(number.wrapping_sub(1)).unwrap_or("");
        let hit = errors.mistakes().iter().any(|mistake| {
            named(mistake.line).contains(line.trim_end()) && mistake.to_string().contains(message)
        });
        if !hit || errors.mistakes().len() != *count {
            wrong.push(format!(
                "{with:?}: wanted {message:?} once at {line:?}, got:\n{errors}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn all_mistakes_are_reported_in_the_order_of_the_file() {
    let text = EVERYTHING
        .replacen("seed = 7", "sede = 7", 1)
        .replacen("duration = \"90 s\"", "duration = \"90\"", 1)
        .replacen("essential = true", "essentail = true", 1)
        .replacen("\"T0814\"", "\"T814\"", 1)
        .replacen("after = [\"arpspoof-a\"]", "after = [\"arpspoof-c\"]", 1)
        .replacen("link = [\"s2\", \"s1\"]", "link = [\"s2\", \"s9\"]", 1);
    let errors = errors(&text);
    let lines: Vec<usize> = errors
        .mistakes()
        .iter()
        .map(|mistake| mistake.line)
        .collect();
    assert_eq!(lines.len(), 6, "{errors}");
    assert!(lines.is_sorted(), "{errors}");
    assert!(
        errors
            .to_string()
            .starts_with("lab/test.toml:4:1: unknown key `sede`"),
        "{errors}"
    );
}

#[test]
fn a_brace_that_is_missing_is_one_mistake() {
    let errors = errors(&EVERYTHING.replacen('}', "", 1));
    let [mistake] = errors.mistakes() else {
        panic!("{errors}");
    };
    assert!(mistake.message.contains("not valid TOML"), "{errors}");
}

#[test]
fn a_mistake_is_shown_with_its_text_and_the_fix() {
    let text = EVERYTHING.replacen("mode = \"virtual\"", "mode = \"virtul\"", 1);
    let shown = errors(&text).render(false);
    let expected = r#"error: `virtul` is not known here
 --> lab/test.toml:7:8
  |
7 | mode = "virtul"
  |        ^^^^^^^^
  |
  = help: did you mean `virtual`?"#;
    assert_eq!(shown, expected);
    assert!(errors(&text).render(true).contains('\u{1b}'));
}

#[test]
fn an_empty_file_needs_everything() {
    let errors = errors("");
    let messages: Vec<String> = errors
        .mistakes()
        .iter()
        .map(|m| m.message.clone())
        .collect();
    let expected = [
        "a scenario needs `schema`",
        "a scenario needs `name`",
        "a scenario needs `time`",
    ];
    assert_eq!(messages, expected);
    errors.render(false);
}

/// Only the first hundred mistakes are shown, with the number of the others.
#[test]
fn of_many_mistakes_a_hundred_are_shown_and_the_others_counted() {
    const HEAD: &str = "schema = \"timeloom/1\"\nname = \"many\"\ntime.duration = \"1 s\"\n";
    let many = 3000;
    let hosts: String = (0..many)
        .map(|it| format!("[system.hosts.h{it}]\naddress = \"no\"\n"))
        .collect();
    let programs: String = (0..many)
        .map(|it| format!("[[system.hosts.a.programs]]\nname = \"p{it}\"\nrun = [\"p\"]\nafter = [\"q{it}\"]\n"))
        .collect();
    let programs = format!("[system.hosts.a]\naddress = \"10.0.0.1/24\"\n{programs}");
    // One text with mistakes of parsing, and one with violations of a rule.
    for text in [hosts, programs] {
        let errors = parse(&format!("{HEAD}{text}"), "many.toml", &[]).expect_err("many");
        assert_eq!(errors.count(), many);
        assert!(!errors.is_complete());
        let shown = errors.mistakes();
        assert_eq!(shown.len(), ScenarioErrors::MOST + 1);
        let last = shown.last().expect("there is one");
        assert_eq!(last.message, "at least 2900 more mistakes follow");
        assert_eq!(
            (shown[0].line, shown[99].line - shown[98].line),
            (shown[0].line, shown[1].line - shown[0].line)
        );
        assert!(
            errors
                .render(false)
                .ends_with("others may be their consequences"),
            "{errors}"
        );
    }
}
