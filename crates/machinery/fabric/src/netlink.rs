//! Requests to the kernel's configuration socket (route netlink), and their answers.

use std::io;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_ACK_TLVS, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload, NlasIterator,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use crate::KernelError;

/// Route netlink socket. It configures the namespace in which it was opened, whichever thread uses
/// it, and keeps that namespace alive.
pub(crate) struct RouteSocket {
    socket: Socket,
    sequence: u32,
}

/// Error with which the kernel refused a request.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) error: io::Error,
    /// The kernel's own text about the error, if there is one.
    pub(crate) words: Option<String>,
}

impl Refusal {
    pub(crate) fn during(self, action: impl Into<String>) -> KernelError {
        KernelError::new(action, self.error).with_detail(self.words)
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self { error, words: None }
    }
}

impl RouteSocket {
    /// Opens a socket in the namespace of the calling thread.
    pub(crate) fn open_here() -> Result<Self, KernelError> {
        let open = || {
            let socket = Socket::new(NETLINK_ROUTE)?;
            socket.connect(&SocketAddr::new(0, 0))?;
            // Both options only improve error messages, so an old kernel need not support them.
            let _ = socket.set_ext_ack(true);
            let _ = socket.set_cap_ack(true);
            Ok(Self {
                socket,
                sequence: 0,
            })
        };
        open().map_err(|error| KernelError::new("open a netlink socket", error))
    }

    /// Sends a request for a change, and waits until the kernel has made or refused the change.
    pub(crate) fn change(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<(), Refusal> {
        self.send(message, NLM_F_REQUEST | NLM_F_ACK | flags)?;
        self.answer().map(drop)
    }

    /// Sends a query for one object and returns the answer.
    pub(crate) fn get(
        &mut self,
        message: RouteNetlinkMessage,
    ) -> Result<RouteNetlinkMessage, Refusal> {
        self.send(message, NLM_F_REQUEST)?;
        self.answer()?
            .ok_or_else(|| unexpected("an acknowledgement in place of an object"))
    }

    /// Sends a query for all objects of a kind and returns the answers.
    pub(crate) fn list(
        &mut self,
        message: RouteNetlinkMessage,
    ) -> Result<Vec<RouteNetlinkMessage>, Refusal> {
        self.send(message, NLM_F_REQUEST | NLM_F_DUMP)?;
        let mut objects = Vec::new();
        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            let mut rest = &bytes[..];
            // A datagram contains several messages, each at a multiple of four bytes.
            while !rest.is_empty() {
                let one = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
                    .map_err(|error| unexpected(&error.to_string()))?;
                let length = (one.header.length as usize).next_multiple_of(4);
                rest = rest.get(length..).unwrap_or_default();
                match one.payload {
                    NetlinkPayload::InnerMessage(object) => objects.push(object),
                    NetlinkPayload::Done(_) => return Ok(objects),
                    NetlinkPayload::Error(error) => return Err(error.to_io().into()),
                    _ => return Err(unexpected("a message of a kind that is not known")),
                }
            }
        }
    }

    fn send(&mut self, message: RouteNetlinkMessage, flags: u16) -> Result<(), Refusal> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        header.sequence_number = self.sequence;
        let mut request = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        Ok(())
    }

    fn answer(&mut self) -> Result<Option<RouteNetlinkMessage>, Refusal> {
        let (bytes, _) = self.socket.recv_from_full()?;
        let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&bytes)
            .map_err(|error| unexpected(&error.to_string()))?;
        if answer.header.sequence_number != self.sequence {
            return Err(unexpected("an answer to another request"));
        }
        match answer.payload {
            NetlinkPayload::InnerMessage(message) => Ok(Some(message)),
            NetlinkPayload::Error(error) if error.code.is_none() => Ok(None),
            NetlinkPayload::Error(error) => {
                let told = answer.header.flags & NLM_F_ACK_TLVS != 0;
                let words = if told {
                    kernels_words(&error.header)
                } else {
                    None
                };
                Err(Refusal {
                    error: error.to_io(),
                    words,
                })
            }
            NetlinkPayload::Done(_) => Err(unexpected("the end of a list")),
            NetlinkPayload::Noop => Err(unexpected("nothing")),
            NetlinkPayload::Overrun(_) => Err(unexpected("an overrun")),
            _ => Err(unexpected("a message of a kind that is not known")),
        }
    }
}

/// Returns the text that follows the echoed request header in an error message.
fn kernels_words(echo: &[u8]) -> Option<String> {
    const NLMSGERR_ATTR_MSG: u16 = 1;
    const REQUEST_HEADER_LEN: usize = 16;
    NlasIterator::new(echo.get(REQUEST_HEADER_LEN..)?)
        .filter_map(Result::ok)
        .find(|attribute| attribute.kind() == NLMSGERR_ATTR_MSG)
        .map(|attribute| {
            String::from_utf8_lossy(attribute.value())
                .trim_end_matches('\0')
                .to_owned()
        })
}

fn unexpected(what: &str) -> Refusal {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("unexpected netlink answer: {what}"),
    )
    .into()
}

#[cfg(test)]
mod tests {
    use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
    use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkInfo, LinkMessage};
    use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};

    use rustix::io::Errno;

    use super::*;
    use crate::Namespace;

    /// Checks the kernel's error numbers and texts from which our errors derive "this needs …",
    /// with requests for features that no kernel has. Needs root.
    #[test]
    fn errors_of_a_kernel_without_a_feature_are_recognised() {
        let namespace = Namespace::create("test").expect("run this test as root");
        let mut route = namespace.run(RouteSocket::open_here).unwrap().unwrap();
        let create = NLM_F_CREATE | NLM_F_EXCL;

        let mut link = LinkMessage::default();
        let kind = InfoKind::Other("nosuch".to_owned());
        link.attributes
            .push(LinkAttribute::LinkInfo(vec![LinkInfo::Kind(kind)]));
        let refusal = route
            .change(RouteNetlinkMessage::NewLink(link), create)
            .unwrap_err();
        assert_eq!(Errno::from_io_error(&refusal.error), Some(Errno::OPNOTSUPP));
        assert_eq!(refusal.words.as_deref(), Some("Unknown device type"));

        let mut queue = TcMessage::with_index(1);
        queue.header.parent = TcHandle::ROOT;
        queue
            .attributes
            .push(TcAttribute::Kind("nosuch".to_owned()));
        let request = RouteNetlinkMessage::NewQueueDiscipline(queue);
        let error = route
            .change(request, create)
            .unwrap_err()
            .during("shape")
            .missing_if(&[Errno::NOENT], "a queue");
        assert_eq!(error.missing(), Some("a queue"));
        assert!(
            error
                .to_string()
                .contains("Specified qdisc kind is unknown"),
            "{error}"
        );
    }
}
