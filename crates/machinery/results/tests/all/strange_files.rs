//! Run directories of other users in which a file has another type than expected. Readers must
//! refuse such a file at once, with its path and the reason.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use timeloom_results::{MergedLogs, RunDirectory, SweepDirectory, compare_runs};

/// Makes a finished run in a temporary directory.
fn finished() -> (tempfile::TempDir, PathBuf) {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("run");
    let run = RunDirectory::create(&path).unwrap();
    run.log("program").unwrap();
    run.recorder().unwrap().finish().unwrap();
    (scratch, path)
}

/// Kinds of entries that replace a file. A kind that this user may not create is skipped.
const KINDS: [&str; 5] = ["symbolic link", "FIFO", "socket", "device", "directory"];

fn plant(kind: &str, at: &Path, secret: &Path) -> bool {
    let _ = fs::remove_file(at);
    match kind {
        "symbolic link" => symlink(secret, at).unwrap(),
        "FIFO" => mknodat(CWD, at, FileType::Fifo, Mode::RWXU, 0).unwrap(),
        "socket" => drop(std::os::unix::net::UnixListener::bind(at).unwrap()),
        "directory" => fs::create_dir(at).unwrap(),
        // A device that yields zeros without end.
        _ => {
            let zero = makedev(1, 5);
            return mknodat(CWD, at, FileType::CharacterDevice, Mode::RWXU, zero).is_ok();
        }
    }
    true
}

/// Runs `read` and fails if it takes more than a minute, which means that it waits for a FIFO.
fn promptly<T: Send + 'static>(read: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, wait) = channel();
    std::thread::spawn(move || done.send(read()));
    wait.recv_timeout(Duration::from_secs(60))
        .expect("it waits for what was planted")
}

type Reader = fn(&RunDirectory) -> Result<(), timeloom_results::ResultsError>;

/// Every file that readers open, with a function that reads it.
const READERS: [(&str, Reader); 9] = [
    ("manifest.json", |run| run.manifest().map(drop)),
    ("checks.json", |run| run.checks().map(drop)),
    ("topology.json", |run| run.topology().map(drop)),
    ("scenario.toml", |run| run.scenario().map(drop)),
    ("signals.parquet", |run| run.all_series().map(drop)),
    ("events.parquet", |run| run.events().map(drop)),
    ("clock.parquet", |run| run.clock().map(drop)),
    ("labels.parquet", |run| run.labels().map(drop)),
    ("logs/program.log", |run| {
        MergedLogs::new(run, &[]).look()?;
        compare_runs(run, run).map(drop)
    }),
];

#[test]
fn special_files_are_refused_at_once_with_their_path_and_kind() {
    for (name, read) in READERS {
        for kind in KINDS {
            let (scratch, path) = finished();
            let secret = scratch.path().join("secret");
            fs::write(&secret, "of another user").unwrap();
            // The lock file marks a directory as a run, whatever else the directory contains.
            fs::create_dir(path.join("journal")).unwrap();
            fs::write(path.join("journal/lock"), "").unwrap();
            if !plant(kind, &path.join(name), &secret) {
                continue;
            }
            let refused = promptly(move || read(&RunDirectory::open(path).unwrap()));
            let refused = refused.expect_err(name).to_string();
            for word in [name, kind] {
                assert!(refused.contains(word), "no {word:?} in {refused:?}");
            }
            assert!(!refused.contains("of another user"), "{refused}");
        }
    }
}

#[test]
fn a_document_of_terabytes_is_refused_before_it_is_read() {
    for (name, read) in &READERS[..4] {
        let (_scratch, path) = finished();
        let file = File::create(path.join(name)).unwrap();
        // A sparse file.
        file.set_len(4 << 40).unwrap();
        let refused = read(&RunDirectory::open(&path).unwrap()).expect_err(name);
        let refused = refused.to_string();
        assert!(
            refused.contains(name) && refused.contains("MiB"),
            "{refused}"
        );
    }
    // The entry must not be opened even to determine whether the directory is a run.
    let scratch = tempfile::tempdir().unwrap();
    let file = File::create(scratch.path().join("manifest.json")).unwrap();
    file.set_len(4 << 40).unwrap();
    assert!(RunDirectory::open(scratch.path()).is_err());
}

/// A log that is one long line of zeros must not be read into memory as a whole.
#[test]
fn a_log_without_ends_of_lines_is_read_in_pieces() {
    let (_scratch, path) = finished();
    let file = File::options()
        .write(true)
        .open(path.join("logs/program.log"));
    file.unwrap().set_len(64 << 20).unwrap();
    let run = RunDirectory::open(&path).unwrap();
    let mut logs = MergedLogs::new(&run, &[]);
    logs.complete();
    logs.look().unwrap();
    let mut pieces = 0;
    while let Some(line) = logs.next_line().unwrap() {
        assert!(line.text.len() <= 64 << 10);
        pieces += 1;
    }
    assert_eq!(pieces, 64 << 20 >> 16);
    assert_eq!(compare_runs(&run, &run).unwrap().text, None);
}

#[test]
fn names_of_other_places_open_nothing() {
    let (scratch, path) = finished();
    fs::write(scratch.path().join("outside.log"), "of another user").unwrap();
    let run = RunDirectory::open(&path).unwrap();
    let long = "x".repeat(5000);
    let deep = "d/".repeat(3000);
    for name in [
        "../../outside",
        "/etc/hostname",
        "",
        ".",
        "..",
        "a\0b",
        &long,
        &deep,
    ] {
        assert!(run.open_log(name).is_err(), "{name:.20}");
        assert!(
            run.timeline_page("a", name).ok().flatten().is_none(),
            "{name:.20}"
        );
    }
}

#[test]
fn a_sweep_reads_and_writes_nothing_through_a_link() {
    let scratch = tempfile::tempdir().unwrap();
    let (victim, path) = (scratch.path().join("victim"), scratch.path().join("sweep"));
    fs::create_dir(&victim).unwrap();
    fs::write(victim.join("precious"), "precious\n").unwrap();
    let sweep = SweepDirectory::make(&path).unwrap();
    for folder in ["runs", "console"] {
        symlink(&victim, path.join(folder)).unwrap();
        assert!(sweep.make_folders().is_err(), "{folder}");
        fs::remove_file(path.join(folder)).unwrap();
    }
    sweep.make_folders().unwrap();
    for (name, write) in [
        (
            "sweep.html",
            SweepDirectory::write_page as fn(&SweepDirectory, &str) -> _,
        ),
        ("sweep.json", |sweep: &SweepDirectory, text: &str| {
            sweep.write_definition(text).map(|()| PathBuf::new())
        }),
    ] {
        symlink(victim.join("precious"), path.join(name)).unwrap();
        write(&sweep, "text").unwrap();
        assert_eq!(fs::read_to_string(path.join(name)).unwrap(), "text");
    }
    symlink(victim.join("precious"), path.join("console/1.txt")).unwrap();
    assert_eq!(sweep.last_console_line("1"), None);
    drop(sweep.console("1").unwrap());
    symlink(&victim, path.join("runs/1")).unwrap();
    assert!(sweep.run("1").is_err());
    assert!(sweep.remove_run("1").is_err());
    let precious = fs::read_to_string(victim.join("precious")).unwrap();
    assert_eq!(precious, "precious\n");
}

#[test]
fn a_page_replaces_a_file_and_goes_through_no_link() {
    let (scratch, path) = finished();
    let precious = scratch.path().join("precious");
    fs::write(&precious, "precious\n").unwrap();
    let run = RunDirectory::open(&path).unwrap();
    for kind in KINDS {
        let place = scratch.path().join(format!("{kind}.html"));
        if !plant(kind, &place, &precious) {
            continue;
        }
        let (run, file) = (run.clone(), format!("{kind}.html"));
        let refused = promptly(move || run.write_beside(&file, "<html>")).unwrap_err();
        assert!(refused.to_string().contains("--output"), "{refused}");
    }
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious\n");
    for text in ["<html>", "<html>again"] {
        let page = run.write_beside("page.html", text).unwrap();
        assert_eq!(page, scratch.path().join("page.html"));
        assert_eq!(fs::read_to_string(page).unwrap(), text);
    }
    let names = fs::read_dir(scratch.path()).unwrap();
    let partial = names.filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().ends_with("partial")
    });
    assert_eq!(partial.count(), 0);
}

/// Results that agents sent are part of the run, even if they were not merged.
#[test]
fn leftovers_of_agents_go_with_the_run_and_other_folders_are_in_the_way() {
    let (_scratch, path) = finished();
    let run = RunDirectory::open(&path).unwrap();
    let incoming = run.make_incoming("a").unwrap();
    assert!(incoming.is_empty());
    for name in ["manifest.json", "logs/x.log"] {
        incoming.create(name).unwrap();
        assert!(incoming.create(name).is_err(), "twice");
    }
    let long = format!("logs/{}.log", "x".repeat(5000));
    for name in [
        "../manifest.json",
        "files/x",
        "logs/a/b.log",
        "logs/.log",
        &long,
    ] {
        assert!(incoming.create(name).is_err(), "{name:.20}");
    }
    fs::create_dir(path.join("from-home")).unwrap();
    fs::write(path.join("from-home/letter"), "precious").unwrap();
    let refused = run.make_incoming("a").unwrap_err().to_string();
    assert!(refused.contains("from-a"), "{refused}");
    let again = RunDirectory::replace(&path).unwrap();
    assert!(!path.join("from-a").exists());
    drop(again.make_incoming("a").unwrap());
    let refused = again.make_incoming("home").unwrap_err().to_string();
    assert!(refused.contains("from-home"), "{refused}");
    assert!(path.join("from-home/letter").exists());
}
