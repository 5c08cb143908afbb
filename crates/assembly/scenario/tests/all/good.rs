//! A valid file must give the plan that it describes, and the plan must give the file back.

use serde_json::Value;
use timeloom_plant::modbus::Encoding;
use timeloom_scenario::{BitRate, Condition, Plan, Ready, Reference, json_schema, load, parse};
use timeloom_time::{Duration, Instant, Rate};

const SIMULATED: &str = include_str!("../../examples/simulated.toml");
const EVERYTHING: &str = include_str!("../../examples/everything.toml");

fn read(text: &str) -> Plan {
    parse(text, "/lab/test.toml", &[]).unwrap_or_else(|errors| panic!("{}", errors.render(false)))
}

#[test]
fn everything_is_understood() {
    let plan = read(EVERYTHING);
    assert_eq!(plan.seed, 7);
    assert_eq!(plan.time.duration, Duration::from_s(90));
    assert_eq!(
        plan.time.start,
        Some(Instant::from_ns(1_559_520_000_000_000_000))
    );
    assert_eq!(plan.time.rate(), Rate::from_ratio(1, 2).unwrap());
    assert_eq!(
        plan.system.links[0].wire.rate,
        BitRate::from_bits_per_s(100_000_000)
    );
    let sensor = &plan.system.hosts["sensor"];
    assert_eq!(sensor.address, "10.0.0.2/24".parse().unwrap());
    assert_eq!(sensor.programs[0].start, Duration::from_ms(500));
    assert_eq!(
        sensor.programs[0].ready,
        Some(Ready::Log("sending".to_owned()))
    );
    assert_eq!(sensor.programs[0].directory, std::path::Path::new("/lab"));
    let machine = plan.system.hosts["attacker"].machine.as_ref().unwrap();
    let emulator = machine.program("attacker");
    assert_eq!(emulator.name, "machine-attacker");
    let words = emulator.run.join(" ");
    assert!(
        words.starts_with("qemu-system-x86_64 -accel tcg "),
        "{words}"
    );
    for part in [
        "-m 512 -smp 2 -kernel vmlinuz",
        "-append console=ttyS0 panic=-1 no_timer_check clocksource=hpet tsc=unstable quiet -initrd initrd",
        "-netdev user,id=net,hostfwd=tcp::8080-:8080",
        "-device virtio-rng-pci",
    ] {
        assert!(words.contains(part), "{part} in {words}");
    }
    let historian = &plan.system.hosts["historian"];
    let container = historian.container.as_ref().unwrap();
    assert_eq!(
        container.bundle.as_deref(),
        Some(std::path::Path::new("/lab/historian"))
    );
    assert_eq!(
        container.mounts[0].source,
        std::path::Path::new("/lab/data")
    );
    assert_eq!(
        historian.programs[0].directory,
        std::path::Path::new("/"),
        "a container's own"
    );
    let mut addressed = machine.clone();
    addressed.address = Some("10.0.0.7/24".parse().unwrap());
    let words = addressed.program("attacker").run.join(" ");
    for part in [
        "tsc=unstable ip=10.0.0.7:::255.255.255.0:attacker:eth0:off quiet",
        "-netdev tap,id=net,ifname=tap0,script=no,downscript=no",
        "mac=52:54:0a:00:00:07",
    ] {
        assert!(words.contains(part), "{part} in {words}");
    }
    let mut from_disk = machine.clone();
    (from_disk.kernel, from_disk.initramfs) = (None, None);
    from_disk.disk = Some("a,b.img".to_owned());
    let words = from_disk.program("attacker").run.join(" ");
    let drive = "-drive file=a,,b.img,if=virtio,snapshot=on";
    assert!(
        words.contains(drive) && !words.contains("-append"),
        "{words}"
    );
    let registers = &plan.system.devices["generator"].registers;
    assert_eq!(
        (registers[0].kind, registers[0].width()),
        (Encoding::F32, 2)
    );
    assert_eq!(registers[0].signal.plant, "grid");
    assert_eq!(registers[0].signal.signal, "generator.wind.s1");
    assert_eq!(registers[1].kind, Encoding::Bit);
    assert_eq!(
        plan.simulation.plants["grid"].config["weights"],
        serde_json::json!([1, 2.5])
    );
    let attack = &plan.attacks[0];
    assert_eq!(
        Some(attack.programs[0].start),
        attack.at,
        "a program of an attack starts with it"
    );
    assert_eq!(plan.checks[0].when, Some(Condition::With("dos".to_owned())));
    assert!(plan.applies(&plan.checks[0]) && !plan.applies(&plan.checks[1]));
    let plant = &plan.simulation.plants["grid"];
    assert_eq!(plant.env["PYTHONPATH"], "../../python");
    let panel = &plan.panels[0];
    assert_eq!(panel.signals[0].legend, "phase A");
    assert_eq!(panel.signals[1].name.to_string(), "grid.bus.680.v2");
    let [
        Reference::Line { at, .. },
        Reference::Band { from, to, label },
    ] = &panel.references[..]
    else {
        panic!("a line and a band, not {:?}", panel.references);
    };
    assert_eq!((*at, *from, *to), (2320.0, 2280.0, 2522.0));
    assert_eq!(label, "± 5 %");
    assert_eq!(
        plan.summary(),
        "6 programs on 4 hosts, 1 device, 2 switches, plant grid, attack dos, 90 s of virtual time"
    );
    let programs: Vec<_> = plan
        .programs()
        .map(|(host, program)| (host, &*program.name))
        .collect();
    let expected = [
        ("control", "controller"),
        ("historian", "reader"),
        ("sensor", "sensor"),
        ("openflow", "learning"),
        ("attacker", "arpspoof-a"),
        ("attacker", "arpspoof-b"),
    ];
    assert_eq!(programs, expected);
}

#[test]
fn a_written_plan_parses_to_the_same() {
    let plan = read(EVERYTHING);
    let text = plan.to_toml();
    assert_eq!(read(&text), plan, "{text}");
    assert_eq!(read(&text).to_toml(), text);
}

#[test]
fn time_may_be_granted_from_outside() {
    let with = |more: &str| {
        let time = format!("[time]\nduration = \"1 s\"\nmode = \"stepped\"\n{more}");
        read(&format!(
            "schema = \"timeloom/1\"\nname = \"stepped\"\n{time}\n"
        ))
    };
    let plain = with("").time;
    assert_eq!(plain.stepping().patience, Duration::from_s(60));
    assert!(!plain.skips());
    let plan = with("stepped = { skip = true, patience = \"5 s\" }");
    assert_eq!(plan.time.stepping().patience, Duration::from_s(5));
    assert!(plan.time.skips());
    assert_eq!(read(&plan.to_toml()).time, plan.time);
    // Settings of a mode must be kept while another mode is in force.
    let other = read(EVERYTHING).time;
    assert!(other.stepped.is_some() && !other.skips());
}

#[test]
fn the_shortest_scenario_is_one_program() {
    let plan = read(
        r#"
        schema = "timeloom/1"
        name = "hello"
        time.duration = "1 s"
        [system.hosts.one]
        address = "10.0.0.1/24"
        programs = [{ name = "hello", run = ["date"] }]
        "#,
    );
    let program = &plan.system.hosts["one"].programs[0];
    assert!(program.essential);
    assert_eq!(program.ready_timeout, Duration::from_s(10));
    assert_eq!(read(&plan.to_toml()), plan);
}

#[test]
fn a_host_has_an_address_of_either_kind_or_of_both() {
    let with = |a: &str, b: &str| {
        format!(
            r#"
            schema = "timeloom/1"
            name = "both"
            time.duration = "1 s"
            [system]
            links = [{{ between = ["a", "b"] }}]
            [system.hosts.a]
            address = {a}
            [system.hosts.b]
            address = {b}
            "#
        )
    };
    let plan = read(&with(r#"["fd00::1/64", "10.0.0.1/24"]"#, r#""fd00::2/64""#));
    let own = plan.system.hosts["a"].address;
    assert_eq!(own.v4, "10.0.0.1/24".parse().ok());
    assert_eq!(own.v6, "fd00::1/64".parse().ok());
    assert_eq!(plan.system.hosts["b"].address.v4, None);
    assert_eq!(read(&plan.to_toml()), plan, "{}", plan.to_toml());
    for (b, message) in [
        (
            r#""fd01::2/64""#,
            "not in the subnet fd00::/64 of the others",
        ),
        (r#"["10.0.0.2/24", "fd00::1/64"]"#, "the same address"),
    ] {
        let text = with(r#"["fd00::1/64", "10.0.0.1/24"]"#, b);
        let errors = parse(&text, "lab/test.toml", &[]).expect_err(b).to_string();
        assert!(errors.contains(message), "{errors}");
    }
}

#[test]
fn recording_follows_the_step_unless_told() {
    let plan = read(
        r#"
        schema = "timeloom/1"
        name = "plant"
        time = { duration = "1 s", start = 2019-06-03T02:00:00+02:00 }
        [simulation.plants.grid]
        run = ["plant"]
        step = "5 ms"
        "#,
    );
    assert_eq!(
        plan.simulation.plants["grid"].record.every,
        Duration::from_ms(5)
    );
    assert_eq!(
        plan.time.start,
        Some(Instant::from_ns(1_559_520_000_000_000_000))
    );
    assert_eq!(read(&plan.to_toml()), plan);
}

#[test]
fn a_virtual_machine_may_read_timelines_of_its_host() {
    let text = r#"
        schema = "timeloom/1"
        name = "reading"
        time = { duration = "1 s", tsc = "emulate" }
        [system.hosts.plc]
        address = "10.0.0.1/24"
        [system.hosts.plc.timelines.cell]
        sources = [{ type = "system-clock" }]
        [system.hosts.plc.machine]
        kernel = "vmlinuz"
        timelines = ["cell"]
        "#;
    let plan = read(text);
    let machine = plan.system.hosts["plc"].machine.as_ref().unwrap();
    assert_eq!(machine.timelines, ["cell"]);
    assert_eq!(read(&plan.to_toml()), plan);
    // In real time, the machine's counter has no relation to the host's timelines.
    let real = text.replace("tsc = \"emulate\"", "mode = \"real\"");
    let errors = parse(&real, "lab/real.toml", &[]).unwrap_err().to_string();
    assert!(
        errors.contains("in real time the machine's counter is not emulated"),
        "{errors}"
    );
}

#[test]
fn loading_looks_at_this_machine() {
    let directory = std::env::temp_dir().join(format!("timeloom-scenario-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("scenario.toml");
    let text = r#"
schema = "timeloom/1"
name = "machine"
time.duration = "1 s"
[system.hosts.one]
address = "10.0.0.1/24"
[[system.hosts.one.programs]]
name = "good"
run = ["sh"]
[[system.hosts.one.programs]]
name = "absent"
run = ["no-such-program-anywhere"]
[[system.hosts.one.programs]]
name = "here"
run = ["scenario.toml"]
[[system.hosts.one.programs]]
name = "plain"
run = ["./scenario.toml"]
[[system.hosts.one.programs]]
name = "nowhere"
run = ["sh"]
directory = "nowhere"
"#;
    std::fs::write(&file, text).unwrap();
    let errors = load(&file, &[]).unwrap_err();
    let found: Vec<_> = errors
        .mistakes()
        .iter()
        .map(|m| (m.line, m.to_string()))
        .collect();
    std::fs::remove_dir_all(&directory).unwrap();
    for ((line, text), (want_line, want)) in found.iter().zip([
        (12, "`no-such-program-anywhere` is not found on the PATH"),
        (15, "write `./scenario.toml`"),
        (18, "is not executable"),
        (22, "there is no directory"),
    ]) {
        assert_eq!(*line, want_line, "{text}");
        assert!(text.contains(want), "{text}");
    }
    assert_eq!(found.len(), 4, "{found:#?}");
    let errors = load(&file, &[]).unwrap_err();
    assert!(errors.to_string().contains("cannot be read"), "{errors}");
}

/// The schema, the reader and the writer must know the same keys: every key of the schema must be
/// in the written example, and vice versa.
#[test]
fn the_schema_names_the_keys_that_are_written() {
    let schema = json_schema();
    let written: toml::Table = toml::from_str(&read(EVERYTHING).to_toml()).unwrap();
    let written = serde_json::to_value(written).unwrap();
    compare(&schema, &schema["else"], &written, "scenario");
    // A network either consists of kernel objects or is simulated, so the second kind needs another
    // file.
    let plan = parse(SIMULATED, "lab/simulated.toml", &[]).unwrap();
    let written: toml::Table = toml::from_str(&plan.to_toml()).unwrap();
    let written = serde_json::to_value(written).unwrap();
    let parts = &schema["$defs"];
    compare(&schema, &parts["Network"], &written["network"], "network");
    let link = &written["system"]["links"][0];
    for key in parts["Wire"]["properties"].as_object().unwrap().keys() {
        assert!(link.get(key).is_some(), "{key}");
        assert!(parts["Link"]["properties"].get(key).is_some(), "{key}");
    }
}

#[test]
fn a_simulated_network_survives_writing_and_reading() {
    let plan = parse(SIMULATED, "lab/simulated.toml", &[]).unwrap();
    let network = plan.network.as_ref().unwrap();
    assert!(
        network
            .topology
            .as_ref()
            .unwrap()
            .ends_with("lab/backbone.gml")
    );
    let again = parse(&plan.to_toml(), "elsewhere/again.toml", &[]);
    assert_eq!(again, Ok(plan));
}

/// The graph is left out, because its file does not exist.
#[test]
fn a_simulated_network_is_built_as_written() {
    let text = SIMULATED.replace("topology = \"backbone.gml\"", "");
    let plan = parse(&text, "lab/simulated.toml", &[]).unwrap();
    let built = plan.simulated().unwrap().unwrap();
    assert_eq!(built.links.len(), 5);
    assert_eq!(built.traffic.len(), 1);
    let (plc, scada) = (built.nodes["plc"], built.nodes["scada"]);
    built.world.check_route(plc, scada).unwrap();
    let port = built.world.port_of(plc).unwrap();
    assert_eq!(built.world.address(port).to_string(), "192.168.1.2");
    assert_eq!(built.world.prefix(port), 24);
    let gateway = built.world.gateway(plc).unwrap();
    assert!(gateway.to_string().starts_with("192.168.1."), "{gateway}");
    // The dumbbell has eight hosts on each side, and two routers.
    let generated = built.nodes.keys().filter(|name| name.starts_with("core-"));
    assert_eq!(generated.count(), 18);
}

fn compare(root: &Value, schema: &Value, value: &Value, path: &str) {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = root
            .pointer(reference.trim_start_matches('#'))
            .expect("a known definition");
        return compare(root, target, value, path);
    }
    if let Some(either) = schema["anyOf"].as_array() {
        return compare(root, &either[0], value, path);
    }
    if let Some(items) = value.as_array() {
        // In a list, the first example has the optional keys, and another has the mandatory ones.
        let Some(first) = items.first() else { return };
        return compare(root, &schema["items"], first, &format!("{path}[]"));
    }
    let Some(table) = value.as_object() else {
        return;
    };
    if let Some(properties) = schema["properties"].as_object() {
        assert_eq!(
            schema["additionalProperties"], false,
            "{path} must refuse unknown keys"
        );
        let known: Vec<_> = properties.keys().collect();
        for key in table.keys() {
            assert!(
                properties.contains_key(key),
                "{path}.{key} is not in the schema {known:?}"
            );
        }
        for (key, property) in properties {
            let wire = [
                "delay",
                "jitter",
                "loss",
                "queue",
                "discipline",
                "ecn",
                "mtu",
                "name",
            ];
            let optional = [
                "ready",
                "network",
                "engines",
                "clock",
                "card",
                "trace",
                "user",
                "capabilities",
                "machine",
                "container",
                "root",
                "disk",
                "cpufreq",
            ]
            .contains(&key.as_str())
                || path.ends_with(".machine") && key == "address"
                || path.ends_with("network.ptp")
                || path.contains("system.hosts.") && key == "ptp"
                || path.ends_with("scenario.placement")
                || path.contains("links") && wire.contains(&key.as_str())
                || path.contains("traffic") && key == "name"
                || path.contains(".attack") && key == "at"
                || path.contains(".event")
                || path.ends_with(".time") && key == "period";
            match table.get(key) {
                Some(value) => compare(root, property, value, &format!("{path}.{key}")),
                None => assert!(optional, "{path}.{key} is in the schema only"),
            }
        }
    } else if schema["additionalProperties"].is_object() {
        for (key, value) in table {
            compare(
                root,
                &schema["additionalProperties"],
                value,
                &format!("{path}.{key}"),
            );
        }
    }
}

#[test]
fn the_schema_states_required_keys_and_defaults() {
    let schema = json_schema();
    let whole = &schema["else"];
    assert_eq!(
        whole["required"],
        serde_json::json!(["schema", "name", "time"])
    );
    assert_eq!(whole["properties"]["schema"]["const"], "timeloom/1");
    let program = &schema["$defs"]["Program"];
    assert_eq!(program["required"], serde_json::json!(["name", "run"]));
    assert_eq!(program["properties"]["ready_timeout"]["default"], "10 s");
}
