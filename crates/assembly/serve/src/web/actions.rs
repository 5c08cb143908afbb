//! Actions of pages on a run, by its control socket.

use std::sync::Arc;

use axum::extract::{Query, State as Shared};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use timeloom_guest::{
    ControlError, LinkProperties, Request, StatusText, WordError, connect, parse_factor,
    parse_instant, parse_span,
};
use timeloom_time::Duration;

use crate::access::{Rights, refuse};
use crate::live::{Watchers, seconds};
use crate::web::{Limits, RunQuery, State};

/// Action of a page. Its texts have the syntax of the command line.
#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case")]
pub(super) enum Action {
    Pause,
    Resume,
    Step { span: String },
    RunUntil { instant: String },
    Dilate { factor: String },
    Link(LinkForm),
    StartAttack { id: String },
    StopAttack { id: String },
}

/// New properties of a link; those that are empty or left out stay as they are.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct LinkForm {
    link: String,
    delay: String,
    loss: String,
    mbit_per_s: String,
    up: Option<bool>,
}

impl LinkForm {
    fn request(&self) -> Result<Request, ActionError> {
        let given = |text: &'_ str| (!text.trim().is_empty()).then(|| text.trim().to_owned());
        let delay = given(&self.delay).map(|text| parse_span(&text));
        let number = |text: String| match text.parse::<f64>() {
            Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
            _ => Err(ActionError::Number(text)),
        };
        let rate = given(&self.mbit_per_s).map(number).transpose()?;
        let change = LinkProperties {
            rate_bps: rate.map(|rate| (rate * 1e6).round() as u64),
            delay_ns: delay.transpose()?.map(Duration::as_ns),
            jitter_ns: None,
            loss: given(&self.loss).map(number).transpose()?,
            up: self.up,
        };
        match change.is_empty() || self.link.trim().is_empty() {
            true => Err(ActionError::NoChange),
            false => Ok(Request::Link {
                link: self.link.trim().to_owned(),
                change,
            }),
        }
    }
}

/// Reason why an action of a page is no request.
#[derive(Debug, thiserror::Error)]
pub(super) enum ActionError {
    #[error(transparent)]
    Word(#[from] WordError),
    #[error("`{0}` is not a number: write one from 0 on, such as 0.01")]
    Number(String),
    #[error("name a link, and its new delay, loss or rate")]
    NoChange,
}

impl Action {
    fn request(&self) -> Result<Request, ActionError> {
        Ok(match self {
            Self::Pause => Request::Pause,
            Self::Resume => Request::Resume,
            Self::Step { span } => Request::Step {
                span_ns: parse_span(span.trim())?.as_ns(),
            },
            Self::RunUntil { instant } => {
                let when = parse_instant(instant.trim())?;
                Request::RunUntil {
                    at_ns: when.at.as_ns(),
                    relative: when.relative,
                }
            }
            Self::Dilate { factor } => Request::dilate(parse_factor(factor.trim())?),
            Self::Link(form) => form.request()?,
            Self::StartAttack { id } => Request::Attack {
                id: id.trim().to_owned(),
                start: true,
            },
            Self::StopAttack { id } => Request::Attack {
                id: id.trim().to_owned(),
                start: false,
            },
        })
    }
}

/// Executes an action, and answers when the action is complete. A step of an hour may take an hour.
pub(super) async fn act(
    Shared(state): Shared<State>,
    Extension(rights): Extension<Rights>,
    Extension(limits): Extension<Arc<Limits>>,
    Query(which): Query<RunQuery>,
    Json(action): Json<Action>,
) -> Response {
    if rights != Rights::Act {
        return refuse(
            StatusCode::FORBIDDEN,
            "this page is read-only; the other address that `timeloom serve` printed allows actions",
        );
    }
    let request = match action.request() {
        Ok(request) => request,
        Err(error) => return refuse(StatusCode::UNPROCESSABLE_ENTITY, &error.to_string()),
    };
    // A pause must get through while steps go on.
    let is_long = matches!(
        request,
        Request::Step { .. } | Request::RunUntil { .. } | Request::Attack { .. }
    );
    let permits = match is_long {
        true => &limits.long_actions,
        false => &limits.short_actions,
    };
    let Ok(permit) = Arc::clone(permits).try_acquire_owned() else {
        return refuse(
            StatusCode::SERVICE_UNAVAILABLE,
            "too many actions are under way; pause the run, which ends steps early",
        );
    };
    let send = move || {
        let _permit = permit;
        send(&state.watchers, &which.run, request)
    };
    match tokio::task::spawn_blocking(send).await {
        Ok(Ok(status)) => Json(serde_json::json!({
            "virtual_s": seconds(status.virtual_ns),
            "paused": status.paused,
        }))
        .into_response(),
        Ok(Err(error)) => refuse(StatusCode::CONFLICT, &error.to_string()),
        Err(error) => refuse(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// Reason why an action was not executed.
#[derive(Debug, thiserror::Error)]
enum ActError {
    #[error(transparent)]
    Results(#[from] timeloom_results::ResultsError),
    #[error("the run is not in progress: no session writes it")]
    NoSession,
    #[error(transparent)]
    Control(#[from] ControlError),
}

fn send(watchers: &Watchers, run: &str, request: Request) -> Result<StatusText, ActError> {
    let run = watchers.library.run(run)?;
    let session = watchers.sessions.of_patiently(&run);
    let session = session.ok_or(ActError::NoSession)?;
    let request = Request::By {
        requester: "the live view".to_owned(),
        request: Box::new(request),
    };
    Ok(connect(Some(&session), &request)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(json: &str) -> Result<Request, String> {
        let action: Action = serde_json::from_str(json).map_err(|error| error.to_string())?;
        action.request().map_err(|error| error.to_string())
    }

    #[test]
    fn words_are_those_of_the_command_line() {
        assert_eq!(request(r#"{"op":"pause"}"#), Ok(Request::Pause));
        let step = request(r#"{"op":"step","span":" 10 ms "}"#);
        assert_eq!(
            step,
            Ok(Request::Step {
                span_ns: 10_000_000
            })
        );
        let until = request(r#"{"op":"run-until","instant":"+1.5 s"}"#);
        let (at_ns, relative) = (1_500_000_000, true);
        assert_eq!(until, Ok(Request::RunUntil { at_ns, relative }));
        let dilate = request(r#"{"op":"dilate","factor":"inf"}"#);
        assert_eq!(dilate, Ok(Request::Pause));
        let link =
            request(r#"{"op":"link","link":"wan","delay":"5 ms","loss":"","mbit_per_s":"2.5"}"#);
        let change = LinkProperties {
            rate_bps: Some(2_500_000),
            delay_ns: Some(5_000_000),
            ..LinkProperties::default()
        };
        let wan = || "wan".to_owned();
        assert_eq!(
            link,
            Ok(Request::Link {
                link: wan(),
                change
            })
        );
        let attack = request(r#"{"op":"stop-attack","id":"dos"}"#);
        let (id, start) = ("dos".to_owned(), false);
        assert_eq!(attack, Ok(Request::Attack { id, start }));
        for wrong in [
            r#"{"op":"link","link":"wan"}"#,
            r#"{"op":"link","link":"","up":false}"#,
            r#"{"op":"link","link":"wan","loss":"NaN"}"#,
            r#"{"op":"link","link":"wan","jitter":"1 ms"}"#,
            r#"{"op":"step","span":"0 s"}"#,
            r#"{"op":"step","span":"soon"}"#,
            r#"{"op":"dilate","factor":"x"}"#,
            r#"{"op":"enter","command":["sh"]}"#,
            r#"{"op":"step"}"#,
        ] {
            assert!(request(wrong).is_err(), "{wrong}");
        }
    }
}
