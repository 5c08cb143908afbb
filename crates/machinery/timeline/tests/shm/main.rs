//! Tests of pages and their readers. (`latch_model` is a separate test program.)

mod clockbound;
mod common;
mod cut;
mod killed_writer;
mod page;
mod real_counter;
mod refusal;
mod region;
mod relation;
mod strict_two_cores;
mod worlds_through_the_page;
