//! The central claim of the project: while the simulated world is computed, the testbed is stopped,
//! and it then reads the world of exactly that instant.

use std::collections::BTreeSet;

use crate::support::{Finished, Lab, POLL, Sample, Scenario, samples, stands};

/// Returns a laboratory whose solver takes 50 ms of wall time for every answer.
fn slow(duration: &str) -> Lab {
    Lab::new(
        &Scenario::lasting(duration)
            .program('a', "client", POLL, "")
            .plant("{ slow_ms = 50 }"),
    )
}

fn polled(run: &Finished, program: &str, least: usize) -> Vec<Sample> {
    let polled = samples(run.path(), program);
    assert!(
        polled.len() >= least,
        "{program} got {} answers",
        polled.len()
    );
    polled
}

/// Checks causality exactly, whatever the machine is doing. The plant's time is a float64 of whole
/// nanoseconds, which has no rounding error.
fn assert_causal(polled: &[Sample]) {
    for sample in polled {
        assert!(
            sample.before <= sample.plant,
            "the answer is older than its question: {sample:?}"
        );
        assert!(
            sample.plant <= sample.after,
            "the answer comes from the future: {sample:?}"
        );
        // Both clocks of the client must agree on the duration of the request.
        assert!(sample.lasted >= sample.after - sample.before, "{sample:?}");
    }
    for pair in polled.windows(2) {
        assert!(pair[0].after <= pair[1].before, "time steps back: {pair:?}");
        assert!(pair[0].plant < pair[1].plant, "the plant stands: {pair:?}");
    }
}

/// A host is suspended for a while, between two requests or during one. Afterwards it must read the
/// world of the session's instant, which is later than its own by exactly the suspension. Its pause
/// and those of the solver may nest. Another host must be unaffected.
#[test]
fn a_suspended_host_finds_the_world_gone_on() {
    let lab = Lab::new(
        &Scenario::lasting("60 s")
            .program('a', "here", POLL, "")
            .program('b', "there", POLL, "")
            .plant("{ slow_ms = 5 }"),
    );
    let mut run = lab.start(&[]);
    run.wait_for_line("there", "sample");
    run.wait_until(0.6);
    let number = |status: &serde_json::Value, key: &str| {
        let mut hosts = status["hosts"].as_array().expect("its hosts").iter();
        let host = hosts.find(|host| host["name"] == "b").expect("host b");
        host[key].as_i64().expect("a number")
    };
    let paused = run.control("pause --host b").expect("it stands");
    let stood = number(&paused, "virtual_ns");
    run.wait_until(paused["virtual_ns"].as_f64().expect("a number") * 1e-9 + 0.4);
    let resumed = run.control("resume --host b").expect("it goes on");
    let behind = number(&resumed, "behind_ns");
    assert!(behind >= 400_000_000, "{resumed}");
    let lived = number(&resumed, "virtual_ns");
    assert_eq!(resumed["virtual_ns"].as_i64(), Some(lived + behind));
    run.wait_for("it asks again", |_| {
        let there = samples(&lab.run_path(), "there");
        there.iter().any(|sample| sample.before > lived)
    });
    run.signal(libc::SIGINT);
    let run = run.wait();

    assert_causal(&polled(&run, "here", 5));
    let there = polled(&run, "there", 5);
    let own = |sample: &Sample, missed| Sample {
        plant: sample.plant - missed,
        ..*sample
    };
    let before = there.iter().filter(|sample| sample.after <= stood);
    // A sample at the exact instant of the pause may have been requested before the host was
    // stopped. The clock was then already stopped, for the request of the other host.
    let since = there.iter().filter(|sample| sample.before > stood);
    let both = before
        .map(|sample| own(sample, 0))
        .chain(since.map(|sample| own(sample, behind)));
    let both: Vec<Sample> = both.collect();
    assert!(both.len() + 1 >= there.len(), "at most one spans the pause");
    let late = both.iter().filter(|sample| sample.before > stood).count();
    assert!(late > 0 && late < both.len(), "{late} of {}", both.len());
    assert_causal(&both);
}

/// Returns the median duration in ms, which tolerates moments in which a busy machine does other
/// work.
fn median_ms(polled: &[Sample]) -> f64 {
    let mut lasted: Vec<i64> = polled.iter().map(|sample| sample.lasted).collect();
    lasted.sort_unstable();
    lasted[lasted.len() / 2] as f64 * 1e-6
}

#[test]
fn a_slow_plant_is_advanced_to_the_frozen_instant_and_costs_its_client_no_time() {
    let lab = slow("2500 ms");
    let run = lab.run(&[]).succeeded();
    let polled = polled(&run, "client", 5);
    assert_causal(&polled);
    let median = median_ms(&polled);
    assert!(
        median < 15.0,
        "50 ms of solving cost the client {median} ms"
    );

    // A request must take 50 ms of wall time, and no virtual time.
    let rows = run
        .directory()
        .clock()
        .expect("the clock's rows can be read");
    let stands = stands(&rows);
    assert!(stands.len() >= polled.len());
    for stand in stands.iter().filter(|stand| stand.ended) {
        let (_, outer_ns) = stand.lasted();
        assert!(
            outer_ns >= 50_000_000,
            "a stand of {outer_ns} ns is shorter than the solving"
        );
    }
    let manifest = run.manifest();
    assert_eq!(manifest.virtual_duration.as_ns(), 2_500_000_000);
    let unpaused = manifest.wall_duration - manifest.paused_total;
    let difference = unpaused - manifest.virtual_duration;
    // The map from wall to virtual time is rounded at every pause.
    assert!(difference.as_ns().abs() < 100_000, "{difference}");
    // The plant must have received the instants of the pauses.
    let frozen: BTreeSet<i64> = stands
        .iter()
        .map(|stand| stand.rows[0].t_virtual.as_ns())
        .collect();
    for sample in &polled {
        assert!(
            frozen.contains(&sample.plant),
            "no request paused at {}",
            sample.plant
        );
    }
}

/// In real time there are no pauses, so the client must wait for the solver.
#[test]
fn in_real_time_the_client_waits_for_the_same_plant() {
    let lab = slow("4 s");
    let run = lab.run(&["time.mode=real"]).succeeded();
    // At the end of the run the clock is stopped, and the run is torn down.
    let polled = polled(&run, "client", 5);
    for sample in polled.iter().filter(|it| it.after < 4_000_000_000) {
        assert!(
            sample.lasted >= 50_000_000,
            "faster than the plant: {sample:?}"
        );
    }
    let manifest = run.manifest();
    assert_eq!(manifest.pauses, 0, "real time does not stand still");
    assert_eq!(manifest.paused_total.as_ns(), 0);
}

/// Two programs on two hosts query the same device repeatedly. Their pauses must overlap, and the
/// testbed must resume when the last of them is done.
#[test]
fn overlapping_requests_share_one_pause() {
    let poll = ["python3", "poll.py", "10.0.0.10", "0.002"];
    let lab = Lab::new(
        &Scenario::lasting("600 s")
            .program('a', "one", &poll, "")
            .program('b', "two", &poll, "")
            .plant("{ slow_ms = 3 }"),
    );
    let mut run = lab.start(&[]);
    // The run continues for two seconds from the instant at which both are querying.
    run.wait_for_line("one", "sample");
    run.wait_for_line("two", "sample");
    let at = run.virtual_s().expect("it runs");
    run.wait_until(at + 2.0);
    let run = run.stop();
    for program in ["one", "two"] {
        assert_causal(&polled(&run, program, 20));
    }

    let rows = run
        .directory()
        .clock()
        .expect("the clock's rows can be read");
    let stands = stands(&rows);
    for stand in &stands {
        let instants: BTreeSet<i64> = stand.rows.iter().map(|row| row.t_virtual.as_ns()).collect();
        assert_eq!(instants.len(), 1, "one pause, two instants: {stand:?}");
        assert!(
            !stand.ended || stand.holds_at_end == 0,
            "let go while held: {stand:?}"
        );
    }
    for pair in stands.windows(2) {
        assert!(
            pair[0].rows[0].t_virtual < pair[1].rows[0].t_virtual,
            "virtual time stood between: {pair:?}"
        );
    }
    let shared: Vec<_> = stands.iter().filter(|stand| stand.most_holds > 1).collect();
    // The number of shared pauses is random. If there were none, the requests would be queued.
    assert!(
        shared.len() >= 3,
        "only {} of {} pauses were shared",
        shared.len(),
        stands.len()
    );
    assert!(
        shared.iter().any(|stand| {
            let requesters = stand.requesters();
            let from = |address: &str| {
                requesters
                    .iter()
                    .any(|requester| requester.contains(address))
            };
            from("10.0.0.1") && from("10.0.0.2")
        }),
        "no pause was shared by both hosts: {:?}",
        shared.first()
    );
}

/// The pause statistics of the manifest must be the sum of the rows.
#[test]
fn the_paused_total_is_the_sum_of_the_pauses() {
    let poll = ["python3", "poll.py", "10.0.0.10", "0.01"];
    let lab = Lab::new(
        &Scenario::lasting("500 ms")
            .program('a', "client", &poll, "")
            .plant("{ slow_ms = 20 }"),
    );
    let run = lab.run(&[]).succeeded();
    let manifest = run.manifest();
    let rows = run
        .directory()
        .clock()
        .expect("the clock's rows can be read");
    let ended: Vec<_> = stands(&rows)
        .into_iter()
        // Reads between the end and its detection do not belong to the run.
        .filter(|stand| stand.rows[0].t_virtual.as_ns() < 500_000_000)
        .collect();
    assert_eq!(manifest.pauses, ended.len() as u64);
    let (least, most) = ended.iter().fold((0, 0), |sum, stand| {
        let (inner, outer) = stand.lasted();
        (sum.0 + inner, sum.1 + outer)
    });
    let paused = manifest.paused_total.as_ns();
    // The bounds include each edge's own uncertainty. The tolerance is the difference of two
    // readings of the machine's clock.
    let tolerance = 1_000_000;
    assert!(
        (least - tolerance..=most + tolerance).contains(&paused),
        "the manifest says {paused} ns, the rows {least} … {most} ns"
    );
    // Wall time must be paused time plus running time, because the dilation is 1.
    let difference = manifest.wall_duration - manifest.paused_total - manifest.virtual_duration;
    assert!(
        difference.as_ns().abs() < 5_000_000,
        "{difference} of wall time is neither"
    );
}
