//! The peer-delay mechanism of one port (IEEE 1588-2008, 11.4).

mod answer;

use timeloom_time::{Duration, Instant};
use timeloom_wire::message::{PdelayReq, PdelayResp, PdelayRespFollowUp};
use timeloom_wire::tlv::Tlvs;
use timeloom_wire::{Flags, Header, Message, MessageType, PortIdentity, TimeInterval, Timestamp};

use crate::action::Departure;
use crate::outbox::Outbox;
use crate::security::{
    self, DelayWatch, PeerFacts, Security, Suspect, VerificationFailure, VerificationPolicy,
    ViolationKind,
};
use crate::stamp::{on_the_wire, scaled};
use crate::syntonise::Syntoniser;
use crate::{ClockReport, DropReason, Local, Profile, RandomSource, Stamp};
use answer::Answers;

/// The clock at the other end of the link, and the measured delay to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbour {
    /// Port of the neighbour.
    pub port: PortIdentity,
    /// Mean delay of the link in one direction: the median of the last nine measurements.
    pub delay: TimeInterval,
    /// Rate of the neighbour's clock minus that of this clock, in parts per 10^9.
    pub rate_ppb: f64,
}

#[derive(Clone, Debug)]
struct Response {
    source: PortIdentity,
    body: PdelayResp,
    correction: TimeInterval,
    arrived: Stamp,
}

#[derive(Clone, Debug)]
struct Request {
    sequence: u16,
    nonce: Timestamp,
    departed: Option<Stamp>,
    /// Responses to the request; there is more than one only if a further clock answers too.
    responses: Vec<Response>,
    /// Follow_Ups that arrived before the request's departure timestamp was known.
    early: Vec<(Header, PdelayRespFollowUp, Vec<u8>)>,
    /// Number of signatures that were checked for this request.
    tries: u8,
}

/// Sends requests to the neighbour of one port, and answers the neighbour's requests.
#[derive(Clone, Debug)]
pub struct PeerDelay {
    own: PortIdentity,
    profile: Profile,
    sequence: u16,
    next_at: Instant<Local>,
    request: Option<Request>,
    answers: Answers,
    neighbour: Option<Neighbour>,
    measured_at: Instant<Local>,
    recent: Vec<TimeInterval>,
    rate: Syntoniser,
    watch: DelayWatch,
}

const MEDIAN_OF: usize = 9;
/// Greatest number of responses stored per request. Signatures tell authentic from forged ones.
const MAX_RESPONSES: usize = 4;
/// Greatest number of signatures checked per request: each stored response, with as many
/// Follow_Ups.
const MAX_TRIES: u8 = 16;
/// Number of request intervals without a measurement after which the neighbour counts as gone.
const LOST_AFTER: i64 = 8;

impl PeerDelay {
    pub(crate) fn new(
        own: PortIdentity,
        profile: &Profile,
        now: Instant<Local>,
        jump: TimeInterval,
    ) -> Self {
        Self {
            own,
            profile: *profile,
            sequence: 0,
            next_at: now,
            request: None,
            answers: Answers::default(),
            neighbour: None,
            measured_at: now,
            recent: Vec::new(),
            rate: Syntoniser::new(8),
            watch: DelayWatch::new(jump),
        }
    }

    /// Returns the neighbour; `None` if it does not answer, or does not sign although it must.
    pub const fn neighbour(&self) -> Option<&Neighbour> {
        self.neighbour.as_ref()
    }

    pub(crate) const fn next_wake(&self) -> Instant<Local> {
        self.next_at
    }

    fn header(&self, message_type: MessageType, sequence: u16) -> Header {
        Header {
            domain: self.profile.domain,
            sdo_id: self.profile.sdo_id,
            ..Header::new(message_type, self.own, sequence)
        }
    }

    pub(crate) fn handle_wake(
        &mut self,
        now: Instant<Local>,
        random: &mut dyn RandomSource,
        out: &mut Outbox,
    ) {
        if now < self.next_at {
            return;
        }
        let interval = self.profile.delay_interval();
        // The interval varies by up to a tenth, so that clocks do not send in phase (9.5.13.2
        // requires only the average).
        let tenth = interval.as_ns() / 10;
        let shift = random.next_u64().cast_signed() % tenth.max(1);
        self.next_at = now + interval + Duration::from_ns(shift);
        if now - self.measured_at > Duration::from_ns(interval.as_ns().saturating_mul(LOST_AFTER)) {
            self.neighbour = None;
            self.recent.clear();
            self.rate.forget();
        }
        self.sequence = self.sequence.wrapping_add(1);
        let nonce = nonce(random);
        self.request = Some(Request {
            sequence: self.sequence,
            nonce,
            departed: None,
            responses: Vec::new(),
            early: Vec::new(),
            tries: 0,
        });
        let message = Message::new(
            self.header(MessageType::PdelayReq, self.sequence),
            PdelayReq { origin: nonce },
        );
        let departure = Departure::PdelayReq {
            sequence: self.sequence,
        };
        out.send(self.own.port, &message, self.profile.vlan, Some(departure));
    }

    /// Handles a Pdelay_Req of the neighbour.
    pub(crate) fn handle_request(
        &mut self,
        header: &Header,
        body: &PdelayReq,
        stamp: Stamp,
        out: &mut Outbox,
    ) {
        let slot = self.answers.add(header, body, stamp);
        let answer = PdelayResp {
            request_receipt: on_the_wire(stamp),
            requesting: header.source,
        };
        let mut head = self.header(MessageType::PdelayResp, header.sequence_id);
        head.flags = Flags::TWO_STEP;
        out.send(
            self.own.port,
            &Message::new(head, answer),
            self.profile.vlan,
            Some(Departure::PdelayResp { slot }),
        );
    }

    /// Handles the departure timestamp of a request or response; `None` if the timestamp was lost.
    pub(crate) fn handle_transmit_stamp(
        &mut self,
        departure: Departure,
        stamp: Option<Stamp>,
        now: Instant<Local>,
        security: Option<&Security>,
        out: &mut Outbox,
    ) {
        let Some(stamp) = stamp else {
            return out.dropped(self.own.port, DropReason::LostStamp);
        };
        match departure {
            Departure::PdelayReq { sequence } => {
                let Some(request) = self.request.as_mut().filter(|r| r.sequence == sequence) else {
                    return;
                };
                request.departed = Some(stamp);
                for (header, body, tlvs) in std::mem::take(&mut request.early) {
                    let tlvs = Tlvs::parse(&tlvs).unwrap_or_default();
                    self.handle_follow_up(&header, &body, &tlvs, now, security, out);
                }
            }
            Departure::PdelayResp { slot } => self.follow_up(slot, stamp, security, out),
            _ => {}
        }
    }

    fn follow_up(
        &mut self,
        slot: u32,
        stamp: Stamp,
        security: Option<&Security>,
        out: &mut Outbox,
    ) {
        let Some(answer) = self.answers.take(slot) else {
            return;
        };
        let mut head = self.header(MessageType::PdelayRespFollowUp, answer.sequence);
        // The Follow_Up returns the correction of the request (11.4.3).
        head.correction = answer.correction;
        let response_origin = on_the_wire(stamp);
        let body = PdelayRespFollowUp {
            response_origin,
            requesting: answer.requesting,
        };
        let message = Message::new(head, body);
        let mut buffer = [0; 128];
        let tlvs = match security {
            Some(security) => {
                let facts = PeerFacts {
                    requesting: answer.requesting,
                    nonce: answer.nonce,
                    request_receipt: on_the_wire(answer.receipt),
                    response_origin,
                    response_correction: TimeInterval::ZERO,
                };
                security::sign_peer(security, &message.header, &facts, &mut buffer)
            }
            None => Tlvs::EMPTY,
        };
        out.send(
            self.own.port,
            &message.with_tlvs(tlvs),
            self.profile.vlan,
            None,
        );
    }

    /// Returns the pending request to which a message with `header` and `requesting` is the answer.
    fn answered(&mut self, requesting: PortIdentity, header: &Header) -> Option<&mut Request> {
        let ours = requesting == self.own;
        self.request
            .as_mut()
            .filter(|request| ours && request.sequence == header.sequence_id)
    }

    /// Handles a Pdelay_Resp of the neighbour.
    pub(crate) fn handle_response(&mut self, header: &Header, body: &PdelayResp, stamp: Stamp) {
        let Some(request) = self.answered(body.requesting, header) else {
            return;
        };
        if request.responses.len() < MAX_RESPONSES && header.flags.has(Flags::TWO_STEP) {
            let (source, correction) = (header.source, header.correction);
            request.responses.push(Response {
                source,
                body: *body,
                correction,
                arrived: stamp,
            });
        }
    }

    /// Handles a Pdelay_Resp_Follow_Up, which contains the departure time of the response.
    pub(crate) fn handle_follow_up(
        &mut self,
        header: &Header,
        body: &PdelayRespFollowUp,
        tlvs: &Tlvs<'_>,
        now: Instant<Local>,
        security: Option<&Security>,
        out: &mut Outbox,
    ) {
        let Some(request) = self.answered(body.requesting, header) else {
            return;
        };
        let Some(departed) = request.departed else {
            if request.early.len() < MAX_RESPONSES {
                request
                    .early
                    .push((*header, *body, tlvs.as_bytes().to_vec()));
            }
            return;
        };
        if request.tries >= MAX_TRIES {
            let first = request.tries == MAX_TRIES;
            request.tries = MAX_TRIES + 1;
            out.dropped(self.own.port, DropReason::Flood);
            if first {
                self.fail(header, ViolationKind::Flood, out);
            }
            return;
        }
        let mut reason = None;
        let mut chosen = None;
        let mut tries = 0;
        for response in request
            .responses
            .iter()
            .filter(|r| r.source == header.source)
        {
            let facts = PeerFacts {
                requesting: body.requesting,
                nonce: request.nonce,
                request_receipt: response.body.request_receipt,
                response_origin: body.response_origin,
                response_correction: response.correction,
            };
            let checked = match security {
                Some(s)
                    if !matches!(s.policy, VerificationPolicy::Mixed { .. })
                        || s.ring.knows(header.source.clock) =>
                {
                    tries += 1;
                    security::verify_peer(&s.ring, header, &facts, tlvs)
                }
                _ => Ok(()),
            };
            match checked {
                Ok(()) => {
                    chosen = Some(response.clone());
                    break;
                }
                Err(why) => reason = Some(why),
            }
        }
        request.tries = (request.tries + tries).min(MAX_TRIES);
        if let Some(response) = chosen {
            self.request = None;
            self.measure(
                header,
                body,
                &response,
                departed,
                now,
                security.map(|s| s.clock),
                out,
            );
        } else if let Some(reason) = reason {
            let reason = if reason == ViolationKind::Unsigned {
                reason
            } else {
                ViolationKind::Pdelay
            };
            self.fail(header, reason, out);
        }
    }

    fn fail(&self, header: &Header, reason: ViolationKind, out: &mut Outbox) {
        // The neighbour is the clock at the other end of this link, whatever source the message
        // claims.
        let after = self.neighbour.map(|n| n.port.clock);
        out.alarm(VerificationFailure {
            observer: self.own.clock,
            source: header.source,
            sequence: header.sequence_id,
            reason,
            suspect: Suspect {
                after,
                before: self.own.clock,
            },
        });
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the four stamps come from four places"
    )]
    fn measure(
        &mut self,
        header: &Header,
        body: &PdelayRespFollowUp,
        response: &Response,
        departed: Stamp,
        now: Instant<Local>,
        watched: Option<timeloom_wire::ClockIdentity>,
        out: &mut Outbox,
    ) {
        let t2 = response.body.request_receipt.as_ns();
        let t3 = body.response_origin.as_ns();
        let corrections = response.correction + header.correction;
        self.rate
            .sample(body.response_origin, header.correction, response.arrived);
        let there_and_back = scaled(response.arrived - departed, self.rate.ppb());
        let turnaround = TimeInterval::from_ns(t3.saturating_sub(t2));
        let delay = TimeInterval((there_and_back - turnaround - corrections).0 / 2);
        if watched.is_some() && self.watch.sample(delay, response.arrived).is_some() {
            self.fail(header, ViolationKind::Delayed, out);
            return;
        }
        if self.neighbour.is_none_or(|n| n.port != header.source) {
            self.recent.clear();
        }
        if self.recent.len() == MEDIAN_OF {
            self.recent.remove(0);
        }
        self.recent.push(delay);
        let mut sorted = self.recent.clone();
        sorted.sort_unstable();
        let neighbour = Neighbour {
            port: header.source,
            delay: sorted[sorted.len() / 2],
            rate_ppb: self.rate.ppb(),
        };
        self.neighbour = Some(neighbour);
        self.measured_at = now;
        out.report(ClockReport::PeerDelay {
            port: self.own.port,
            neighbour: neighbour.port,
            delay: neighbour.delay,
            rate_ppb: neighbour.rate_ppb,
        });
    }
}

/// Returns a random time within the first second of the epoch. Its 30 random bits must be below
/// 10^9, so it has 29.9 bits of randomness.
pub(crate) fn nonce(random: &mut dyn RandomSource) -> Timestamp {
    Timestamp::from_ns((random.next_u64() % 1_000_000_000).cast_signed())
}
