//! Bytes read one number after the other, never beyond their end.

/// There are fewer bytes than were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Truncated;

/// What is left to be read; numbers are little-endian.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    pub(crate) fn bytes(self) -> &'a [u8] {
        self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Truncated> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Truncated)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Truncated> {
        self.take().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Truncated> {
        self.take().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Truncated> {
        self.take().map(u32::from_le_bytes)
    }

    pub(crate) fn skip(&mut self, bytes: u32) -> Result<(), Truncated> {
        *self = self.rest_at(bytes)?;
        Ok(())
    }

    /// What begins `at` bytes from here.
    pub(crate) fn rest_at(self, at: u32) -> Result<Reader<'a>, Truncated> {
        self.0.get(at as usize..).map(Reader).ok_or(Truncated)
    }

    /// The `bytes` bytes that begin `at` bytes from here.
    pub(crate) fn part(self, at: u32, bytes: u32) -> Result<Reader<'a>, Truncated> {
        self.rest_at(at)?.0.get(..bytes as usize).map(Reader).ok_or(Truncated)
    }
}
