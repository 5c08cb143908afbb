//! Questions of the image to the supervisor.
//!
//! The image makes a system call of a number that no kernel has. The first argument identifies the
//! question, the others are its parameters.

/// Number of that call.
pub const IMAGE_CALL: usize = 0x1e57_0001;

/// A question of the image.
///
/// `P` represents an address in the program's memory: in the image a number, since the image is in
/// that program; in the supervisor an unverified address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageCall<P> {
    /// Asks for the value to show of CPU clock `clock` for the kernel's value `real_ns`.
    CpuTime {
        /// A `clockid_t` that counts processor time.
        clock: u32,
        /// Processor time in nanoseconds.
        real_ns: i64,
    },
    /// Asks for the value to show of a kernel timer's CPU clock for the kernel's value `real_ns`.
    CpuTimeOfTimer {
        /// Kernel identifier of the timer.
        timer: i32,
        /// Processor time in nanoseconds.
        real_ns: i64,
    },
    /// Requests a file for a program that is being released. (Made on behalf of the image, not by
    /// it.)
    Give {
        /// Index of the prepared file.
        gift: usize,
    },
    /// Sets a timerfd that reports changes of its clock.
    SetTimer {
        /// The timerfd.
        descriptor: i32,
        /// Flags of `timerfd_settime`.
        flags: i32,
        /// A `struct itimerspec` to set.
        new: P,
        /// Address for the previous setting, or null.
        old: P,
        /// True if the reads of this process trap to the image.
        is_told: bool,
    },
    /// Asks if a descriptor, from which the mark of a changed clock was read, is a timerfd.
    IsTimer {
        /// The descriptor.
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
        /// Reading of the hardware clock.
        device_ns: i64,
        /// The machine's CLOCK_MONOTONIC at that reading.
        wall_ns: i64,
    },
    /// Reports that the program is about to install a seccomp filter of its own.
    Confines,
    /// Reports that a seccomp filter of the program's own is about to end it for a call.
    Ended {
        /// The call's number.
        call: i32,
    },
    /// Asks for the date to show in place of an inode's date.
    FileDate {
        /// Device and number of the inode.
        file: [u64; 2],
        /// The date, in nanoseconds since 1970.
        date_ns: i64,
    },
    /// Reports that a program has set this date of an inode, so that it is shown unchanged.
    KeepDate {
        /// Device and number of the inode.
        file: [u64; 2],
        /// The date, in nanoseconds since 1970.
        date_ns: i64,
        /// True for the date of the last access, false for that of the last modification.
        is_access: bool,
    },
}

impl<P> ImageCall<P> {
    /// Encodes the question as the arguments of the call.
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

    /// Decodes the arguments of the call. `None` if they are not a question: any program can make
    /// the call.
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

/// Returns true if a clock counts processor time: of the calling process, of the calling thread, or
/// of the one given in the identifier.
pub const fn counts_processor(clock: u32) -> bool {
    matches!(clock, PROCESS | THREAD) || (clock as i32) < 0 && clock & 3 != BY_DESCRIPTOR
}

/// CLOCK_PROCESS_CPUTIME_ID and CLOCK_THREAD_CPUTIME_ID.
const PROCESS: u32 = 2;
const THREAD: u32 = 3;
/// CLOCKFD, in the lowest bits of a negative identifier.
const BY_DESCRIPTOR: u32 = 3;

// Used in place of a clock: no clock has these numbers.
const GIVE: usize = 0x7fff_fff0;
const SET_TIMER: usize = 0x7fff_fff1;
const IS_TIMER: usize = 0x7fff_fff2;
const PHC_STAMPS: usize = 0x7fff_fff3;
const PHC_TIME: usize = 0x7fff_fff4;
const ENDED: usize = 0x7fff_fff5;
const CONFINES: usize = 0x7fff_fff6;
const FILE_DATE: usize = 0x7fff_fff7;
const KEEP_DATE: usize = 0x7fff_fff8;
/// Kernel identifiers are not negative.
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
    fn what_is_no_question_is_refused() {
        for words in [
            [0; 6],                          // CLOCK_REALTIME
            [1, 5, 0, 0, 0, 0],              // CLOCK_MONOTONIC
            [0xffff_fffb, 5, 0, 0, 0, 0],    // a hardware clock
            [0x7fff_fff9, 0, 0, 0, 0, 0],    // the next number that would be one
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
