//! Tables `[[panel]]`: diagrams in the report of a run.

use schemars::JsonSchema;
use serde::Serialize;

use crate::read::{Fields, Read};
use crate::words::SignalName;

/// Diagram of the report, which shows some recorded signals over virtual time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Panel {
    /// Heading, such as `Voltage at bus 680`.
    pub title: String,
    /// Quantity without its unit, such as `Voltage`.
    #[schemars(default)]
    pub y_label: String,
    /// Unit. If left out, that of the recorded signals.
    #[schemars(default)]
    pub unit: String,
    /// Signals to draw, all of which must be recorded.
    #[schemars(length(min = 1))]
    pub signals: Vec<PanelSignal>,
    /// Reference levels and ranges.
    #[serde(rename = "reference")]
    #[schemars(default)]
    pub references: Vec<Reference>,
}

/// Curve of a panel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct PanelSignal {
    /// Plant and signal, such as `grid.bus.680.v1`.
    pub name: SignalName,
    /// Text in the legend. If left out, the signal's name.
    #[schemars(default)]
    pub legend: String,
}

/// Horizontal line (`at`) or shaded range (`from` and `to`), in the unit of the panel.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(deny_unknown_fields)]
pub enum Reference {
    /// Horizontal line.
    Line {
        /// Value at which the line is drawn.
        at: f64,
        /// Label, such as `paper: 2320 V`.
        #[schemars(default)]
        label: String,
    },
    /// Shaded range.
    Band {
        /// Lower end.
        from: f64,
        /// Upper end.
        to: f64,
        /// Label, such as `± 5 %`.
        #[schemars(default)]
        label: String,
    },
}

impl Default for Reference {
    fn default() -> Self {
        Self::Line {
            at: 0.0,
            label: String::new(),
        }
    }
}

impl Read for Panel {
    const NOUN: &'static str = "a panel";

    fn read_table(fields: &mut Fields<'_>) -> Self {
        Self {
            title: fields.required("title"),
            y_label: fields.or_default("y_label"),
            unit: fields.or_default("unit"),
            signals: fields.required("signals"),
            references: fields.or_default("reference"),
        }
    }
}

impl Read for PanelSignal {
    const NOUN: &'static str = "a signal of a panel";

    fn read_table(fields: &mut Fields<'_>) -> Self {
        Self {
            name: fields.required("name"),
            legend: fields.or_default("legend"),
        }
    }
}

impl Read for Reference {
    const NOUN: &'static str = "a reference";

    fn read_table(fields: &mut Fields<'_>) -> Self {
        if fields.has("from") || fields.has("to") {
            Self::Band {
                from: fields.required("from"),
                to: fields.required("to"),
                label: fields.or_default("label"),
            }
        } else {
            Self::Line {
                at: fields.required("at"),
                label: fields.or_default("label"),
            }
        }
    }
}
