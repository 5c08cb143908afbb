//! Rows for sockets, and for times in netlink messages.

use super::{Interface, is_virtual, named, real};

pub(super) const ROWS: &[Interface] = &[
    is_virtual(
        "`SO_RCVTIMEO`, `SO_SNDTIMEO`",
        "timeouts of a socket's calls",
        "see the calls above; what is left out is in [limitations.md](limitations.md#waits)",
    ),
    is_virtual(
        "`SO_TIMESTAMP`, `SO_TIMESTAMPNS`, `SO_TIMESTAMPING` (software), `SIOCGSTAMP`, `SIOCGSTAMPNS`",
        "when a packet came or went",
        "put onto the virtual CLOCK_REALTIME, as it went then",
    ),
    real(
        "`SO_TIMESTAMPING` (hardware)",
        "a card's clock",
        [
            "the stamps are the device's own count",
            "programs that compare them with the host's clock (ptp4l with hardware stamps)",
            "software stamps, or a simulated network",
        ],
    ),
    named(
        "`PACKET_RX_RING`, `PACKET_TX_RING`",
        "stamps in shared memory",
        "tcpdump and other programs that use libpcap show the machine's date and pace",
        "the run's own captures (`captures` of a scenario), which are in virtual time",
    ),
    named(
        "`SO_TXTIME`",
        "when a packet is to leave, on CLOCK_TAI or CLOCK_MONOTONIC",
        "the kernel compares virtual instants with its own clocks: packets leave at once or far too late",
        "send without launch times",
    ),
    named(
        "`TCP_USER_TIMEOUT`",
        "how long data may stay unacknowledged",
        "connections break after that much real time (gRPC)",
        "scale it by the dilation, or leave it off",
    ),
    named(
        "`TCP_SYNCNT`",
        "how often the kernel tries to open a connection",
        "connections are given up after that much real time",
        "scale it by the dilation, or leave it off",
    ),
    named(
        "`TCP_KEEPIDLE`",
        "after how long an idle connection is probed",
        "the kernel sends the probes in real time; where time skips over them, a connection that was idle for so long makes the run UNTRUSTED, and nothing else is reported",
        "mode `virtual`",
    ),
    named(
        "`TCP_CONGESTION`",
        "what paces a connection: all but Reno measure time",
        "where computing takes no time (`compute = \"none\"`), and in mode `skip` with a simulated network, Reno is kept and CUBIC is selected in virtual time; a request for another is left undone, and named; elsewhere it is done, without a word",
        "`reno`",
    ),
    real(
        "`TCP_KEEPINTVL`, `TCP_LINGER2`, `TCP_DEFER_ACCEPT`, `TCP_RTO_MIN_US`, `TCP_RTO_MAX_MS`, `TCP_DELACK_MAX_US`, retransmission, delayed acknowledgements",
        "timers of the kernel's TCP",
        [
            "they run inside the kernel, and most connections set some: naming each would be noise",
            "connections under dilation, and in mode `skip`, where they seem to take long",
            "a simulated network, whose hosts with `services` have a TCP in virtual time",
        ],
    )
    .by(&["getsockopt"]),
    real(
        "`TCP_INFO`, `inet_diag`, `/proc/net/tcp`, `ss -i`",
        "round trips and ages in µs and ms",
        [
            "they are measured by the kernel's TCP",
            "adaptive senders that read them see round trips too long by the dilation",
            "divide by the dilation",
        ],
    ),
    real(
        "TCP time stamps, `IP_OPTIONS` time stamp, ICMP time stamp replies",
        "a count in ms on the wire",
        [
            "the kernel writes them into packets",
            "`ping -T tsonly`; fingerprints of a host's uptime",
            "hosts of the simulated network answer from the model",
        ],
    ),
    real(
        "`SO_LINGER`",
        "how long `close` waits",
        [
            "it is an upper bound of a wait for the peer's kernel, set once per connection by servers: a look at each would cost more than the wait",
            "a `close` that lingers ends after real seconds",
            "shut down and read the end instead of lingering",
        ],
    )
    .by(&["close", "shutdown"]),
    real(
        "`SO_BUSY_POLL`, `EPIOCSPARAMS`, `SO_MAX_PACING_RATE`",
        "µs of spinning; bytes per second",
        [
            "they steer the kernel's work, and no program reads time from them",
            "paced flows are as fast as in real time, so by the dilation too slow or too fast",
            "scale the rate by the dilation",
        ],
    ),
    real(
        "AF_CAN: `CAN_BCM`, `CAN_ISOTP`, `CAN_J1939`",
        "cycles and timeouts of frames that the kernel sends by itself",
        [
            "they come in messages to the kernel, which keeps its own timers",
            "cyclic senders on a virtual CAN go on at the real rate, also in a pause",
            "`CAN_RAW` with the program's own timers, which are virtual",
        ],
    )
    .by(&["socket", "sendto", "sendmsg"]),
    real(
        "other protocols of the kernel (SCTP, MPTCP, TIPC, SMC, RxRPC, vsock, Bluetooth, AX.25, PPP's `PPPIOCGIDLE`)",
        "their timers and timeouts, and how long they were idle",
        [
            "as TCP's",
            "connections under dilation",
            "TCP or UDP with the program's own timers",
        ],
    ),
    real(
        "rtnetlink: addresses, routes, neighbours, bridges (`IFA_CACHEINFO`, `RTA_EXPIRES`, `NDA_CACHEINFO`, `valid_lft`)",
        "ages and lifetimes, in s or 1/100 s",
        [
            "the kernel keeps them by its own clock, and answers come as packets",
            "DHCP and IPv6 clients: an address given for a virtual hour lives a real one",
            "`valid_lft forever`, or lifetimes scaled by the dilation",
        ],
    ),
    real(
        "`tc`: netem, tbf, fq, etf, taprio, `act_gate`",
        "delays, rates, base times on CLOCK_TAI",
        [
            "the kernel's queues run in real time; a base time in virtual TAI means another instant",
            "traffic shaping inside a session",
            "links of the scenario: `[network]` is paced by the session's clock",
        ],
    ),
    real(
        "conntrack, nftables (`timeout`, `limit`, `meta time`), ipset",
        "timeouts, rates, time of day",
        [
            "kept and compared by the kernel",
            "firewalls that forget flows too early in virtual time, and rules by the hour",
            "raise the timeouts by the dilation",
        ],
    ),
    real(
        "xfrm (IPsec), WireGuard, MACsec",
        "lifetimes of keys, last handshakes",
        [
            "kept by the kernel",
            "rekeying happens by real time; `wg show` tells ages of real time",
            "a user-space implementation, whose timers are virtual",
        ],
    ),
    real(
        "nl80211, ethtool (coalescing), devlink",
        "times of scans, µs of interrupts",
        [
            "they are drivers'",
            "rarely used in a testbed",
            "simulated links",
        ],
    ),
    real(
        "peers and services outside the session (DNS, NTP, TLS peers, D-Bus, X11, journald, databases)",
        "their own date, timeouts and stamps",
        [
            "they are not guests",
            "certificates that are not valid yet at a `--start`; logs with two dates; servers that time out a paused client",
            "start them inside the session",
        ],
    ),
];
