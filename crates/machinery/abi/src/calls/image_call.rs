//! Questions that the image asks the supervisor.
//!
//! The image is Timeloom's code inside each guest process. To ask a question, it makes a system
//! call whose number no kernel has; the filter passes that call to the supervisor. The first
//! argument identifies the question, the others are its parameters.

/// System call number by which the image asks its questions.
pub const IMAGE_CALL: usize = 0x1e57_0001;

/// Question of the image to the supervisor.
///
/// `P` represents an address in the program's memory. The image runs in that memory, so it uses a
/// plain number; the supervisor uses a type for unverified addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageCall<P> {
    /// Asks for the value to show for a CPU clock.
    CpuTime {
        /// CPU clock: a `clockid_t` that counts processor time.
        clock: u32,
        /// The kernel's value of that clock: real processor time, in nanoseconds.
        real_ns: i64,
    },
    /// Asks for the value to show for the CPU clock of a POSIX timer that the kernel keeps.
    CpuTimeOfTimer {
        /// Kernel identifier of the timer.
        timer: i32,
        /// The kernel's value of that clock: real processor time, in nanoseconds.
        real_ns: i64,
    },
    /// Requests a file for a program that is being released from its session. The supervisor makes
    /// the program issue this call; the image's own code does not.
    Give {
        /// Index of the file among those that the supervisor has prepared.
        gift: usize,
    },
    /// Sets a timerfd that reports changes of its clock.
    SetTimer {
        /// Descriptor of the timerfd.
        descriptor: i32,
        /// Flags of `timerfd_settime`.
        flags: i32,
        /// Address of the `struct itimerspec` with the new setting.
        new: P,
        /// Address to which the previous setting is written, or null.
        old: P,
        /// True if reads of timerfds trap in this process, so that the image reports a changed
        /// clock.
        is_told: bool,
    },
    /// Asks whether a descriptor is a timerfd. The image asks after a read that returned
    /// `CLOCK_WAS_SET`, a number that other files may contain too.
    IsTimer {
        /// Descriptor that was read.
        descriptor: i32,
    },
    /// Converts the timestamps left by an `ioctl` of a hardware clock to virtual time.
    PhcStamps {
        /// Command of the `ioctl`.
        command: u32,
        /// Address of the timestamps.
        stamps: P,
    },
    /// Asks for the value to show of a hardware clock.
    PhcTime {
        /// Reading of the hardware clock, in nanoseconds since that clock's zero.
        device_ns: i64,
        /// The machine's CLOCK_MONOTONIC at the instant of that reading, in nanoseconds.
        wall_ns: i64,
    },
    /// Asks for the time of the network card of the host, if `clock` contains a descriptor of the
    /// card's clock.
    CardTime {
        /// Identifier of the clock, which contains a descriptor.
        clock: u32,
        /// Address to which the time is written: a `struct timespec`.
        time: P,
    },
    /// Executes an `ioctl` of the network card of the host or of its clock.
    CardIoctl {
        /// Descriptor of the call: a socket, or the card's clock.
        descriptor: i32,
        /// Command of the call.
        command: u32,
        /// Argument of the call: an address.
        argument: P,
    },
    /// Opens the clock of the host's network card.
    OpenCard {
        /// Flags of `openat`.
        flags: u64,
    },
    /// Asks for the card's stamp of a frame, in nanoseconds; 0 for none.
    CardStamp {
        /// The kernel's stamp of the frame, by the machine's CLOCK_REALTIME in nanoseconds.
        kernel_ns: i64,
        /// Address of the received data. For a frame that was sent, the data begins with its
        /// Ethernet header.
        data: P,
        /// Length of the data in bytes.
        length: usize,
        /// True for a frame that was sent.
        is_sent: bool,
    },
    /// Reports that the program is about to install its own seccomp filter.
    Confines,
    /// Reports that the program's own seccomp filter is about to end it for a call.
    Ended {
        /// Number of the call that the filter forbids.
        call: i32,
    },
    /// Asks for the date to show in place of a date of an inode.
    FileDate {
        /// Device number and inode number.
        file: [u64; 2],
        /// The inode's date by the machine's clock, in nanoseconds since 1970.
        date_ns: i64,
    },
    /// Reports that a program has set this date of an inode, so that the supervisor shows it
    /// unchanged.
    KeepDate {
        /// Device number and inode number.
        file: [u64; 2],
        /// Date that the program has set, in nanoseconds since 1970.
        date_ns: i64,
        /// True for the date of the last access, false for that of the last modification.
        is_access: bool,
    },
}

impl<P> ImageCall<P> {
    /// Encodes the question as the six arguments of the system call.
    #[inline(always)]
    pub fn encode(self) -> [usize; 6]
    where
        P: Into<usize>,
    {
        match self {
            Self::CpuTime { clock, real_ns } => [clock as usize, real_ns as usize, 0, 0, 0, 0],
            Self::CpuTimeOfTimer { timer, real_ns } => [
                0,
                real_ns as usize,
                (timer as usize).wrapping_add(1),
                0,
                0,
                0,
            ],
            Self::Give { gift } => [GIVE, gift, 0, 0, 0, 0],
            Self::SetTimer {
                descriptor,
                flags,
                new,
                old,
                is_told,
            } => [
                SET_TIMER,
                descriptor as usize,
                flags as usize,
                new.into(),
                old.into(),
                usize::from(is_told),
            ],
            Self::IsTimer { descriptor } => [IS_TIMER, descriptor as usize, 0, 0, 0, 0],
            Self::PhcStamps { command, stamps } => {
                [PHC_STAMPS, command as usize, stamps.into(), 0, 0, 0]
            }
            Self::PhcTime { device_ns, wall_ns } => {
                [PHC_TIME, device_ns as usize, wall_ns as usize, 0, 0, 0]
            }
            Self::CardTime { clock, time } => [CARD_TIME, clock as usize, time.into(), 0, 0, 0],
            Self::CardIoctl {
                descriptor,
                command,
                argument,
            } => [
                CARD_IOCTL,
                descriptor as usize,
                command as usize,
                argument.into(),
                0,
                0,
            ],
            Self::OpenCard { flags } => [OPEN_CARD, flags as usize, 0, 0, 0, 0],
            Self::CardStamp {
                kernel_ns,
                data,
                length,
                is_sent,
            } => [
                CARD_STAMP,
                kernel_ns as usize,
                data.into(),
                length,
                usize::from(is_sent),
                0,
            ],
            Self::Confines => [CONFINES, 0, 0, 0, 0, 0],
            Self::Ended { call } => [ENDED, call as usize, 0, 0, 0, 0],
            Self::FileDate {
                file: [device, number],
                date_ns,
            } => {
                let file = [device as usize, number as usize];
                [FILE_DATE, file[0], file[1], date_ns as usize, 0, 0]
            }
            Self::KeepDate {
                file: [device, number],
                date_ns,
                is_access,
            } => [
                KEEP_DATE,
                device as usize,
                number as usize,
                date_ns as usize,
                usize::from(is_access),
                0,
            ],
        }
    }

    /// Decodes the six arguments of the system call. Returns `None` if they do not encode a
    /// question: any program can make the call.
    pub fn decode(words: [u64; 6]) -> Option<Self>
    where
        P: From<u64>,
    {
        let [question, first, second, third, fourth, fifth] = words;
        Some(match (question as usize, second) {
            (GIVE, _) => Self::Give {
                gift: first as usize,
            },
            (SET_TIMER, _) => Self::SetTimer {
                descriptor: first as i32,
                flags: second as i32,
                new: third.into(),
                old: fourth.into(),
                is_told: fifth != 0,
            },
            (IS_TIMER, _) => Self::IsTimer {
                descriptor: first as i32,
            },
            (PHC_STAMPS, _) => Self::PhcStamps {
                command: first as u32,
                stamps: second.into(),
            },
            (PHC_TIME, _) => Self::PhcTime {
                device_ns: first as i64,
                wall_ns: second as i64,
            },
            (CARD_TIME, _) => Self::CardTime {
                clock: first as u32,
                time: second.into(),
            },
            (CARD_IOCTL, _) => Self::CardIoctl {
                descriptor: first as i32,
                command: second as u32,
                argument: third.into(),
            },
            (OPEN_CARD, _) => Self::OpenCard { flags: first },
            (CARD_STAMP, _) => Self::CardStamp {
                kernel_ns: first as i64,
                data: second.into(),
                length: third as usize,
                is_sent: fourth != 0,
            },
            (CONFINES, _) => Self::Confines,
            (ENDED, _) => Self::Ended { call: first as i32 },
            (FILE_DATE, _) => Self::FileDate {
                file: [first, second],
                date_ns: third as i64,
            },
            (KEEP_DATE, _) => Self::KeepDate {
                file: [first, second],
                date_ns: third as i64,
                is_access: fourth != 0,
            },
            (0, 1..=TIMERS) => Self::CpuTimeOfTimer {
                timer: (second - 1) as i32,
                real_ns: first as i64,
            },
            (_, 0) => Self::CpuTime {
                clock: u32::try_from(question)
                    .ok()
                    .filter(|clock| counts_processor(*clock))?,
                real_ns: first as i64,
            },
            _ => return None,
        })
    }
}

/// Returns true if `clock` counts processor time: of the calling process, of the calling thread, or
/// of the process or thread that the identifier contains.
pub const fn counts_processor(clock: u32) -> bool {
    matches!(clock, PROCESS | THREAD) || (clock as i32) < 0 && clock & 3 != BY_DESCRIPTOR
}

/// CLOCK_PROCESS_CPUTIME_ID.
const PROCESS: u32 = 2;
/// CLOCK_THREAD_CPUTIME_ID.
const THREAD: u32 = 3;
/// CLOCKFD: value of the two lowest bits of an identifier that denotes a clock by descriptor.
const BY_DESCRIPTOR: u32 = 3;

// First arguments of the questions without a clock. No clock has these numbers.
const GIVE: usize = 0x7fff_fff0;
const SET_TIMER: usize = 0x7fff_fff1;
const IS_TIMER: usize = 0x7fff_fff2;
const PHC_STAMPS: usize = 0x7fff_fff3;
const PHC_TIME: usize = 0x7fff_fff4;
const ENDED: usize = 0x7fff_fff5;
const CONFINES: usize = 0x7fff_fff6;
const FILE_DATE: usize = 0x7fff_fff7;
const KEEP_DATE: usize = 0x7fff_fff8;
const CARD_TIME: usize = 0x7fff_fff9;
const CARD_IOCTL: usize = 0x7fff_fffa;
const OPEN_CARD: usize = 0x7fff_fffb;
const CARD_STAMP: usize = 0x7fff_fffc;
/// Offset added to a timer's identifier. The kernel's identifiers are not negative.
const TIMERS: u64 = 1 << 31;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_understood_as_it_was_asked() {
        let questions = [
            ImageCall::CpuTime {
                clock: PROCESS,
                real_ns: 5,
            },
            ImageCall::CpuTime {
                clock: !(77 << 3) & !1,
                real_ns: i64::MAX,
            },
            ImageCall::CpuTimeOfTimer {
                timer: 0,
                real_ns: 5,
            },
            ImageCall::CpuTimeOfTimer {
                timer: i32::MAX,
                real_ns: 0,
            },
            ImageCall::Give { gift: 3 },
            ImageCall::SetTimer {
                descriptor: -1,
                flags: 3,
                new: 16,
                old: 0,
                is_told: true,
            },
            ImageCall::IsTimer { descriptor: 4 },
            ImageCall::PhcStamps {
                command: 0xc4c0_3d09,
                stamps: 0x7fff_ffff_f000,
            },
            ImageCall::PhcTime {
                device_ns: -1,
                wall_ns: 1 << 62,
            },
            ImageCall::CardTime {
                clock: !(7 << 3) | 3,
                time: 16,
            },
            ImageCall::CardIoctl {
                descriptor: 3,
                command: 0x8946,
                argument: 24,
            },
            ImageCall::OpenCard { flags: 2 },
            ImageCall::CardStamp {
                kernel_ns: -1,
                data: 32,
                length: 86,
                is_sent: true,
            },
            ImageCall::Ended { call: 230 },
            ImageCall::Confines,
            ImageCall::FileDate {
                file: [u64::MAX, 7],
                date_ns: -1,
            },
            ImageCall::KeepDate {
                file: [1, u64::MAX],
                date_ns: 1 << 61,
                is_access: true,
            },
        ];
        for question in questions {
            let words = question.encode().map(|word| word as u64);
            assert_eq!(ImageCall::<Address>::decode(words), Some(held(question)));
        }
    }

    #[test]
    fn words_that_encode_no_image_call_are_refused() {
        for words in [
            [0; 6],                          // CLOCK_REALTIME
            [1, 5, 0, 0, 0, 0],              // CLOCK_MONOTONIC
            [0xffff_fffb, 5, 0, 0, 0, 0],    // a hardware clock
            [0x7fff_fffd, 0, 0, 0, 0, 0],    // the next number that would be one
            [0x1_0000_0002, 5, 0, 0, 0, 0],  // CLOCK_PROCESS_CPUTIME_ID and more
            [0, 5, u64::MAX, 0, 0, 0],       // a timer below zero
            [PROCESS.into(), 5, 1, 0, 0, 0], // a clock and a timer
        ] {
            assert_eq!(ImageCall::<Address>::decode(words), None, "{words:x?}");
        }
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Address(u64);

    impl From<u64> for Address {
        fn from(address: u64) -> Self {
            Self(address)
        }
    }

    fn held(question: ImageCall<usize>) -> ImageCall<Address> {
        let address = |it| Address(it as u64);
        match question {
            ImageCall::CpuTime { clock, real_ns } => ImageCall::CpuTime { clock, real_ns },
            ImageCall::CpuTimeOfTimer { timer, real_ns } => {
                ImageCall::CpuTimeOfTimer { timer, real_ns }
            }
            ImageCall::Give { gift } => ImageCall::Give { gift },
            ImageCall::SetTimer {
                descriptor,
                flags,
                new,
                old,
                is_told,
            } => ImageCall::SetTimer {
                descriptor,
                flags,
                new: address(new),
                old: address(old),
                is_told,
            },
            ImageCall::IsTimer { descriptor } => ImageCall::IsTimer { descriptor },
            ImageCall::PhcStamps { command, stamps } => ImageCall::PhcStamps {
                command,
                stamps: address(stamps),
            },
            ImageCall::PhcTime { device_ns, wall_ns } => ImageCall::PhcTime { device_ns, wall_ns },
            ImageCall::Ended { call } => ImageCall::Ended { call },
            ImageCall::CardTime { clock, time } => ImageCall::CardTime {
                clock,
                time: address(time),
            },
            ImageCall::CardIoctl {
                descriptor,
                command,
                argument,
            } => ImageCall::CardIoctl {
                descriptor,
                command,
                argument: address(argument),
            },
            ImageCall::OpenCard { flags } => ImageCall::OpenCard { flags },
            ImageCall::CardStamp {
                kernel_ns,
                data,
                length,
                is_sent,
            } => ImageCall::CardStamp {
                kernel_ns,
                data: address(data),
                length,
                is_sent,
            },
            ImageCall::Confines => ImageCall::Confines,
            ImageCall::FileDate { file, date_ns } => ImageCall::FileDate { file, date_ns },
            ImageCall::KeepDate {
                file,
                date_ns,
                is_access,
            } => ImageCall::KeepDate {
                file,
                date_ns,
                is_access,
            },
        }
    }
}
