//! Whole programs: redis with its own benchmark, and an iperf3 transfer. The throughput with server
//! and client in a session is divided by that outside.
//!
//! The programs measure themselves by the clock that they see. The session runs at the rate of the
//! machine's clock, so the results are comparable.

use std::ffi::OsString;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use timeloom_guest::{CommandSpec, Guest, Output, Session};
use timeloom_sys::command::Signal;

use crate::error::BenchError;
use crate::figure::{Better, Figure};
use crate::remote::session;
use crate::scratch::{Scratch, unique};
use crate::stats::median;
use crate::{Name, Options};

pub(crate) fn run(options: &Options, figure: &mut dyn FnMut(Figure)) -> Result<(), BenchError> {
    let session = session(options)?;
    if installed(options, &["redis-server", "redis-benchmark"]) {
        redis(options, &session, figure)?;
    }
    if installed(options, &["iperf3"]) {
        iperf3(options, &session, figure)?;
    }
    Ok(())
}

/// Measures SET and GET over a UNIX socket, which excludes the noise of a network.
fn redis(
    options: &Options,
    session: &Session,
    figure: &mut dyn FnMut(Figure),
) -> Result<(), BenchError> {
    let scratch = Scratch::new()?;
    let requests = options.pick("40000", "200000");
    let side = |environment: Environment<'_>| -> Result<(Running, Vec<OsString>), BenchError> {
        let socket = scratch.path().join(unique("redis"));
        let path = socket.to_string_lossy().into_owned();
        let server = [
            &[
                "redis-server",
                "--port",
                "0",
                "--save",
                "",
                "--appendonly",
                "no",
            ][..],
            &["--daemonize", "no", "--unixsocket", &path],
        ]
        .concat();
        let server = Running::start(&environment, &server)?;
        let begun = Instant::now();
        while !socket.exists() {
            if begun.elapsed() > PATIENCE {
                return Err(BenchError::Worker("redis-server did not start".into()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let client = [
            "redis-benchmark",
            "-n",
            requests,
            "-c",
            "20",
            "-t",
            "set,get",
            "--csv",
            "-s",
        ];
        let client = client.iter().map(OsString::from).chain([socket.into()]);
        Ok((server, client.collect()))
    };
    let (_native, native_client) = side(Environment::Outside)?;
    let (_inside, inside_client) = side(Environment::Inside(session))?;
    let rates = Rates::measure(
        options.pick(5, 21),
        || rate_of_redis(&output(&Environment::Outside, &native_client)?),
        || rate_of_redis(&output(&Environment::Inside(session), &inside_client)?),
    )?;
    figure(
        rates
            .figure("redis_inside_over_outside")
            .bar(0.95)
            .with("requests_per_s_outside", median(&rates.outside))
            .with("requests_per_s_inside", median(&rates.inside))
            .with("requests_per_round", requests)
            .with("what", "SET and GET by 20 clients over a UNIX socket; server and client both inside, or both outside"),
    );
    Ok(())
}

/// Returns the requests per second over both kinds, from lines like `"SET","12345.67",…`.
fn rate_of_redis(text: &str) -> Result<f64, BenchError> {
    let rates: Vec<f64> = text
        .lines()
        .filter(|line| line.starts_with("\"SET\"") || line.starts_with("\"GET\""))
        .filter_map(|line| line.split('"').nth(3)?.parse().ok())
        .collect();
    match rates[..] {
        // There are as many requests of each kind, so the total rate is the harmonic mean.
        [set, get] => Ok(2.0 / (1.0 / set + 1.0 / get)),
        _ => Err(BenchError::Worker(format!("redis-benchmark said: {text}"))),
    }
}

/// Measures a TCP stream on the loopback interface.
fn iperf3(
    options: &Options,
    session: &Session,
    figure: &mut dyn FnMut(Figure),
) -> Result<(), BenchError> {
    let seconds = options.pick("1", "3");
    let side = |environment: Environment<'_>| -> Result<(Running, Vec<OsString>), BenchError> {
        let port = free_port()?.to_string();
        let server = Running::start(
            &environment,
            &["iperf3", "-s", "-B", "127.0.0.1", "-p", &port],
        )?;
        let begun = Instant::now();
        while std::net::TcpListener::bind(("127.0.0.1", port.parse().unwrap_or(0))).is_ok() {
            if begun.elapsed() > PATIENCE {
                return Err(BenchError::Worker("iperf3 did not listen".into()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let client = [
            "iperf3",
            "-c",
            "127.0.0.1",
            "-p",
            &port,
            "-t",
            seconds,
            "-J",
        ];
        Ok((server, client.iter().map(OsString::from).collect()))
    };
    let (_native, native_client) = side(Environment::Outside)?;
    let (_inside, inside_client) = side(Environment::Inside(session))?;
    let rates = Rates::measure(
        options.pick(3, 9),
        || rate_of_iperf3(&output(&Environment::Outside, &native_client)?),
        || rate_of_iperf3(&output(&Environment::Inside(session), &inside_client)?),
    )?;
    figure(
        rates
            .figure("iperf3_inside_over_outside")
            .with("bits_per_s_outside", median(&rates.outside))
            .with("bits_per_s_inside", median(&rates.inside))
            .with("seconds_per_round", seconds)
            .with("what", "one TCP stream over the loopback interface; server and client both inside, or both outside"),
    );
    Ok(())
}

fn rate_of_iperf3(text: &str) -> Result<f64, BenchError> {
    let report: serde_json::Value = serde_json::from_str(text)
        .map_err(|error| BenchError::Worker(format!("iperf3's report: {error}: {text}")))?;
    report["end"]["sum_received"]["bits_per_second"]
        .as_f64()
        .filter(|rate| *rate > 0.0)
        .ok_or_else(|| BenchError::Worker(format!("iperf3 said: {}", report["error"])))
}

/// Rates of interleaved runs: outside, inside, outside, inside, …, outside.
struct Rates {
    outside: Vec<f64>,
    inside: Vec<f64>,
}

impl Rates {
    fn measure(
        rounds: usize,
        outside: impl Fn() -> Result<f64, BenchError>,
        inside: impl Fn() -> Result<f64, BenchError>,
    ) -> Result<Self, BenchError> {
        // One round is not counted; it warms up caches, page tables and connections.
        outside()?;
        inside()?;
        let mut rates = Self {
            outside: Vec::new(),
            inside: Vec::new(),
        };
        for _ in 0..rounds {
            rates.outside.push(outside()?);
            rates.inside.push(inside()?);
        }
        rates.outside.push(outside()?);
        Ok(rates)
    }

    fn figure(&self, metric: &str) -> Figure {
        let around = self.outside.windows(2).map(|two| (two[0] + two[1]) / 2.0);
        let ratios: Vec<f64> = self
            .inside
            .iter()
            .zip(around)
            .map(|(inside, outside)| inside / outside)
            .collect();
        let mut figure = Figure::new(Name::Exec, metric, "ratio", &ratios);
        figure.better = Better::Higher;
        figure
    }
}

/// Environment in which a program runs: native, or a session.
enum Environment<'a> {
    Outside,
    Inside(&'a Session),
}

/// A server process, which is ended when this is dropped.
enum Running {
    Outside(Child),
    Inside(Guest),
}

impl Running {
    fn start(environment: &Environment<'_>, argv: &[&str]) -> Result<Self, BenchError> {
        let silence = || std::fs::File::options().write(true).open("/dev/null");
        let silence = silence().map_err(BenchError::system("opening /dev/null"))?;
        match environment {
            Environment::Outside => Command::new(argv[0])
                .args(&argv[1..])
                .stdin(Stdio::null())
                .stdout(
                    silence
                        .try_clone()
                        .map_or_else(|_| Stdio::null(), Stdio::from),
                )
                .stderr(silence)
                .spawn()
                .map(Self::Outside)
                .map_err(BenchError::system(format!("starting {}", argv[0]))),
            Environment::Inside(session) => {
                let mut spec = CommandSpec::new(argv);
                spec.output = Output::To(silence.into());
                Ok(Self::Inside(session.spawn(&spec)?))
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        match self {
            Self::Outside(child) => {
                let _ = child.kill();
                let _ = child.wait();
            }
            Self::Inside(guest) => {
                guest.signal(Signal::KILL.as_raw());
                guest.wait();
            }
        }
    }
}

/// Runs a program to its end and returns its output.
fn output(environment: &Environment<'_>, argv: &[OsString]) -> Result<String, BenchError> {
    let doing = || BenchError::system(format!("running {}", argv[0].to_string_lossy()));
    match environment {
        Environment::Outside => {
            let output = Command::new(&argv[0])
                .args(&argv[1..])
                .stdin(Stdio::null())
                .stderr(Stdio::null())
                .output()
                .map_err(doing())?;
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Environment::Inside(session) => {
            let (mut read, write) = std::io::pipe().map_err(doing())?;
            let mut spec = CommandSpec::new(argv);
            spec.output = Output::To(write.into());
            let guest = session.spawn(&spec)?;
            drop(spec);
            let mut text = String::new();
            read.read_to_string(&mut text).map_err(doing())?;
            guest.wait();
            Ok(text)
        }
    }
}

fn free_port() -> Result<u16, BenchError> {
    std::net::TcpListener::bind(("127.0.0.1", 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(BenchError::system("looking for a free port"))
}

/// Returns true if all programs are installed; otherwise reports the skipped measurements.
fn installed(options: &Options, programs: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let missing = programs.iter().find(|program| {
        !std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
    });
    if let Some(missing) = missing {
        (options.remark)(&format!(
            "{missing} is not installed (make packages-test); its figure is left out"
        ));
    }
    missing.is_none()
}

const PATIENCE: Duration = Duration::from_secs(10);
