//! The commands as a user types them. (Whole experiments are in `run_e2e`.)

mod agents;
mod check;
mod chrony;
mod compare;
mod doctor;
mod dvfs;
mod host_control;
mod iperf;
mod new;
mod output;
mod placement;
mod ptp;
mod ptp4l;
mod report;
mod rogue;
mod served;
mod simulated;
mod skip;
mod steps;
mod support;
mod sweep;
mod timeline;
mod timeline_in_session;
mod timeline_under_attack;
mod timelines;
mod unregister;
