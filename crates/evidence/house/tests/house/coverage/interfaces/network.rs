//! Rows for sockets, and for times in netlink messages.

use super::{Interface, is_virtual, named, real};

pub(super) const ROWS: &[Interface] = &[
    is_virtual(
        "`SO_RCVTIMEO`, `SO_SNDTIMEO`",
        "timeouts of a socket's calls",
        "see the calls above; [limitations.md](limitations.md#waits) lists exceptions",
    ),
    is_virtual(
        "`SO_TIMESTAMP`, `SO_TIMESTAMPNS`, `SO_TIMESTAMPING` (software), `SIOCGSTAMP`, `SIOCGSTAMPNS`",
        "arrival or departure of a packet",
        "converted to the virtual CLOCK_REALTIME at that instant",
    ),
    real(
        "`SO_TIMESTAMPING` (hardware)",
        "a card's clock",
        [
            "the stamps are readings of the device's own clock",
            "programs that compare them with the host's clock (ptp4l with hardware stamps)",
            "software stamps, or a card of the model",
        ],
    ),
    is_virtual(
        "`SO_TIMESTAMPING` (hardware), `SIOCSHWTSTAMP`, `ETHTOOL_GET_TS_INFO` of a card of the model",
        "clock of a network card at a simulated network",
        "the card's clock at the instant of the model at which the frame passed",
    ),
    named(
        "`PACKET_RX_RING`, `PACKET_TX_RING`",
        "time stamps in shared memory",
        "tcpdump and other programs that use libpcap show the machine's time",
        "the run's own captures (`[[capture]]` of a scenario), which are in virtual time",
    ),
    named(
        "`SO_TXTIME`",
        "departure of a packet, on CLOCK_TAI or CLOCK_MONOTONIC",
        "the kernel compares virtual instants with its own clocks: packets leave at once or far too late",
        "send without launch times",
    ),
    named(
        "`TCP_USER_TIMEOUT`",
        "maximum time for which data stay unacknowledged",
        "connections (such as those of gRPC) break after that span of real time",
        "scale it by the dilation, or leave it off",
    ),
    named(
        "`TCP_SYNCNT`",
        "number of attempts to open a connection",
        "the kernel gives up a connection by real time",
        "scale it by the dilation, or leave it off",
    ),
    named(
        "`TCP_KEEPIDLE`",
        "idle time after which a connection is probed",
        "the kernel sends the probes in real time; if time skips and a connection was idle for so long, the run is UNTRUSTED; otherwise nothing is reported",
        "mode `virtual`",
    ),
    named(
        "`TCP_CONGESTION`",
        "congestion control; all except Reno measure time",
        "with `compute = \"none\"`, and in mode `skip` with a simulated network, requests for Reno and CUBIC (in virtual time) are executed; other requests have no effect and are reported. Elsewhere all requests are executed and not reported",
        "`reno`",
    ),
    real(
        "`TCP_KEEPINTVL`, `TCP_LINGER2`, `TCP_DEFER_ACCEPT`, `TCP_RTO_MIN_US`, `TCP_RTO_MAX_MS`, `TCP_DELACK_MAX_US`, retransmission, delayed acknowledgements",
        "timers of the kernel's TCP",
        [
            "they run inside the kernel; most connections set some of them, so reports would be too many",
            "connections under dilation and in mode `skip`, in which these timers take too long or too short a span of virtual time",
            "a simulated network, whose hosts with `services` have a TCP in virtual time",
        ],
    )
    .by(&["getsockopt"]),
    real(
        "`TCP_INFO`, `inet_diag`, `/proc/net/tcp`, `ss -i`",
        "round trips and ages in µs and ms",
        [
            "the kernel's TCP measures them",
            "adaptive senders under dilation, which read durations of real time",
            "divide by the dilation",
        ],
    ),
    real(
        "TCP time stamps, `IP_OPTIONS` time stamp, ICMP time stamp replies",
        "a count in ms on the wire",
        [
            "the kernel writes them into packets",
            "`ping -T tsonly`; programs that derive a host's uptime from packets",
            "hosts of the simulated network answer from the model",
        ],
    ),
    real(
        "`SO_LINGER`",
        "maximum duration of `close`",
        [
            "it bounds a wait for the peer's kernel, and servers set it once for each connection: a trap would cost more than the wait",
            "a `close` that lingers, which ends after real seconds",
            "`shutdown` and a read until the end, instead of lingering",
        ],
    )
    .by(&["close", "shutdown"]),
    real(
        "`SO_BUSY_POLL`, `EPIOCSPARAMS`, `SO_MAX_PACING_RATE`",
        "polling time in µs; bytes per second",
        [
            "they control the kernel's work, and no program reads time from them",
            "paced flows under dilation, whose rate is that of real time",
            "scale the rate by the dilation",
        ],
    ),
    real(
        "AF_CAN: `CAN_BCM`, `CAN_ISOTP`, `CAN_J1939`",
        "periods and timeouts of frames that the kernel sends by itself",
        [
            "programs set them by messages to the kernel, which uses its own timers",
            "periodic senders on a virtual CAN, which continue at the real rate, also during a pause",
            "`CAN_RAW` with the program's own timers, which are virtual",
        ],
    )
    .by(&["socket", "sendto", "sendmsg"]),
    real(
        "other protocols of the kernel (SCTP, MPTCP, TIPC, SMC, RxRPC, vsock, Bluetooth, AX.25, PPP's `PPPIOCGIDLE`)",
        "their timers, timeouts and idle times",
        [
            "as for TCP",
            "connections under dilation",
            "TCP or UDP with the program's own timers",
        ],
    ),
    real(
        "rtnetlink: addresses, routes, neighbours, bridges (`IFA_CACHEINFO`, `RTA_EXPIRES`, `NDA_CACHEINFO`, `valid_lft`)",
        "ages and lifetimes, in s or 1/100 s",
        [
            "the kernel keeps them by its own clock, and answers come as messages",
            "DHCP and IPv6 clients: an address that was given for an hour is valid for a real hour",
            "`valid_lft forever`, or lifetimes scaled by the dilation",
        ],
    ),
    real(
        "`tc`: netem, tbf, fq, etf, taprio, `act_gate`",
        "delays, rates, base times on CLOCK_TAI",
        [
            "the kernel's queues run in real time, and take a base time in virtual TAI for one in real TAI",
            "traffic shaping inside a session",
            "links of a simulated network (`[network]`), which follow the session's clock",
        ],
    ),
    real(
        "conntrack, nftables (`timeout`, `limit`, `meta time`), ipset",
        "timeouts, rates, time of day",
        [
            "the kernel keeps and compares them",
            "firewalls under dilation, which forget flows too early in virtual time; rules with a time of day",
            "multiply the timeouts by the dilation",
        ],
    ),
    real(
        "xfrm (IPsec), WireGuard, MACsec",
        "lifetimes of keys, last handshakes",
        [
            "the kernel keeps them",
            "rekeying, which follows real time; `wg show`, which prints ages in real time",
            "a user-space implementation, whose timers are virtual",
        ],
    ),
    real(
        "nl80211, ethtool (coalescing), devlink",
        "times of scans, intervals of interrupts",
        [
            "drivers keep them",
            "wireless tools, rarely used in a testbed",
            "simulated links",
        ],
    ),
    real(
        "peers and services outside the session (DNS, NTP, TLS peers, D-Bus, X11, journald, databases)",
        "their own date, timeouts and stamps",
        [
            "they are not in the session",
            "certificates that are not valid yet at the date of `--start`; logs with dates of both kinds; servers that time out a paused client",
            "start them inside the session",
        ],
    ),
];
