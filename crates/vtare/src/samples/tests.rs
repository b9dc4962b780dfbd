use std::ffi::OsString;
use std::fs;

use super::*;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;

struct Example {
    source: &'static str,
    index: Option<i64>,
    cost_ps: i64,
    disturbed: bool,
}

columns!(row: Example {
    string "source" = row.source, "what";
    optional_int64 "index" = row.index, "where";
    int64 "cost_ps" = row.cost_ps, "how much";
    boolean "disturbed" = row.disturbed, "whether";
});

const EXAMPLE: Example = Example { source: "a", index: Some(1), cost_ps: 2, disturbed: true };

struct Short(i64);

columns!(row: Short {
    int64 "index" = row.0, "where";
});

/// A fresh directory for one test, removed when dropped.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("vtare-samples-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("the temporary directory is writable");
        Self(path)
    }

    fn files(&self) -> Vec<OsString> {
        fs::read_dir(&self.0).expect("the place exists").map(|entry| entry.expect("readable").file_name()).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).expect("the place was ours");
    }
}

#[test]
fn a_name_that_ends_in_csv_gets_a_line_a_row_with_text_quoted_and_missing_values_empty() {
    let place = Place::new("csv");
    let path = place.0.join("samples.CSV");
    let mut samples = Samples::create(&path, Example::COLUMNS).expect("the place is writable");
    for (source, index) in [("rdtsc", Some(1)), ("a,\"b\"", None)] {
        samples.row(&Example { source, index, cost_ps: -1, disturbed: true }).expect("rows are written");
    }
    assert!(!path.exists());
    samples.finish(&serde_json::json!({})).expect("the file is completed");
    let names = Example::COLUMNS.iter().map(|column| column.name).collect::<Vec<_>>().join(",");
    let text = fs::read_to_string(&path).expect("it is there");
    assert_eq!(text, format!("{names}\nrdtsc,1,-1,true\n\"a,\"\"b\"\"\",,-1,true\n"));
}

#[test]
fn rows_come_back_as_written_across_row_groups_with_the_footer() {
    let place = Place::new("round-trip");
    let path = place.0.join("samples.parquet");
    let mut samples = Samples::create(&path, Example::COLUMNS).expect("the place is writable");
    let rows = GROUP_ROWS as i64 + 10;
    for row in 0..rows {
        let source = if row % 2 == 0 { "rdtsc" } else { "gettimeofday" };
        let index = (row % 3 != 0).then_some(row);
        samples.row(&Example { source, index, cost_ps: -row, disturbed: row == 7 }).expect("rows are written");
    }
    assert!(!path.exists());
    samples.finish(&serde_json::json!({"schema": "vtare.samples/1"})).expect("the file is completed");
    assert_eq!(place.files(), ["samples.parquet"]);

    let reader = SerializedFileReader::new(File::open(&path).expect("it is there")).expect("it is Parquet");
    assert_eq!(reader.num_row_groups(), 2);
    let footer = reader.metadata().file_metadata().key_value_metadata().expect("there is a footer");
    let entry = footer.iter().find(|pair| pair.key == FOOTER_KEY).expect("it is vtare's");
    assert_eq!(entry.value.as_deref(), Some(r#"{"schema":"vtare.samples/1"}"#));
    for (row, record) in reader.get_row_iter(None).expect("rows are readable").enumerate() {
        let (row, record) = (row as i64, record.expect("a row is readable"));
        assert_eq!(record.get_string(0).expect("text"), if row % 2 == 0 { "rdtsc" } else { "gettimeofday" });
        assert_eq!(record.get_long(1).ok(), (row % 3 != 0).then_some(row));
        assert_eq!(record.get_long(2).expect("an integer"), -row);
        assert_eq!(record.get_bool(3).expect("a truth value"), row == 7);
    }
}

#[test]
fn the_encodings_are_those_of_the_contract() {
    let place = Place::new("encodings");
    let path = place.0.join("s.parquet");
    let mut samples = Samples::create(&path, Example::COLUMNS).expect("the place is writable");
    samples.row(&EXAMPLE).expect("a row is written");
    samples.finish(&serde_json::json!({})).expect("the file is completed");
    let reader = SerializedFileReader::new(File::open(&path).expect("it is there")).expect("it is Parquet");
    let group = reader.metadata().row_group(0);
    assert!(group.columns().iter().all(|column| column.compression() == Compression::LZ4_RAW));
    let uses = |column: usize, encoding| group.column(column).encodings().any(|found| found == encoding);
    assert!(uses(0, Encoding::RLE_DICTIONARY));
    assert!(uses(1, Encoding::DELTA_BINARY_PACKED) && uses(2, Encoding::DELTA_BINARY_PACKED));
}

#[test]
fn dropped_samples_leave_nothing_behind() {
    let place = Place::new("dropped");
    let samples = Samples::create(&place.0.join("s.parquet"), Example::COLUMNS).expect("the place is writable");
    drop(samples);
    assert!(place.files().is_empty());
}

#[test]
fn a_row_that_does_not_fit_is_refused() {
    let place = Place::new("misfit");
    let mut samples = Samples::create(&place.0.join("s.parquet"), Example::COLUMNS).expect("the place is writable");
    assert!(samples.row(&Short(1)).is_err(), "the row of another file");
    let mut short = Samples::create(&place.0.join("short.parquet"), Short::COLUMNS).expect("the place is writable");
    assert!(short.row(&EXAMPLE).is_err(), "more columns than the file has");
}

#[test]
fn a_path_that_cannot_be_written_is_named() {
    let missing = Path::new("/nonexistent-directory/s.parquet");
    let error = Samples::create(missing, Example::COLUMNS).map(|_| ()).expect_err("there is no such directory");
    assert!(matches!(error, SamplesError::Refused { .. }));
    assert!(error.to_string().contains("/nonexistent-directory/s.parquet"), "{error}");
    assert!(Samples::create(&std::env::temp_dir(), Example::COLUMNS).is_err(), "a directory is no file");
}

#[test]
fn timer_rows_cost_few_bytes_each() {
    let place = Place::new("size");
    let path = place.0.join("s.parquet");
    let mut samples = Samples::create(&path, Example::COLUMNS).expect("the place is writable");
    let rows = 300_000_i64;
    for row in 0..rows {
        // Slow readings: 1 to 16 us on a lattice, a few readings apart.
        let cost = 1_000_000 + (row * 7_919 % 1_500) * 10_015;
        samples
            .row(&Example { source: "rdtsc", index: Some(row * 30), cost_ps: cost, disturbed: false })
            .expect("rows are written");
    }
    samples.finish(&serde_json::json!({})).expect("the file is completed");
    let bytes = fs::metadata(&path).expect("it is there").len();
    assert!(bytes < 5 * rows as u64, "{bytes} B for {rows} rows");
}

#[test]
fn a_device_is_refused_and_a_link_is_followed() {
    let error = Samples::create(Path::new("/dev/null"), Example::COLUMNS).map(|_| ()).expect_err("it is a device");
    assert!(error.to_string().contains("/dev/null: this is no regular file"), "{error}");
    let place = Place::new("link");
    let (link, file) = (place.0.join("link"), place.0.join("file"));
    fs::write(&file, "old").expect("the place is writable");
    std::os::unix::fs::symlink(&file, &link).expect("the place is writable");
    let samples = Samples::create(&link, Example::COLUMNS).expect("the place is writable");
    samples.finish(&serde_json::json!({})).expect("the file is completed");
    assert!(link.is_symlink() && fs::read(&file).expect("it is there").starts_with(b"PAR1"));
}
