//! Tests of clients that send requests to a session but do not read the answers.

use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::support::command_line::{CommandLine, User, shell};

/// Sends requests until the session no longer reads them, because it is blocked in sending an
/// answer.
fn ask_until_stuck(line: &CommandLine) -> UnixStream {
    let mut stream = UnixStream::connect(line.socket()).expect("the session's socket");
    stream.set_nonblocking(true).expect("a socket");
    let mut refused = 0;
    while refused < 20 {
        match stream.write(b"{\"op\":\"query\"}\n") {
            Ok(written) if written > 0 => refused = 0,
            Ok(_) => panic!("the session has gone"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
                refused += 1;
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
    stream
}

#[test]
fn clients_that_read_no_answer_delay_no_other_client() {
    let line = CommandLine::new("mute", User::Same);
    let mut running = line.exec(shell("sleep 3600 & wait"));
    line.wait_for_process("sleep");
    let mute: Vec<UnixStream> = (0..4).map(|_| ask_until_stuck(&line)).collect();
    for _ in 0..3 {
        assert_eq!(line.ask(&["pause"])["paused"], true);
        assert_eq!(line.ask(&["resume"])["paused"], false);
        assert_eq!(line.ask(&["dilate", "2"])["dilation"], 2.0);
    }
    running.signal(libc::SIGTERM);
    running.wait();
    line.assert_nothing_left();
    drop(mute);
}
