//! Where the fields of events lie: the kernel's `format` files.

use std::collections::BTreeMap;

/// A field: where it begins and how long it is, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// From the beginning of the event.
    pub offset: usize,
    /// 1, 2, 4 or 8 for numbers.
    pub size: usize,
}

impl Field {
    /// The field as a number, if it lies within `data`.
    pub fn unsigned(&self, data: &[u8]) -> Option<u64> {
        let bytes = data.get(self.offset..self.offset + self.size)?;
        match self.size {
            1 => Some(bytes[0].into()),
            2 => Some(u16::from_ne_bytes(bytes.try_into().ok()?).into()),
            4 => Some(u32::from_ne_bytes(bytes.try_into().ok()?).into()),
            8 => Some(u64::from_ne_bytes(bytes.try_into().ok()?)),
            _ => None,
        }
    }
}

/// An event's number and fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// What its first two bytes say.
    pub id: u64,
    fields: BTreeMap<String, Field>,
}

impl Layout {
    /// Reads an event's `format` file.
    pub fn parse(text: &str) -> Option<Layout> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID: "))?.trim().parse().ok()?;
        let fields = fields(text);
        (!fields.is_empty()).then_some(Layout { id, fields })
    }

    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<Field> {
        self.fields.get(name).copied()
    }
}

/// What a page of a buffer looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLayout {
    /// Time of its first event.
    pub timestamp: Field,
    /// Bytes in use, and flags.
    pub commit: Field,
    /// Where the events begin.
    pub data_offset: usize,
    /// Size of a page.
    pub size: usize,
}

/// Reads `events/header_page`.
pub fn page_layout(text: &str) -> Option<PageLayout> {
    let fields = fields(text);
    let data = fields.get("data")?;
    Some(PageLayout {
        timestamp: *fields.get("timestamp")?,
        commit: *fields.get("commit")?,
        data_offset: data.offset,
        size: data.offset + data.size,
    })
}

/// Lines such as `field:pid_t prev_pid; offset:24; size:4; signed:1;`, with tabs between.
fn fields(text: &str) -> BTreeMap<String, Field> {
    let field = |line: &str| {
        let (declaration, rest) = line.trim().strip_prefix("field:")?.split_once(';')?;
        let name = declaration.rsplit(' ').next()?.split('[').next()?;
        let value = |key: &str| -> Option<usize> {
            let from = rest.find(key)? + key.len();
            rest[from..].split(';').next()?.parse().ok()
        };
        Some((name.to_string(), Field { offset: value("offset:")?, size: value("size:")? }))
    };
    text.lines().filter_map(field).collect()
}

#[cfg(test)]
mod tests {
    //! Goal: formats are read as kernels write them. Method: lines of a 6.18 kernel.
    use super::*;

    const SWITCH: &str = "name: sched_switch\nID: 372\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
        \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\n\
        print fmt: \"prev_comm=%s\", REC->prev_comm\n";

    #[test]
    fn fields_are_found_by_name_with_their_places() {
        let layout = Layout::parse(SWITCH).unwrap();
        assert_eq!(layout.id, 372);
        assert_eq!(layout.field("prev_pid"), Some(Field { offset: 24, size: 4 }));
        assert_eq!(layout.field("prev_comm"), Some(Field { offset: 8, size: 16 }));
        assert_eq!(layout.field("next_pid"), None);
        assert_eq!(Layout::parse("ID: 3\n"), None);
    }

    #[test]
    fn a_field_beyond_the_event_is_none() {
        let data = [1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(Field { offset: 4, size: 4 }.unsigned(&data), Some(0x0807_0605));
        assert_eq!(Field { offset: 6, size: 4 }.unsigned(&data), None);
        assert_eq!(Field { offset: 0, size: 3 }.unsigned(&data), None);
    }

    #[test]
    fn the_header_of_pages_says_where_events_begin() {
        let text = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
            \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
            \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
            \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
        let page = page_layout(text).unwrap();
        assert_eq!((page.data_offset, page.size), (16, 4096));
        assert_eq!(page.commit, Field { offset: 8, size: 8 });
    }
}
