//! Tests of the fabric on a real kernel. Every test here needs root: CAP_SYS_ADMIN, CAP_NET_ADMIN
//! and CAP_NET_RAW.

mod world;

mod capture;
mod congestion;
mod first_timeout;
mod ipv6;
mod lifetime;
mod machine;
mod openflow;
mod reach;
mod refusal;
mod splice;
mod throughput;
