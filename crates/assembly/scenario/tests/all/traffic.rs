//! Tests of simulated traffic: every kind, as packets and as fluid.

use timeloom_scenario::{Background, parse};

use crate::simulated::GOOD;

/// Returns the valid file, with this traffic instead of its own.
fn with_traffic(traffic: &str) -> String {
    let plain = r#"{ from = "g-h0", to = "g-h1", kind = "reno" }"#;
    assert!(GOOD.contains(plain));
    GOOD.replacen(plain, traffic, 1)
}

#[test]
fn traffic_of_every_kind_is_made_of_packets_or_of_fluid() {
    let kinds = [
        r#"kind = "udp", rate = "1 Mbit/s""#,
        r#"kind = "poisson", rate = "1 Mbit/s""#,
        r#"kind = "on-off", rate = "1 Mbit/s", on = "50 ms", off = "1 s""#,
        r#"kind = "reno""#,
        r#"kind = "cubic""#,
        r#"kind = "cubic-8312""#,
    ];
    for kind in ["bbr", "dctcp"] {
        let entry = format!(r#"{{ from = "g-h0", to = "g-h1", kind = "{kind}" }}"#);
        let marks = with_traffic(&entry).replacen(
            "size = 3 }",
            r#"size = 3, access = { discipline = "step" } }"#,
            1,
        );
        let plan = parse(&marks, "net.toml", &[]).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(parse(&plan.to_toml(), "again.toml", &[]), Ok(plan.clone()));
        let built = plan.simulated().unwrap().unwrap();
        assert!(matches!(built.traffic[0], Background::Flow(_)), "{kind}");
    }
    for kind in kinds {
        for model in ["", r#", model = "packet""#, r#", model = "fluid""#] {
            let entry = format!(r#"{{ from = "g-h0", to = "g-h1", {kind}{model} }}"#);
            let plan = parse(&with_traffic(&entry), "net.toml", &[]);
            let plan = plan.unwrap_or_else(|errors| panic!("{entry}: {errors}"));
            let built = plan.simulated().unwrap().unwrap();
            let fluid = matches!(built.traffic[0], Background::Fluid(_));
            assert_eq!(fluid, model.contains("fluid"), "{entry}");
            assert_eq!(built.world.fluid_count(), usize::from(fluid));
        }
    }
}

#[test]
fn a_step_of_fluid_is_as_long_as_the_file_says() {
    let fluid = r#"{ from = "g-h0", to = "g-h1", kind = "cubic", model = "fluid" }"#;
    let text = with_traffic(fluid).replacen("[network]", "[network]\nfluid_step = \"5 ms\"", 1);
    let plan = parse(&text, "net.toml", &[]).unwrap_or_else(|errors| panic!("{errors}"));
    let built = plan.simulated().unwrap().unwrap();
    assert_eq!(
        built.world.fluid_step(),
        timeloom_time::Duration::from_ms(5)
    );
}
