//! Samples as Parquet: LZ4_RAW, integers DELTA_BINARY_PACKED, strings as dictionary, written in row groups as they
//! come. A file whose name ends in `.csv` is CSV (RFC 4180, a missing value is empty), without the origin of the
//! samples.
//!
//! The file appears under its name only when it is whole ([`WholeFile`]).

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use serde::Serialize;

use vtare_sys::whole_file::WholeFile;

/// The key of the footer entry with the origin of the samples.
pub(crate) const FOOTER_KEY: &str = "vtare";
/// Rows that are gathered before they are encoded and written.
const GROUP_ROWS: usize = 1 << 16;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// UTF-8 text, of few distinct values.
    String,
    /// 64-bit signed integer.
    Int64,
    /// True or false.
    Boolean,
}

/// One column of a samples file, as `vtare schema --columns` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Column {
    /// Its name, with the unit as suffix.
    pub(crate) name: &'static str,
    /// What it holds.
    #[serde(rename = "type")]
    pub(crate) kind: Kind,
    /// Whether a value may be missing.
    pub(crate) nullable: bool,
    /// What it means.
    pub(crate) meaning: &'static str,
}

impl Column {
    /// A column of text without missing values.
    pub(crate) const fn string(name: &'static str, meaning: &'static str) -> Self {
        Self { name, kind: Kind::String, nullable: false, meaning }
    }

    /// A column of text, some of which may be missing.
    pub(crate) const fn optional_string(name: &'static str, meaning: &'static str) -> Self {
        Self { name, kind: Kind::String, nullable: true, meaning }
    }

    /// A column of integers without missing values.
    pub(crate) const fn int64(name: &'static str, meaning: &'static str) -> Self {
        Self { name, kind: Kind::Int64, nullable: false, meaning }
    }

    /// A column of integers, some of which may be missing.
    pub(crate) const fn optional_int64(name: &'static str, meaning: &'static str) -> Self {
        Self { name, kind: Kind::Int64, nullable: true, meaning }
    }

    /// A column of truth values.
    pub(crate) const fn boolean(name: &'static str, meaning: &'static str) -> Self {
        Self { name, kind: Kind::Boolean, nullable: false, meaning }
    }
}

/// A row of samples: each column is declared together with the expression that gives its value, by `columns!`.
pub(crate) trait Row {
    /// The columns, in order.
    const COLUMNS: &'static [Column];

    /// Gives the value of each column, in order.
    fn fill(&self, put: &mut dyn FnMut(Cell<'_>));
}

/// Declares the columns of a row: `KIND NAME = VALUE, "MEANING";` for each, where KIND is one of the constructors of
/// [`Column`], NAME carries the unit as suffix, and VALUE is of the type that the constructor of that name takes in
/// [`Cell`]. A column that may not be missing so cannot be given a missing value.
macro_rules! columns {
    ($row:ident: $type:ty { $($kind:ident $name:literal = $value:expr, $meaning:literal;)+ }) => {
        impl $crate::samples::Row for $type {
            const COLUMNS: &'static [$crate::samples::Column] =
                &[$($crate::samples::Column::$kind($name, $meaning)),+];

            fn fill(&self, put: &mut dyn FnMut($crate::samples::Cell<'_>)) {
                let $row = self;
                $(put($crate::samples::Cell::$kind($value));)+
            }
        }
    };
}

/// One value of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cell<'a> {
    /// For [`Kind::String`].
    Text(&'a str),
    /// For [`Kind::Int64`].
    Integer(i64),
    /// For [`Kind::Int64`] and [`Kind::String`] with missing values.
    Missing,
    /// For [`Kind::Boolean`].
    Truth(bool),
}

impl<'a> Cell<'a> {
    /// For [`Column::string`].
    pub(crate) const fn string(value: &'a str) -> Self {
        Self::Text(value)
    }

    /// For [`Column::optional_string`].
    pub(crate) fn optional_string(value: Option<&'a str>) -> Self {
        value.map_or(Self::Missing, Self::Text)
    }

    /// For [`Column::int64`].
    pub(crate) const fn int64(value: i64) -> Self {
        Self::Integer(value)
    }

    /// For [`Column::optional_int64`].
    pub(crate) fn optional_int64(value: Option<i64>) -> Self {
        value.map_or(Self::Missing, Self::Integer)
    }

    /// For [`Column::boolean`].
    pub(crate) const fn boolean(value: bool) -> Self {
        Self::Truth(value)
    }
}

/// A count as a value: the greatest one that a column holds where it is beyond.
pub(crate) fn count(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The nearest whole number as a value; `None` for what is no number.
pub(crate) fn nearest(value: f64) -> Option<i64> {
    value.is_finite().then(|| value.round() as i64)
}

/// Why samples could not be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SamplesError {
    /// The file could not be opened for writing: a wrong path or no permission.
    #[error("cannot write samples to {}: {source}: choose a file in a directory that exists and is \
        writable", path.display())]
    Refused {
        /// The file asked for.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
    /// Writing failed midway, as on a full disk. The partial file is gone.
    #[error(
        "cannot write samples to {}: {reason}: {needed_byte} B or more were needed; free that much or choose another \
         place (nothing was left behind)",
        path.display()
    )]
    Write {
        /// The file asked for.
        path: PathBuf,
        /// What the system answered.
        reason: String,
        /// What was written so far and what was about to be.
        needed_byte: u64,
    },
    /// The samples do not fit the columns: a mistake in vtare.
    #[error("cannot encode samples for {}: {reason}: please report this", path.display())]
    Encode {
        /// The file asked for.
        path: PathBuf,
        /// What the encoder answered.
        reason: String,
    },
}

/// Where samples go: to a file, or nowhere when only the figures are wanted.
pub(crate) struct Samples(Option<Box<Writing>>);

struct Writing {
    path: PathBuf,
    file: Option<WholeFile>,
    writer: Option<Writer>,
    columns: Vec<Buffer>,
    rows: usize,
}

enum Writer {
    Parquet(SerializedFileWriter<File>),
    Csv { file: BufWriter<File>, written_byte: u64 },
}

enum Buffer {
    Text { words: HashMap<Box<str>, ByteArray>, values: Vec<ByteArray>, present: Option<Vec<i16>> },
    Integer { values: Vec<i64>, present: Option<Vec<i16>> },
    Truth(Vec<bool>),
}

impl Samples {
    /// Samples that nobody keeps.
    pub(crate) fn discard() -> Self {
        Self(None)
    }

    /// Opens a file for samples of `columns` that is to appear at `path`.
    ///
    /// # Errors
    /// [`SamplesError::Refused`] at once, before anything is measured, where the file cannot be written.
    pub(crate) fn create(path: &Path, columns: &[Column]) -> Result<Self, SamplesError> {
        let refused = |source| SamplesError::Refused { path: path.to_owned(), source };
        let file = WholeFile::create(path).map_err(refused)?;
        let handle = file.handle().map_err(refused)?;
        let mut writing = Writing {
            path: file.target().to_owned(),
            file: Some(file),
            writer: None,
            columns: columns.iter().map(Buffer::of).collect(),
            rows: 0,
        };
        if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("csv")) {
            writing.writer = Some(Writer::Csv { file: BufWriter::new(handle), written_byte: 0 });
            writing.line(&columns.iter().map(|column| column.name).collect::<Vec<_>>().join(","))?;
        } else {
            let schema = parse_message_type(&message(columns)).map_err(|error| writing.failure(error))?;
            let writer = SerializedFileWriter::new(handle, Arc::new(schema), Arc::new(properties(columns)));
            writing.writer = Some(Writer::Parquet(writer.map_err(|error| writing.failure(error))?));
        }
        Ok(Self(Some(Box::new(writing))))
    }

    /// Whether rows are kept: where not, an instrument can spare itself building them.
    pub(crate) fn kept(&self) -> bool {
        self.0.is_some()
    }

    /// Adds one row. Never call this inside a measured stretch.
    ///
    /// # Errors
    /// Where a row group could not be written.
    pub(crate) fn row(&mut self, row: &impl Row) -> Result<(), SamplesError> {
        self.0.as_mut().map_or(Ok(()), |writing| writing.row(row))
    }

    /// Completes the file with `footer` and gives it its name.
    ///
    /// # Errors
    /// Where the rest could not be written; the partial file is removed then.
    pub(crate) fn finish(self, footer: &serde_json::Value) -> Result<(), SamplesError> {
        self.0.map_or(Ok(()), |mut writing| writing.finish(footer))
    }
}

impl Writing {
    fn row(&mut self, row: &impl Row) -> Result<(), SamplesError> {
        if matches!(self.writer, Some(Writer::Csv { .. })) {
            let mut fields = Vec::with_capacity(self.columns.len());
            row.fill(&mut |cell| fields.push(field(cell)));
            return self.line(&fields.join(","));
        }
        let (mut columns, mut fits) = (self.columns.iter_mut(), true);
        row.fill(&mut |cell| fits &= columns.next().is_some_and(|column| column.push(cell)));
        if !fits || columns.next().is_some() {
            let reason = format!("a row does not fit the {} columns of this file", self.columns.len());
            return Err(SamplesError::Encode { path: self.path.clone(), reason });
        }
        self.rows += 1;
        if self.rows >= GROUP_ROWS { self.write_group() } else { Ok(()) }
    }

    fn line(&mut self, line: &str) -> Result<(), SamplesError> {
        let Some(Writer::Csv { file, written_byte }) = &mut self.writer else { return Ok(()) };
        *written_byte += line.len() as u64 + 1;
        let needed_byte = *written_byte;
        writeln!(file, "{line}").map_err(|error| lost(&self.path, error.to_string(), needed_byte))
    }

    fn write_group(&mut self) -> Result<(), SamplesError> {
        let result = match &mut self.writer {
            Some(Writer::Parquet(writer)) if self.rows > 0 => encode(writer, &self.columns),
            _ => return Ok(()),
        };
        result.map_err(|error| self.failure(error))?;
        self.columns.iter_mut().for_each(Buffer::clear);
        self.rows = 0;
        Ok(())
    }

    fn finish(&mut self, footer: &serde_json::Value) -> Result<(), SamplesError> {
        self.write_group()?;
        let needed_byte = match self.writer.take() {
            None => return Ok(()),
            Some(Writer::Parquet(mut writer)) => {
                writer.append_key_value_metadata(KeyValue::new(FOOTER_KEY.to_owned(), footer.to_string()));
                let needed_byte = writer.bytes_written() as u64 + footer.to_string().len() as u64;
                writer.finish().map_err(|error| lost(&self.path, plain(&error), needed_byte))?;
                writer.flush().map_err(|error| lost(&self.path, error.to_string(), needed_byte))?;
                needed_byte
            }
            Some(Writer::Csv { mut file, written_byte }) => {
                file.flush().map_err(|error| lost(&self.path, error.to_string(), written_byte))?;
                written_byte
            }
        };
        let kept = self.file.take().map_or(Ok(()), WholeFile::keep);
        kept.map_err(|error| lost(&self.path, error.to_string(), needed_byte))
    }

    fn failure(&self, error: ParquetError) -> SamplesError {
        match &error {
            ParquetError::External(_) => {
                let written = match &self.writer {
                    Some(Writer::Parquet(writer)) => writer.bytes_written() as u64,
                    _ => 0,
                };
                // The rows at hand in their compressed form: about 2 B for each value.
                let pending = (self.rows * self.columns.len() * 2) as u64;
                SamplesError::Write { path: self.path.clone(), reason: plain(&error), needed_byte: written + pending }
            }
            _ => SamplesError::Encode { path: self.path.clone(), reason: error.to_string() },
        }
    }
}

fn lost(path: &Path, reason: String, needed_byte: u64) -> SamplesError {
    SamplesError::Write { path: path.to_owned(), reason, needed_byte }
}

/// A value of a CSV file; quoted where it would end the field or the line.
fn field(cell: Cell<'_>) -> String {
    match cell {
        Cell::Missing => String::new(),
        Cell::Integer(value) => value.to_string(),
        Cell::Truth(value) => value.to_string(),
        Cell::Text(text) if text.contains([',', '"', '\n', '\r']) => format!("\"{}\"", text.replace('"', "\"\"")),
        Cell::Text(text) => text.to_owned(),
    }
}

/// The system's own words inside a Parquet error.
fn plain(error: &ParquetError) -> String {
    match error {
        ParquetError::External(source) => source.to_string(),
        other => other.to_string(),
    }
}

impl Buffer {
    fn of(column: &Column) -> Self {
        match column.kind {
            Kind::String => {
                Self::Text { words: HashMap::new(), values: Vec::new(), present: column.nullable.then(Vec::new) }
            }
            Kind::Int64 => Self::Integer { values: Vec::new(), present: column.nullable.then(Vec::new) },
            Kind::Boolean => Self::Truth(Vec::new()),
        }
    }

    /// Takes the cell where it fits the column.
    fn push(&mut self, cell: Cell<'_>) -> bool {
        match (self, cell) {
            (Self::Text { words, values, present }, Cell::Text(text)) => {
                // Few distinct words: sharing them makes a row cost a reference count.
                let word = match words.get(text) {
                    Some(word) => word.clone(),
                    None => words.entry(text.into()).or_insert_with(|| ByteArray::from(text)).clone(),
                };
                values.push(word);
                if let Some(levels) = present {
                    levels.push(1);
                }
            }
            (Self::Integer { values, present }, Cell::Integer(value)) => {
                values.push(value);
                if let Some(levels) = present {
                    levels.push(1);
                }
            }
            (Self::Integer { present: Some(levels), .. } | Self::Text { present: Some(levels), .. }, Cell::Missing) => {
                levels.push(0)
            }
            (Self::Truth(values), Cell::Truth(truth)) => values.push(truth),
            _ => return false,
        }
        true
    }

    fn clear(&mut self) {
        match self {
            Self::Text { words, values, present } => {
                // Else a file of many peers would keep all their names in memory.
                words.clear();
                values.clear();
                if let Some(levels) = present {
                    levels.clear();
                }
            }
            Self::Integer { values, present } => {
                values.clear();
                if let Some(levels) = present {
                    levels.clear();
                }
            }
            Self::Truth(values) => values.clear(),
        }
    }

    fn write(&self, column: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        match self {
            Self::Text { values, present, .. } => {
                column.typed::<ByteArrayType>().write_batch(values, present.as_deref(), None)?
            }
            Self::Integer { values, present } => {
                column.typed::<Int64Type>().write_batch(values, present.as_deref(), None)?
            }
            Self::Truth(values) => column.typed::<BoolType>().write_batch(values, None, None)?,
        };
        Ok(())
    }
}

fn encode(writer: &mut SerializedFileWriter<File>, columns: &[Buffer]) -> Result<(), ParquetError> {
    let mut group = writer.next_row_group()?;
    for buffer in columns {
        let mut column = group.next_column()?.ok_or_else(|| ParquetError::General("a column is missing".to_owned()))?;
        buffer.write(&mut column)?;
        column.close()?;
    }
    group.close()?;
    Ok(())
}

/// The columns in Parquet's own schema language.
fn message(columns: &[Column]) -> String {
    let fields = columns.iter().map(|column| {
        let presence = if column.nullable { "optional" } else { "required" };
        let name = column.name;
        match column.kind {
            Kind::String => format!("{presence} binary {name} (STRING);"),
            Kind::Int64 => format!("{presence} int64 {name};"),
            Kind::Boolean => format!("{presence} boolean {name};"),
        }
    });
    format!("message samples {{ {} }}", fields.collect::<Vec<_>>().join(" "))
}

fn properties(columns: &[Column]) -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_created_by(format!("vtare {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::LZ4_RAW)
        .set_statistics_enabled(EnabledStatistics::Chunk);
    for column in columns {
        let path = ColumnPath::from(column.name);
        properties = match column.kind {
            Kind::String => properties.set_column_dictionary_enabled(path, true),
            Kind::Int64 => properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED),
            Kind::Boolean => properties.set_column_dictionary_enabled(path, false),
        };
    }
    properties.build()
}

#[cfg(test)]
mod tests;
