//! Seccomp filter that decides for each system call: trap, ask the supervisor, or pass.
//!
//! The filter is narrow: a call that carries no time and cannot break the trap is allowed by its
//! number alone. The kernel remembers that in a bitmap and does not even run the filter for such
//! calls (`seccomp_cache_prepare`). Therefore the number is checked before anything else.
//!
//! The treatment of each call comes from the table of `timeloom_abi::calls`.

use libc::sock_filter;
use timeloom_abi::calls::{
    Call, CallCondition, NEWEST, TRAP_MARK, Treatment, calls, find, verdict,
};
use timeloom_abi::{ADDRESS_HIGH_HALF, IMAGE_ADDRESS, IMAGE_LIMIT};

use self::condition::condition;
use crate::arch::AUDIT_ARCH;
use crate::linux::bpf::{ADDRESS_HIGH, ADDRESS_LOW, ARCHITECTURE, Label, NUMBER, Step, assemble};

mod condition;

/// Returns the name of a call in the table, by its number.
pub(crate) fn name_of(number: i64) -> &'static str {
    find(number).map_or("?", |call| call.name)
}

/// Kind of guest for which a filter is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guest {
    /// Program started in the session, which it cannot leave.
    Launched,
    /// Program started in a session that emulates the time-stamp counter.
    EmulatingTsc,
    /// Program started in a session that shows virtual dates of files.
    DatingFiles,
    /// Program started in a session that emulates the counter and shows virtual dates.
    EmulatingAndDating,
    /// Program attached to the session, which may be detached later. The filter therefore lets its
    /// requests to the supervisor pass only from inside the image.
    Registered,
}

impl Guest {
    /// Returns the kind of a program that is started in a session.
    pub(crate) fn launched(emulates_tsc: bool, dates_files: bool) -> Self {
        match (emulates_tsc, dates_files) {
            (false, false) => Self::Launched,
            (true, false) => Self::EmulatingTsc,
            (false, true) => Self::DatingFiles,
            (true, true) => Self::EmulatingAndDating,
        }
    }

    /// Returns the condition that replaces the call's usual one in guests of this kind; `None` if
    /// there is none.
    fn instead(self, call: &Call, has_card: bool) -> Option<CallCondition> {
        let emulates = matches!(self, Self::EmulatingTsc | Self::EmulatingAndDating);
        let dates = matches!(self, Self::DatingFiles | Self::EmulatingAndDating);
        let emulating = call.emulating_tsc.filter(|_| emulates);
        let carded = call.with_card.filter(|_| has_card);
        emulating.or(call.file_times.filter(|_| dates)).or(carded)
    }
}

/// Call, with its condition and treatment by one filter.
struct Entry {
    number: u32,
    treatment: Treatment,
    when: CallCondition,
}

/// Returns the calls that a guest's filter treats, in the order of its checks.
fn entries(guest: Guest, has_card: bool) -> Vec<Entry> {
    let usual = calls()
        .filter(|call| guest.instead(call, has_card).is_none())
        .filter_map(|call| Some((call, call.treatment?, call.when)));
    let instead =
        calls().filter_map(|call| Some((call, Treatment::Trap, guest.instead(call, has_card)?)));
    let all = usual.chain(instead);
    all.filter_map(|(call, treatment, when)| {
        let number = call.number()?;
        Some(Entry {
            number,
            treatment,
            when,
        })
    })
    .collect()
}

/// Returns the BPF program for `seccomp(SECCOMP_SET_MODE_FILTER)`, for a guest on a host without a
/// network card of the model.
pub(crate) fn program(guest: Guest) -> Vec<sock_filter> {
    program_on(guest, false)
}

/// Returns the BPF program like [`program`], for a guest whose host may have a network card of the
/// model.
pub(crate) fn program_on(guest: Guest, has_card: bool) -> Vec<sock_filter> {
    let entries = entries(guest, has_card);
    let mut steps = vec![
        Step::Load(ARCHITECTURE),
        Step::IfEqual(AUDIT_ARCH, NATIVE),
        Step::Return(REFUSE),
        Step::Mark(NATIVE),
        Step::Load(NUMBER),
        Step::IfAtLeast(NEWEST + 1, BEYOND),
    ];
    // A call with two treatments has two adjacent entries, of which the first counts.
    let mut numbers: Vec<_> = labels(&entries).collect();
    numbers.dedup_by_key(|(number, _)| *number);
    let (usual, beyond) = numbers
        .into_iter()
        .partition(|(number, _)| *number <= NEWEST);
    search(&mut steps, usual, libc::SECCOMP_RET_ALLOW);
    // Larger numbers are calls of future kernels. On x86-64 they include calls of x32, through
    // which a program could bypass the filter. Among them, only the image's own call passes.
    steps.push(Step::Mark(BEYOND));
    search(&mut steps, beyond, REFUSE);
    for (index, entry) in entries.iter().enumerate() {
        steps.push(Step::Mark(FIRST_CALL + index as Label));
        let label = label_of(entry.treatment, guest);
        condition(&mut steps, entry.when, label, has_card);
        // A call with two treatments has two adjacent entries; this is the first of them.
        if entries
            .get(index + 1)
            .is_none_or(|next| next.number != entry.number)
        {
            steps.push(Step::Return(libc::SECCOMP_RET_ALLOW));
        }
    }
    unless_inside(&mut steps, TRAPPED, TRAP);
    unless_inside(&mut steps, ASKED_OUTSIDE, libc::SECCOMP_RET_USER_NOTIF);
    steps.extend([
        Step::Mark(ASKED),
        Step::Return(libc::SECCOMP_RET_USER_NOTIF),
        Step::Mark(REFUSED),
        Step::Return(REFUSE),
    ]);
    assemble(&steps)
}

/// Returns the additional filter of an attached program that is released. Calls that the first
/// filter would send to the supervisor trap instead, since a trap takes precedence; from inside the
/// image they pass. So the program needs no supervisor, except for an exec.
pub(crate) fn release_program() -> Vec<sock_filter> {
    let mut steps = vec![
        Step::Load(ARCHITECTURE),
        Step::IfEqual(AUDIT_ARCH, NATIVE),
        Step::Return(libc::SECCOMP_RET_ALLOW), // the first filter refuses
        Step::Mark(NATIVE),
        Step::Load(NUMBER),
    ];
    let asked = entries(Guest::Registered, false).into_iter().filter(
        |entry| matches!(entry.treatment, Treatment::Ask(service) if !service.outlasts_session()),
    );
    let asked: Vec<Entry> = asked.collect();
    search(
        &mut steps,
        labels(&asked).collect(),
        libc::SECCOMP_RET_ALLOW,
    );
    for (index, entry) in asked.iter().enumerate() {
        steps.push(Step::Mark(FIRST_CALL + index as Label));
        condition(&mut steps, entry.when, TRAPPED, false);
        steps.push(Step::Return(libc::SECCOMP_RET_ALLOW));
    }
    unless_inside(&mut steps, TRAPPED, TRAP);
    assemble(&steps)
}

/// Returns the number of each entry's call, and the label of its treatment.
fn labels(entries: &[Entry]) -> impl Iterator<Item = (u32, Label)> {
    let all = entries.iter().zip(FIRST_CALL..);
    all.map(|(entry, label)| (entry.number, label))
}

/// Emits code that goes to the label of the loaded call number, or returns `otherwise`. The kernel
/// runs the filter at each trap, at each call of the image, and at each return from a signal
/// handler. The numbers are therefore searched by halves, after the most frequent ones.
fn search(steps: &mut Vec<Step>, mut numbers: Vec<(u32, Label)>, otherwise: u32) {
    for frequent in FREQUENT {
        let place = numbers
            .iter()
            .position(|(number, _)| i64::from(*number) == frequent);
        if let Some((number, label)) = place.map(|place| numbers.swap_remove(place)) {
            steps.push(Step::IfEqual(number, label));
        }
    }
    numbers.sort_unstable();
    halve(steps, &numbers, otherwise);
}

fn halve(steps: &mut Vec<Step>, numbers: &[(u32, Label)], otherwise: u32) {
    if numbers.len() <= COMPARED_IN_TURN {
        let tests = numbers.iter();
        steps.extend(tests.map(|&(number, label)| Step::IfEqual(number, label)));
        return steps.push(Step::Return(otherwise));
    }
    let (lower, upper) = numbers.split_at(numbers.len() / 2);
    let of_upper = UPPER_HALF + upper[0].1;
    steps.push(Step::IfAtLeast(upper[0].0, of_upper));
    halve(steps, lower, otherwise);
    steps.push(Step::Mark(of_upper));
    halve(steps, upper, otherwise);
}

/// Emits code at `label` that returns `action`, but lets calls from inside the image pass. A call
/// of the image that only asks for the verdict of the program's own filters is not made.
fn unless_inside(steps: &mut Vec<Step>, label: Label, action: u32) {
    let [inside, outside, judged] = [label + INSIDE, label + OUTSIDE, label + JUDGED];
    steps.extend([
        Step::Mark(label),
        Step::Load(ADDRESS_HIGH),
        Step::IfEqual(ADDRESS_HIGH_HALF, inside),
        Step::Return(action),
        Step::Mark(inside),
        Step::Load(ADDRESS_LOW),
        Step::IfAtLeast((IMAGE_ADDRESS + IMAGE_LIMIT) as u32, outside),
        Step::IfAtLeast(IMAGE_ADDRESS as u32, label + ALLOWED),
        Step::Return(action),
        Step::Mark(label + ALLOWED),
        Step::IfEqual(IMAGE_ADDRESS as u32 + verdict::FORESEE, judged),
        Step::IfEqual(IMAGE_ADDRESS as u32 + verdict::JUDGE, judged),
        Step::Return(libc::SECCOMP_RET_ALLOW),
        Step::Mark(judged),
        Step::Return(PROCEED),
        Step::Mark(outside),
        Step::Return(action),
    ]);
}

fn label_of(treatment: Treatment, guest: Guest) -> Label {
    match treatment {
        Treatment::Trap => TRAPPED,
        Treatment::Ask(service) if guest == Guest::Registered && !service.outlasts_session() => {
            ASKED_OUTSIDE
        }
        Treatment::Ask(_) => ASKED,
        Treatment::Refuse => REFUSED,
    }
}

/// Trap action, with the mark by which the image recognises traps of Timeloom's filters.
pub(crate) const TRAP: u32 = libc::SECCOMP_RET_TRAP | TRAP_MARK as u32;
/// Action that answers the image's question for a verdict: the program's own filters allow the
/// call.
pub(crate) const PROCEED: u32 = libc::SECCOMP_RET_ERRNO | verdict::PROCEED as u32;
pub(crate) const REFUSE: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;

const NATIVE: Label = 1;
const TRAPPED: Label = 2;
const ASKED: Label = 3;
const REFUSED: Label = 4;
const ASKED_OUTSIDE: Label = 5;
const BEYOND: Label = 6;
/// Offset that [`unless_inside`] adds to a label, for a label of its own.
const INSIDE: Label = 100;
const OUTSIDE: Label = 200;
const JUDGED: Label = 300;
const ALLOWED: Label = 400;
const FIRST_CALL: Label = 1_000;
/// Offset that [`halve`] adds to the label of a call, for a label of its own.
const UPPER_HALF: Label = 10_000;
const LOCAL: Label = 100_000;
/// Calls that are compared first: one that ends each trap, and one that programs make most.
const FREQUENT: [i64; 2] = [libc::SYS_rt_sigreturn, libc::SYS_clock_gettime];
/// Number of calls that the filter compares one after the other.
const COMPARED_IN_TURN: usize = 3;

pub(crate) mod oracle;
#[cfg(test)]
mod tests;
