//! `ioctl` commands and socket options that the kernel executes in real time. The session reports
//! each that a program uses.
//!
//! The filter, the supervisor and `docs/coverage.md` are derived from these lists. Other interfaces
//! of the kernel that return time are listed in `house/tests/house/coverage`.

/// A command of `ioctl` that returns or takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ioctl {
    /// Name of the command in the kernel.
    pub name: &'static str,
    /// Number of the command, the same on both architectures.
    pub command: u32,
    /// True if the supervisor refuses the command, since it would set a clock of the machine.
    pub is_refused: bool,
    /// Further condition on the command's argument; `None` if there is none.
    pub only: Option<TerminalWait>,
}

/// Condition that a terminal's settings give its reads a timeout (VTIME, without ICANON).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalWait;

/// A socket option that returns or takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketOption {
    /// Name of the option in the kernel.
    pub name: &'static str,
    /// Level and number of the option, as in `setsockopt`.
    pub place: (u32, u32),
}

/// `ioctl` commands for a network card and its clock, which trap only on hosts with a card of the
/// model: SIOCETHTOOL, SIOCSHWTSTAMP, SIOCGHWTSTAMP, PTP_CLOCK_GETCAPS and PTP_CLOCK_GETCAPS2.
pub const CARD_IOCTLS: [u32; 5] = [0x8946, 0x89b0, 0x89b1, 0x8050_3d01, 0x8050_3d0a];

/// All `ioctl` commands that return or take real time.
#[rustfmt::skip] // One command a line.
pub const IOCTLS: &[Ioctl] = &[
    ioctl("ioctl(RTC_RD_TIME)", 0x8024_7009),
    Ioctl { is_refused: true, ..ioctl("ioctl(RTC_SET_TIME)", 0x4024_700a) },
    ioctl("ioctl(RTC_AIE_ON)", 0x7001),
    ioctl("ioctl(RTC_UIE_ON)", 0x7003),
    ioctl("ioctl(RTC_PIE_ON)", 0x7005),
    ioctl("ioctl(RTC_WKALM_SET)", 0x4028_700f),
    ioctl("ioctl(PPS_FETCH)", 0xc008_70a4),
    ioctl("ioctl(HPET_IE_ON)", 0x6801),
    ioctl("ioctl(WDIOC_SETTIMEOUT)", 0xc004_5706),
    ioctl("ioctl(WDIOC_GETTIMELEFT)", 0x8004_570a),
    ioctl("ioctl(SNDRV_PCM_IOCTL_HW_PARAMS)", 0xc260_4111),
    ioctl("ioctl(SNDRV_TIMER_IOCTL_START)", 0x54a0),
    ioctl("ioctl(VIDIOC_STREAMON)", 0x4004_5612),
    ioctl("ioctl(EVIOCSCLOCKID)", 0x4004_45a0),
    ioctl("ioctl(KVM_CREATE_VM)", 0xae01),
    ioctl("ioctl(NTSYNC_IOC_WAIT_ANY)", 0xc028_4e82),
    ioctl("ioctl(NTSYNC_IOC_WAIT_ALL)", 0xc028_4e83),
    terminal(0x5402),
    terminal(0x5403),
    terminal(0x5404),
    terminal(0x402c_542b),
    terminal(0x402c_542c),
    terminal(0x402c_542d),
];

/// `ioctl` commands that insert input into a terminal or a console as if typed there (TIOCSTI), or
/// select and paste (TIOCLINUX). The supervisor refuses them without CAP_SYS_ADMIN.
pub const TERMINAL_INPUT: [u32; 2] = [0x5412, 0x541c];

/// All socket options that return or take real time.
pub const SOCKET_OPTIONS: &[SocketOption] = &[
    option("setsockopt(SO_TXTIME)", SOL_SOCKET, 61),
    option("setsockopt(TCP_USER_TIMEOUT)", IPPROTO_TCP, 18),
    option("setsockopt(TCP_SYNCNT)", IPPROTO_TCP, 7),
    TCP_CONGESTION,
    TCP_KEEPIDLE,
    option("setsockopt(PACKET_RX_RING)", SOL_PACKET, 5),
    option("setsockopt(PACKET_TX_RING)", SOL_PACKET, 13),
];

/// Option that selects a connection's congestion control, and thereby its pacing. It is reported
/// only in sessions in which computing takes no virtual time.
pub const TCP_CONGESTION: SocketOption = option("setsockopt(TCP_CONGESTION)", IPPROTO_TCP, 13);

/// Option that sets the idle time before keep-alive probes. It is not reported: most programs that
/// set it have no connection that is idle for so long.
pub const TCP_KEEPIDLE: SocketOption = option("setsockopt(TCP_KEEPIDLE)", IPPROTO_TCP, 4);

const SOL_SOCKET: u32 = 1;
const IPPROTO_TCP: u32 = 6;
const SOL_PACKET: u32 = 263;

const fn ioctl(name: &'static str, command: u32) -> Ioctl {
    Ioctl {
        name,
        command,
        is_refused: false,
        only: None,
    }
}

/// Returns the entry of TCSETS, TCSETSW, TCSETSF or one of their second versions.
const fn terminal(command: u32) -> Ioctl {
    Ioctl {
        only: Some(TerminalWait),
        ..ioctl("ioctl(TCSETS with VTIME)", command)
    }
}

const fn option(name: &'static str, level: u32, number: u32) -> SocketOption {
    SocketOption {
        name,
        place: (level, number),
    }
}
