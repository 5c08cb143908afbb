//! Tables `[[panel]]`: diagrams in the report of a run.

use schemars::JsonSchema;
use serde::Serialize;

use crate::read::{Context, Form, written_by_serde};
use crate::table::{NotEmpty, table};
use crate::tree::Node;
use crate::words::SignalName;

table! {
/// Diagram of the report, which shows some recorded signals over virtual time.
#[noun = "a panel"]
pub struct Panel {
    /// Heading, such as `Voltage at bus 680`.
    pub title: String,
    /// Quantity without its unit, such as `Voltage`.
    pub y_label: String = String::new(),
    /// Unit. If left out, that of the recorded signals.
    pub unit: String = String::new(),
    /// Signals to draw, all of which must be recorded.
    #[within(NotEmpty)]
    pub signals: Vec<PanelSignal>,
    /// Reference levels and ranges.
    #[key = "reference"]
    pub references: Vec<Reference> = Vec::new(),
}
}

table! {
/// Curve of a panel.
#[noun = "a signal of a panel"]
#[derive(Eq)]
pub struct PanelSignal {
    /// Plant and signal, such as `grid.bus.680.v1`.
    pub name: SignalName,
    /// Text in the legend. If left out, the signal's name.
    pub legend: String = String::new(),
}
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

impl Form for Reference {
    written_by_serde!();

    fn from_node(node: &Node, context: &mut Context<'_>) -> Option<Self> {
        context.read_fields(node, "a reference", |fields| {
            if fields.has("from") || fields.has("to") {
                Self::Band {
                    from: fields.required("from"),
                    to: fields.required("to"),
                    label: fields.or("label", String::new()),
                }
            } else {
                Self::Line {
                    at: fields.required("at"),
                    label: fields.or("label", String::new()),
                }
            }
        })
    }
}
