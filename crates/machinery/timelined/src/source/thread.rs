//! Thread per source, so that a slow source does not delay the others.

use std::sync::mpsc::{self, Sender, SyncSender, TrySendError};

use timeloom_clock::timeline::{Era, SourceId};
use timeloom_timeline::protocol::SourceReport;
use tracing::debug;

use super::Source;
use crate::worker::Input;

/// Handle of the thread of a source, with the source's statistics.
pub(crate) struct SourceThread {
    questions: SyncSender<Era>,
    pub(crate) answered_at: Option<timeloom_time::Instant<timeloom_clock::Core>>,
    /// Text about a wrong TAI offset of the source, as of its last answer.
    pub(crate) contradiction: Option<String>,
    pub(crate) report: SourceReport,
}

impl SourceThread {
    pub(crate) fn start(
        id: SourceId,
        label: String,
        mut source: Box<dyn Source>,
        inputs: &Sender<Input>,
    ) -> Self {
        // One request may wait while another is processed; further ones would be outdated before
        // their turn.
        let (questions, inbox) = mpsc::sync_channel::<Era>(1);
        debug!(source = label, "source started");
        let inputs = inputs.clone();
        std::thread::spawn(move || {
            while let Ok(era) = inbox.recv() {
                let answer = Input::Answer {
                    id,
                    answer: source.ask(era),
                    contradiction: source.contradiction(),
                };
                if inputs.send(answer).is_err() {
                    break;
                }
            }
        });
        Self {
            questions,
            answered_at: None,
            contradiction: None,
            report: SourceReport {
                source: label,
                ..SourceReport::default()
            },
        }
    }

    pub(crate) fn ask(&mut self, era: Era) {
        match self.questions.try_send(era) {
            Ok(()) => self.report.asked += 1,
            // The thread still processes an earlier request: it is slow but not dead, and this is
            // not a refusal.
            Err(TrySendError::Full(_)) => {}
            Err(TrySendError::Disconnected(_)) => self.refuse("its adapter has ended"),
        }
    }

    pub(crate) fn refuse(&mut self, why: impl core::fmt::Display) {
        debug!(source = self.report.source, %why, "no answer of use");
        self.report.refused += 1;
        self.report.last_refusal = Some(why.to_string());
    }
}
