//! Functions that the tests on virtual cables share.

use std::path::PathBuf;

use timeloom_ptp_io::ProgramControl;
use timeloom_ptp_io::lab::{LabNodeKind, LabOptions, LabReport, run};
use timeloom_time::Duration;

/// Directory that is removed after the test.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("timeloom-ptp-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a chain until its slave has measured a few Syncs. The timeout is long enough for a busy
/// machine, and an idle machine finishes early.
pub(crate) fn lab(
    scratch: &Scratch,
    nodes: &[LabNodeKind],
    change: impl FnOnce(&mut LabOptions),
) -> LabReport {
    let mut options = LabOptions::new(nodes.to_vec(), scratch.0.clone());
    options.duration = Duration::from_s(120);
    // ptp4l measures the first offsets before its servo has locked. With seven, the median is not
    // one of them.
    options.enough = Some(if nodes.last() == Some(&LabNodeKind::Ptp4l) {
        7
    } else {
        12
    });
    change(&mut options);
    run(&options, &ProgramControl::new().unwrap())
        .unwrap_or_else(|error| panic!("{error}; needs root and ptp4l"))
}
