//! Virtual dates of files in runs, requested by the scenario or on the command line.

use crate::support::{Lab, Scenario, log_lines};

/// Virtual dates must also reach programs of another user, and in a container.
#[test]
fn files_of_a_run_have_dates_of_the_run() {
    let look = "echo x > \"$1\"/f-$2; sleep 3600; echo x > \"$1\"/g-$2; \
                echo $(stat -c %Y \"$1\"/f-$2) $(stat -c %Y \"$1\"/g-$2)";
    let ask = |name: &'static str| ["sh", "-c", look, "sh", "PLACE", name];
    let scenario = Scenario::lasting("2 h")
        .program('a', "root", &ask("root"), "essential = false")
        .program(
            'a',
            "user",
            &ask("user"),
            "essential = false\nuser = \"65534\"",
        )
        .program('b', "inside", &ask("inside"), "essential = false");
    let place = tempfile::tempdir().expect("a directory");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(place.path(), open).expect("it is ours");
    let text = scenario.to_toml();
    let [outside, inside] = [place.path().to_str().expect("UTF-8"), "/"];
    let (a, b) = text
        .split_once("[system.hosts.b]")
        .expect("there is a host b");
    let text = a.replace("PLACE", outside) + "[system.hosts.b]" + &b.replace("PLACE", inside);
    for is_asked in [true, false] {
        let lab = Lab::with_text(&text);
        let image = super::containers::image(&lab);
        let busybox = image.join("bin/busybox");
        std::os::unix::fs::symlink("/bin/busybox", image.join("bin/stat")).expect("room");
        assert!(busybox.exists());
        let sets = ["time.mode=skip", "system.hosts.b.container.root=image"];
        let options: &[&str] = if is_asked {
            &["--file-times", "virtual"]
        } else {
            &[]
        };
        let run = lab.start_with(options, &sets).wait();
        assert_eq!(run.code, 0, "{}", run.output());
        lab.assert_nothing_left();
        for program in ["root", "user", "inside"] {
            let said = log_lines(&lab.run_path(), program);
            let (_, line) = said.last().expect("it said something");
            let dates: Vec<i64> = line.split(' ').map(|it| it.parse().expect("s")).collect();
            let [first, second] = dates[..] else {
                panic!("{program}: {line}");
            };
            const START_S: i64 = 1_559_520_000;
            match is_asked {
                true => {
                    assert!(
                        (START_S..START_S + 3600).contains(&first),
                        "{program}: {line}"
                    );
                    assert!((START_S + 3600..START_S + 7200).contains(&second), "{line}");
                }
                false => assert!(first > START_S + 86_400, "{program}: {line}"),
            }
        }
    }
}
