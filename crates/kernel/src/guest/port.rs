//! Where records go.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::records::{self, PORT_NAME, Record};

const PORTS: &str = "/sys/class/virtio-ports";
/// The second serial line, for kernels without virtio ports.
const SECOND_SERIAL: &str = "/dev/ttyS1";

/// A way out for records.
pub struct Port {
    to: Box<dyn Write>,
}

impl Port {
    /// Records go to this program's output.
    pub fn standard_output() -> Self {
        Port { to: Box::new(io::stdout()) }
    }

    /// The first of: the virtio port called [`PORT_NAME`], the second serial line, the console.
    pub(super) fn open_in_guest() -> Self {
        let found = virtio_port().and_then(|path| open(&path).ok());
        let found = found.or_else(|| open(Path::new(SECOND_SERIAL)).ok().filter(answers));
        found.map_or_else(Self::standard_output, |file| Port { to: Box::new(file) })
    }

    /// Sends one record at once. A reader that has gone away is no reason to stop: the guest
    /// goes on to its end, and the machine with it.
    pub fn send(&mut self, record: &Record) {
        let line = records::line(record);
        let _ = self.to.write_all(line.as_bytes()).and_then(|()| self.to.flush());
    }
}

fn virtio_port() -> Option<PathBuf> {
    let ports = fs::read_dir(PORTS).ok()?.filter_map(Result::ok);
    let named = |port: &fs::DirEntry| {
        fs::read_to_string(port.path().join("name")).is_ok_and(|name| name.trim() == PORT_NAME)
    };
    ports.filter(named).map(|port| Path::new("/dev").join(port.file_name())).next()
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(path)
}

/// Whether a line has hardware behind it: the file is there without, and refuses to be written.
fn answers(file: &File) -> bool {
    (&*file).write_all(b"\n").is_ok()
}
