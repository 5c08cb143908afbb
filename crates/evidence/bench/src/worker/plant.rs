//! A trivial plant: a tank with an inflow. It implements the part of `timeloom-plant/1`
//! (docs/plant-protocol.md) that the benchmark uses.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::FromRawFd;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use serde_json::{Value, json};

pub(super) fn serve() -> io::Result<()> {
    let descriptor = std::env::var("TIMELOOM_PLANT_FD")
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| io::Error::other("TIMELOOM_PLANT_FD is not set"))?;
    // SAFETY: the descriptor was inherited for this use alone, as the protocol states.
    let mut stream = unsafe { UnixStream::from_raw_fd(descriptor) };
    let mut lines = BufReader::new(stream.try_clone()?);
    let mut tank = Tank {
        t_ns: 0,
        level_m: 1.0,
        inflow_m3_s: 0.0,
    };
    let mut line = String::new();
    while lines.read_line(&mut line)? > 0 {
        let request: Value = serde_json::from_str(&line)?;
        let ok = tank.answer(&request);
        stream.write_all(format!("{}\n", json!({"id": request["id"], "ok": ok})).as_bytes())?;
        if request["op"] == "stop" {
            break;
        }
        line.clear();
    }
    Ok(())
}

struct Tank {
    t_ns: i64,
    level_m: f64,
    inflow_m3_s: f64,
}

impl Tank {
    fn answer(&mut self, request: &Value) -> Value {
        match request["op"].as_str() {
            Some("init") => json!({"name": "tank", "signals": [
                {"name": "tank.level", "unit": "m", "writable": false},
                {"name": "tank.inflow", "unit": "m3/s", "writable": true},
            ]}),
            Some("advance") => {
                let begun = Instant::now();
                self.t_ns = request["to_ns"].as_i64().unwrap_or(self.t_ns);
                for _ in 0..STEPS {
                    let outflow_m3_s = 0.1 * self.level_m.max(0.0).sqrt();
                    self.level_m += (self.inflow_m3_s - outflow_m3_s) / AREA_M2 * STEP_S;
                }
                let solve_ns = begun.elapsed().as_nanos() as u64;
                json!({"t_ns": self.t_ns, "solve_ns": solve_ns, "samples": []})
            }
            Some("read") => json!({"values": [self.level_m]}),
            Some("write") => {
                let wanted = request["values"]["tank.inflow"].as_f64();
                self.inflow_m3_s = wanted.unwrap_or(self.inflow_m3_s);
                json!({})
            }
            _ => json!({}),
        }
    }
}

/// Number of solver steps per request, whatever the length of time, so that the work is constant.
const STEPS: u32 = 1000;
const STEP_S: f64 = 1e-6;
const AREA_M2: f64 = 2.0;
