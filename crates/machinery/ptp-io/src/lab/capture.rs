//! Capture of the last cable of the chain, as a pcapng file with nanosecond timestamps.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use pcap_file::DataLink;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use timeloom_fabric::{CaptureOptions, Namespace, PacketCapture};

use crate::PtpError;

/// Records all frames of `interface` into the file at `path` until the capture is stopped.
pub(super) fn record(
    namespace: &Namespace,
    interface: &str,
    path: &Path,
) -> Result<PacketCapture, PtpError> {
    let file = File::create(path).map_err(PtpError::file(path))?;
    let mut writer =
        PcapNgWriter::new(BufWriter::new(file)).map_err(|error| failed(path, error))?;
    let mut description = InterfaceDescriptionBlock::new(DataLink::ETHERNET, 65_535);
    description.options = vec![
        InterfaceDescriptionOption::IfName(Cow::from(format!(
            "{} of {}",
            interface,
            namespace.name()
        ))),
        InterfaceDescriptionOption::IfTsResol(9),
    ];
    writer
        .write_pcapng_block(description)
        .map_err(|error| failed(path, error))?;
    let capture = PacketCapture::start_with(
        namespace,
        interface,
        CaptureOptions::default(),
        move |frame| {
            let block = EnhancedPacketBlock {
                interface_id: 0,
                timestamp: Duration::from_nanos(frame.realtime_ns.max(0).unsigned_abs()),
                original_len: frame.original_len,
                data: Cow::Borrowed(&frame.bytes),
                options: Vec::new(),
            };
            // A full disk loses the capture, but must not end the experiment.
            let _ = writer.write_pcapng_block(block);
            let _ = writer.get_mut().flush();
        },
    )?;
    Ok(capture)
}

fn failed(path: &Path, error: pcap_file::PcapError) -> PtpError {
    PtpError::File {
        path: path.to_owned(),
        error: std::io::Error::other(error),
    }
}
