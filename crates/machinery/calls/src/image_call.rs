//! What the image asks the supervisor.
//!
//! It makes a system call of a number that no kernel has. The first argument says which
//! question it is, the others are what is asked about.

/// The number of that call.
pub const IMAGE_CALL: usize = 0x1e57_0001;

/// A question of the image's.
///
/// `P` is how an address in the program's memory is held: a number in the image, which
/// is in that program; in the supervisor something that only alleges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageCall<P> {
    /// What CPU clock `clock` is to show when the kernel says `real_ns`.
    CpuTime {
        /// A `clockid_t` that counts time on the processor.
        clock: u32,
        /// Nanoseconds on the processor.
        real_ns: i64,
    },
    /// What the CPU clock of a timer of the kernel's is to show when the kernel says
    /// `real_ns`.
    CpuTimeOfTimer {
        /// The kernel's identifier of the timer.
        timer: i32,
        /// Nanoseconds on the processor.
        real_ns: i64,
    },
    /// A file that a program which is being let go is to get. (Not asked by the image,
    /// but in its name.)
    Give {
        /// Which of the files that lie ready.
        gift: usize,
    },
    /// Sets a timerfd that is to tell when its clock is set.
    SetTimer {
        /// The timerfd.
        descriptor: i32,
        /// As `timerfd_settime` takes them.
        flags: i32,
        /// A `struct itimerspec` to set.
        new: P,
        /// Where to put what was set before, or null.
        old: P,
        /// Whether the reads of this process come to the image.
        is_told: bool,
    },
    /// Whether a descriptor, from which the mark of a set clock was read, is a timerfd.
    IsTimer {
        /// The descriptor.
        descriptor: i32,
    },
    /// Puts the stamps that an `ioctl` of a hardware clock has left onto virtual time.
    PhcStamps {
        /// Which `ioctl`.
        command: u32,
        /// Where the stamps lie.
        stamps: P,
    },
    /// What a hardware clock is to show.
    PhcTime {
        /// What it showed.
        device_ns: i64,
        /// What the machine's CLOCK_MONOTONIC showed then.
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
    /// As the arguments of the call.
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

    /// From the arguments of the call. `None` for what is no question: anybody can make
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

/// Whether a clock counts time on the processor: the calling process's, the calling
/// thread's, or that of the one whose number is in the identifier.
pub const fn counts_processor(clock: u32) -> bool {
    matches!(clock, PROCESS | THREAD) || (clock as i32) < 0 && clock & 3 != BY_DESCRIPTOR
}

/// CLOCK_PROCESS_CPUTIME_ID and CLOCK_THREAD_CPUTIME_ID.
const PROCESS: u32 = 2;
const THREAD: u32 = 3;
/// CLOCKFD, in the lowest bits of an identifier below zero.
const BY_DESCRIPTOR: u32 = 3;

// In the place of a clock: no clock has these numbers.
const GIVE: usize = 0x7fff_fff0;
const SET_TIMER: usize = 0x7fff_fff1;
const IS_TIMER: usize = 0x7fff_fff2;
const PHC_STAMPS: usize = 0x7fff_fff3;
const PHC_TIME: usize = 0x7fff_fff4;
const ENDED: usize = 0x7fff_fff5;
const CONFINES: usize = 0x7fff_fff6;
const FILE_DATE: usize = 0x7fff_fff7;
const KEEP_DATE: usize = 0x7fff_fff8;
/// The kernel's identifiers are not negative.
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
