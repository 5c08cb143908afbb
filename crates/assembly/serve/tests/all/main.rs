//! The live view as browsers and hostile pages meet it: requests over a socket.

mod access;
mod hostile;
mod sessions;
mod socket;
mod support;
