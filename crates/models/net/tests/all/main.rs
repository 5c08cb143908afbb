//! Tests of networks through their public interface.

mod changes;
mod common;
mod conserve;
mod departures;
mod ecn;
mod fluid;
mod frames;
mod graphs;
mod icmp;
mod ipv6;
mod late;
mod link;
mod outside;
mod pace;
mod queueing;
mod routing;
mod server;
mod tcp;
