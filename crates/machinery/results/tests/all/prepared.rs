//! Directories prepared by another user: a run must write only into its own directory.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use timeloom_results::{ResultsError, RunDirectory};
use timeloom_test_support::Traces;

const PRECIOUS: &str = "not the run's\n";

/// A finished run, and beside it a file and a directory of another user.
struct Prepared {
    scratch: tempfile::TempDir,
    run: PathBuf,
    victim: PathBuf,
    file: PathBuf,
}

impl Prepared {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let (run, victim) = (scratch.path().join("run"), scratch.path().join("victim"));
        let made = RunDirectory::create(&run).unwrap();
        made.recorder().unwrap().finish().unwrap();
        fs::create_dir(&victim).unwrap();
        let file = victim.join("precious");
        fs::write(&file, PRECIOUS).unwrap();
        Self {
            scratch,
            run,
            victim,
            file,
        }
    }

    /// Replaces an entry by a link.
    fn link(&self, name: &str, to: &Path) {
        let place = self.run.join(name);
        let _ = fs::remove_file(&place);
        let _ = fs::remove_dir_all(&place);
        symlink(to, place).unwrap();
    }

    fn expect_untouched(&self, what: &str) {
        assert_eq!(fs::read_to_string(&self.file).unwrap(), PRECIOUS, "{what}");
        let there = fs::read_dir(&self.victim).unwrap().count();
        assert_eq!(there, 1, "{what}");
    }

    fn assert_nothing_left(&self) {
        Traces::in_directory(self.scratch.path()).assert_nothing_left();
    }
}

#[test]
fn a_folder_that_is_a_link_is_not_emptied() {
    for folder in ["net", "logs", "journal"] {
        let prepared = Prepared::new();
        prepared.link(folder, &prepared.victim);
        let refused = RunDirectory::replace(&prepared.run).unwrap_err();
        assert!(matches!(refused, ResultsError::Link(_)), "{refused}");
        assert!(refused.to_string().contains("symbolic link"), "{refused}");
        prepared.expect_untouched(folder);
        assert!(
            prepared.run.join("events.parquet").exists(),
            "refused before anything was removed"
        );
        prepared.assert_nothing_left();
    }
}

#[test]
fn nothing_is_written_through_a_link() {
    for name in [
        "report.html.partial",
        "report.html",
        "manifest.json.partial",
    ] {
        let prepared = Prepared::new();
        prepared.link(name, &prepared.file);
        let run = RunDirectory::open(&prepared.run).unwrap();
        run.write_report("<html>").unwrap();
        run.write_checks(&[]).unwrap();
        prepared.expect_untouched(name);
        let report = prepared.run.join("report.html");
        assert!(fs::symlink_metadata(&report).unwrap().is_file());
        assert_eq!(fs::read_to_string(&report).unwrap(), "<html>");
        drop(run);
        prepared.assert_nothing_left();
    }
}

#[test]
fn a_journal_is_not_written_through_a_link() {
    for (name, hard) in [
        ("journal/events.jsonl", false),
        ("journal/lock", false),
        ("journal/events.jsonl", true),
    ] {
        let prepared = Prepared::new();
        let run = RunDirectory::replace(&prepared.run).unwrap();
        prepared.link(name, &prepared.file);
        if hard {
            fs::remove_file(prepared.run.join(name)).unwrap();
            fs::hard_link(&prepared.file, prepared.run.join(name)).unwrap();
        }
        assert!(run.recorder().is_err(), "{name}");
        prepared.expect_untouched(name);
    }
    let prepared = Prepared::new();
    let run = RunDirectory::replace(&prepared.run).unwrap();
    prepared.link("events.parquet.partial", &prepared.file);
    run.recorder().unwrap().finish().unwrap();
    prepared.expect_untouched("a table's");
}

#[test]
fn nothing_is_read_through_a_link_or_waited_for() {
    let prepared = Prepared::new();
    prepared.link("checks.json", &prepared.file);
    let run = RunDirectory::open(&prepared.run).unwrap();
    let refused = run.checks().unwrap_err();
    assert!(matches!(refused, ResultsError::Link(_)), "{refused}");
    let pipe = prepared.run.join("manifest.json");
    let made = std::process::Command::new("mkfifo").arg(pipe).status();
    assert!(made.unwrap().success());
    assert!(
        run.manifest()
            .unwrap_err()
            .to_string()
            .contains("a FIFO, not a regular file")
    );
}

#[test]
fn a_directory_that_others_may_write_is_refused() {
    for mode in [0o777, 0o775, 0o1777] {
        let prepared = Prepared::new();
        fs::set_permissions(&prepared.run, Permissions::from_mode(mode)).unwrap();
        let refused = RunDirectory::replace(&prepared.run).unwrap_err();
        assert!(refused.to_string().contains("chmod -R go-w"), "{refused}");
        // The run may be read, but no report may be written into its directory.
        let run = RunDirectory::open(&prepared.run).unwrap();
        assert!(run.write_report("").is_err());
        assert_eq!(run.events().unwrap().len(), 0);
    }
    let prepared = Prepared::new();
    fs::set_permissions(prepared.run.join("net"), Permissions::from_mode(0o777)).unwrap();
    assert!(RunDirectory::replace(&prepared.run).is_err());
}

#[test]
fn a_directory_of_another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return; // only root can change the owner
    }
    let prepared = Prepared::new();
    chown(&prepared.run, Some(65534), None).unwrap();
    let refused = RunDirectory::replace(&prepared.run).unwrap_err();
    assert!(refused.to_string().contains("uid 65534"), "{refused}");
    let run = RunDirectory::open(&prepared.run).unwrap();
    assert!(run.write_report("").is_err());
}
