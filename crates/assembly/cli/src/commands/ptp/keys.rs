//! Commands `timeloom ptp keygen`, `sign`, `rotate` and `show`: key files of PTP clocks.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use timeloom_ptp_io::keys::{
    KeyDirectory, SignRequest, make_authority, make_node, rotate, sign_ring, suite_name,
};
use timeloom_ptp_io::{PtpInterface, Suite};
use timeloom_run::exit::{Failure, say};

/// Kind of the keys of a clock.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum SuiteName {
    /// Fast to sign and to verify; 64 octets and more per hop
    Ed25519,
    /// BLS: one aggregate signature of 48 octets for all hops of the path; slower than ed25519.
    Bls,
    /// Aggregate signature as with `bls`, but each key signs a single Sync, so that nearly all of
    /// the signature is computed in advance
    BlsOnce,
}

impl From<SuiteName> for Suite {
    fn from(name: SuiteName) -> Self {
        match name {
            SuiteName::Ed25519 => Self::Ed25519,
            SuiteName::Bls => Self::Bls,
            SuiteName::BlsOnce => Self::BlsOnce,
        }
    }
}

/// Create the key of a clock, or an authority
///
/// The secret stays in DIR/node.key (mode 600) on this machine. DIR/node.pub must be sent to the
/// authority, which signs the ring of all clocks.
#[derive(Args)]
#[command(
    after_help = "Example: timeloom ptp keygen --authority keys/authority\n         timeloom ptp keygen keys/gm --name gm -i eth0"
)]
pub(crate) struct Keygen {
    /// Directory for the files
    directory: PathBuf,
    /// Create an authority: authority.key and authority.pub
    #[arg(long, conflicts_with_all = ["name", "clock", "interface", "suite"])]
    authority: bool,
    /// Name of the clock, for display
    #[arg(long, required_unless_present = "authority")]
    name: Option<String>,
    /// clockIdentity, 16 hexadecimal digits
    #[arg(long, value_name = "ID", conflicts_with = "interface")]
    clock: Option<String>,
    /// Derive the clockIdentity from the hardware address of this interface
    #[arg(short = 'i', long, value_name = "IFACE", required_unless_present_any = ["clock", "authority"])]
    interface: Option<String>,
    /// Kind of key
    #[arg(long, value_enum, default_value = "ed25519")]
    suite: SuiteName,
    /// For bls-once: number of ports with a key; on further ports, signing is as slow as with bls
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=63))]
    ports: u8,
}

impl Keygen {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if self.authority {
            make_authority(&self.directory)?;
            say!("{}", self.directory.join("authority.pub").display());
            return Ok(ExitCode::SUCCESS);
        }
        let clock = match (self.clock, self.interface) {
            (Some(clock), _) => clock,
            (None, Some(interface)) => PtpInterface::find(&interface)?.clock_identity().to_string(),
            (None, None) => return Err(Failure::usage("give --clock or -i")),
        };
        make_node(
            &self.directory,
            &self.name.unwrap_or_default(),
            &clock,
            self.suite.into(),
            self.ports,
        )?;
        say!("{}", self.directory.join("node.pub").display());
        Ok(ExitCode::SUCCESS)
    }
}

/// Sign the ring: its members, possible grandmasters, and the epoch in force
///
/// Adds the given node.pub files to the ring, after a check that their owners have the secrets, and
/// signs the ring with the next serial number. Then copy ring.toml and authority.pub to the
/// directory of every clock; a running clock notices the change within a second.
#[derive(Args)]
#[command(
    after_help = "Example: timeloom ptp sign --authority keys/authority/authority.key --ring ring.toml \\\n           --grandmaster gm keys/*/node.pub"
)]
pub(crate) struct Sign {
    /// File with the secret of the authority, authority.key
    #[arg(long, value_name = "FILE")]
    authority: PathBuf,
    /// File of the ring that is created or continued
    #[arg(long, value_name = "FILE")]
    ring: PathBuf,
    /// Files with the public keys of clocks, node.pub
    publics: Vec<PathBuf>,
    /// Clock that may be grandmaster (name or identity); may be repeated
    #[arg(long = "grandmaster", value_name = "CLOCK")]
    grandmasters: Vec<String>,
    /// Epoch whose keys the clocks use for signing from now on
    #[arg(long, value_name = "EPOCH")]
    use_epoch: Option<u8>,
    /// Epoch whose keys are no longer valid; may be repeated
    #[arg(long = "retire", value_name = "EPOCH")]
    retire: Vec<u8>,
    /// End of the epoch in use, e.g. 2027-01-01T00:00:00Z
    #[arg(long, value_name = "RFC3339")]
    not_after: Option<jiff::Timestamp>,
}

impl Sign {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let ring = sign_ring(&SignRequest {
            authority: self.authority,
            ring: self.ring.clone(),
            publics: self.publics,
            grandmasters: self.grandmasters,
            retire: self.retire,
            signing_epoch: self.use_epoch,
            not_after_s: self.not_after.map(jiff::Timestamp::as_second),
        })?;
        say!(
            "{}: serial {}, {} keys, signing with epoch {}",
            self.ring.display(),
            ring.serial,
            ring.members.len(),
            ring.signing_epoch
        );
        Ok(ExitCode::SUCCESS)
    }
}

/// Add a key for the next epoch to those of a clock
///
/// Afterwards the authority must sign the new node.pub, so that all clocks learn the key. Later it
/// signs again with --use-epoch, so that all clocks use the key, and finally with --retire.
#[derive(Args)]
#[command(after_help = "Example: timeloom ptp rotate keys/gm")]
pub(crate) struct Rotate {
    /// Directory of the clock
    directory: PathBuf,
    /// Number of epochs whose secrets are kept
    #[arg(long, default_value_t = 2)]
    keep: usize,
}

impl Rotate {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        say!("epoch {}", rotate(&self.directory, self.keep)?);
        Ok(ExitCode::SUCCESS)
    }
}

/// Check the directory of a clock like a program that uses it, and show its contents
#[derive(Args)]
pub(crate) struct Show {
    /// Directory of the clock
    directory: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Show {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let loaded = KeyDirectory::new(&self.directory).load()?;
        let suite = suite_name(loaded.secret.suite());
        let mut names: Vec<(&String, String)> = loaded
            .names
            .0
            .iter()
            .map(|(clock, name)| (name, clock.to_string()))
            .collect();
        names.sort();
        if self.json {
            let object = serde_json::json!({
                "name": loaded.name, "clock": loaded.clock.to_string(), "index": loaded.index, "suite": suite,
                "epoch": loaded.epoch, "ring_serial": loaded.serial, "may_lead": loaded.may_lead,
                "members": names.iter().map(|(name, clock)| serde_json::json!({"name": name, "clock": clock})).collect::<Vec<_>>(),
            });
            say!("{object}");
            return Ok(ExitCode::SUCCESS);
        }
        let rank = if loaded.may_lead {
            "may be grandmaster"
        } else {
            "may not be grandmaster"
        };
        say!(
            "{} {}: {suite}, epoch {}, index {}, {rank}",
            loaded.name,
            loaded.clock,
            loaded.epoch,
            loaded.index
        );
        say!("ring {}:", loaded.serial);
        names
            .iter()
            .for_each(|(name, clock)| say!("  {clock}  {name}"));
        Ok(ExitCode::SUCCESS)
    }
}
