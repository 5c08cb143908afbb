//! Modbus clients of other projects read and set the plant through a device.

use crate::support::{Finished, Lab, Scenario, log_lines, prepared_python};

/// Returns true if the program has printed a line that contains `text`.
fn printed(lab: &Lab, program: &str, text: &str) -> bool {
    log_lines(&lab.run_path(), program)
        .iter()
        .any(|(_, line)| line.contains(text))
}

/// Runs until the client has printed this text, and the plant has then made another step.
fn after_line(lab: &Lab, text: &str) -> Finished {
    let mut run = lab.start(&[]);
    run.wait_for_line("client", text);
    let at = run.virtual_s().expect("it runs");
    run.wait_until(at + 0.2);
    run.stop()
}

#[test]
fn pymodbus_reads_and_writes() {
    let script = r#"
from pymodbus.client import ModbusTcpClient
client = ModbusTcpClient("10.0.0.10", port=502, timeout=1.0, retries=0)
assert client.connect()
kinds = client.DATATYPE
def read():
    reply = client.read_input_registers(0, count=8)
    assert not reply.isError(), reply
    return client.convert_from_registers(reply.registers, kinds.FLOAT64)
first = read()
reply = client.write_registers(0, client.convert_to_registers(2.5, kinds.FLOAT32))
assert not reply.isError(), reply
reply = client.read_holding_registers(0, count=2)
assert client.convert_from_registers(reply.registers, kinds.FLOAT32) == 2.5, reply
second = read()
assert second[0] > first[0], (first, second)
refused = client.read_input_registers(100, count=2)
assert refused.isError() and refused.exception_code == 2, refused
print("all good")
"#;
    let lab = Lab::new(
        &Scenario::lasting("600 s")
            .program(
                'a',
                "client",
                &[&prepared_python(), "-c", script],
                "essential = false",
            )
            .plant("{}"),
    );
    let run = after_line(&lab, "all good");
    // The written value must have reached the plant, and the plant's record.
    let series = run
        .directory()
        .series(&["world.set"])
        .expect("it can be read");
    let last = series[0].samples.last().expect("it was recorded");
    assert_eq!(last.1, 2.5);
}

#[test]
fn mbpoll_reads_and_writes() {
    timeloom_test_support::need("mbpoll", "mbpoll");
    // Arguments: register references from 0, big-endian float32, a single write.
    let write = "mbpoll -m tcp -a 1 -0 -r 0 -t 4:float -B -1 10.0.0.10 2.5";
    let read = "mbpoll -m tcp -a 1 -0 -r 0 -c 1 -t 4:float -B -1 10.0.0.10";
    let beyond = "mbpoll -m tcp -a 1 -0 -r 100 -c 1 -t 3 -1 10.0.0.10";
    let script = format!("{write} && {read} && ! {beyond} && echo all good");
    let lab = Lab::new(
        &Scenario::lasting("600 s")
            .program('a', "client", &["sh", "-c", &script], "essential = false")
            .plant("{}"),
    );
    let run = after_line(&lab, "all good");
    let log = log_lines(&lab.run_path(), "client");
    assert!(printed(&lab, "client", "2.5"), "{log:?}");
    assert!(printed(&lab, "client", "Illegal data address"), "{log:?}");
    let series = run
        .directory()
        .series(&["world.set"])
        .expect("it can be read");
    assert_eq!(series[0].samples.last().expect("it was recorded").1, 2.5);
}
